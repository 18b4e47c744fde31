//! What watching a stream costs: 100 events of about 250 bytes, in one chunk and one by one.

#![allow(missing_docs, clippy::unwrap_used, reason = "criterion's macros")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pointsman::engine::stream_text::StreamText;
use std::hint::black_box;

const EVENT: &str = "data: {\"id\":\"chatcmpl-a23387c22e877d46\",\"object\":\"chat.completion.chunk\",\"created\":1796105290,\
    \"model\":\"lora-1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" qu\"},\"logprobs\":null,\
    \"finish_reason\":null,\"token_ids\":null}]}\n\n";

fn watch(criterion: &mut Criterion) {
    let all = EVENT.repeat(100);
    let mut group = criterion.benchmark_group("stream_text");
    group.throughput(Throughput::Bytes(all.len() as u64));
    let mut stream = StreamText::sse();
    group.bench_function("100 events in one chunk", |b| b.iter(|| stream.feed(black_box(all.as_bytes()))));
    group.throughput(Throughput::Bytes(EVENT.len() as u64));
    group.bench_function("one event a chunk", |b| b.iter(|| stream.feed(black_box(EVENT.as_bytes()))));
    group.finish();
}

criterion_group!(benches, watch);
criterion_main!(benches);
