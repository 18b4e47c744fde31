//! How long it takes to read what a request wants, to splice its body and to hash its prefix blocks.
//!
//! Chat bodies as clients write them: several turns, a line end every 70 bytes and quotes now and then, so that strings are
//! full of escapes; `cjk` is unescaped UTF-8 beyond ASCII, `escaped` the same as `\uXXXX` (Python's default), `plain` one long
//! string without escapes, `tokens` an array of numbers.

#![allow(clippy::expect_used, reason = "a bench may stop at a body it got wrong itself")]

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use http::HeaderMap;
use pointsman::request::{AdapterFields, Endpoint, Splice, Wanted, read};
use std::hint::black_box;

const SIZES: [(&str, usize); 3] = [("1KiB", 1 << 10), ("32KiB", 32 << 10), ("1MiB", 1 << 20)];

const LINE: &str = r#"The quick brown fox says \"points\" to the signalman, who sets the route.\n"#;
const CJK: &str = "転轍手は列車が空いている線路に着くように分岐器を動かす。";

/// A chat body of about `size` bytes whose contents repeat `text`.
fn chat(size: usize, text: &str) -> Bytes {
    let head =
        r#"{"model":"base:lora","stream":true,"temperature":0.7,"max_tokens":256,"user":"user-1234","messages":["#;
    let mut body = format!(r#"{head}{{"role":"system","content":"You are a helpful assistant."}}"#);
    let turn = (size / 8).max(200);
    while body.len() + 40 < size {
        let content = text.repeat((turn.min(size - body.len()) / text.len()).max(1));
        body += &format!(r#",{{"role":"user","content":"{content}"}}"#);
    }
    Bytes::from(body + "]}")
}

fn embeddings(size: usize) -> Bytes {
    Bytes::from(format!(r#"{{"model":"base","input":[{}0]}}"#, "15496, 995, ".repeat(size / 12)))
}

fn wanted(body: &[u8]) -> Wanted {
    read(Endpoint::ChatCompletions, &HeaderMap::new(), body).expect("the bench's bodies are well-formed")
}

fn reading(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("read");
    let mut bench = |kind: &str, size: &str, body: Bytes| {
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(BenchmarkId::new(kind, size), |bencher| bencher.iter(|| wanted(black_box(&body))));
    };
    for (name, size) in SIZES {
        bench("chat", name, chat(size, LINE));
        bench("cjk", name, chat(size, CJK));
    }
    bench("plain", "1MiB", chat(1 << 20, &"x".repeat(1 << 20)));
    bench("escaped", "1MiB", chat(1 << 20, r"\u8ee2\u8f4d\u624b\u306f"));
    bench("tokens", "1MiB", embeddings(1 << 20));
}

fn splicing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("splice");
    for (name, size) in SIZES {
        let body = chat(size, LINE);
        let wanted = wanted(&body);
        let splice = Splice { model: Some("lora"), adapter: AdapterFields::Remove };
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(name, |bencher| bencher.iter(|| splice.apply(black_box(&body), &wanted)));
    }
}

fn hashing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("prefix_blocks");
    for (name, size) in SIZES {
        let body = chat(size, LINE);
        let wanted = wanted(&body);
        group.bench_function(name, |bencher| bencher.iter(|| wanted.prefix_blocks(black_box(&body), 1)));
    }
}

criterion_group!(benches, reading, splicing, hashing);
criterion_main!(benches);
