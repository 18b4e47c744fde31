//! Reads the wanted lines of a Prometheus text: bytes in, [`Readout`] out.
//!
//! Never fails: a line it cannot read is a line that was not there. It never allocates per line; only the names of the
//! running adapters, taken once at the end, are copied.

use super::Readout;
use memchr::{memchr, memchr_iter, memrchr};

/// Reads a vLLM or llama.cpp metrics text. The names do not overlap, so the kind need not be told.
pub fn parse(text: &[u8]) -> Readout {
    let mut found = Found::default();
    let mut start = 0;
    for end in memchr_iter(b'\n', text).chain([text.len()]) {
        found.line(text.get(start..end).unwrap_or_default());
        start = end + 1;
    }
    found.into_readout()
}

#[derive(Default)]
struct Found<'a> {
    readout: Readout,
    capacity: Option<f64>,
    newest_lora: Option<(f64, &'a [u8])>,
}

impl<'a> Found<'a> {
    fn line(&mut self, line: &'a [u8]) {
        if !matches!(line.first(), Some(b'v' | b'l' | b'p')) {
            return;
        }
        let Some(sample) = Sample::read(line) else { return };
        if let Some(name) = sample.name.strip_prefix(b"vllm:") {
            self.vllm(name, &sample);
        } else if let Some(name) = sample.name.strip_prefix(b"llamacpp:") {
            self.llamacpp(name, sample.value);
        } else if sample.name == b"process_start_time_seconds" {
            self.readout.start_time = Some(sample.value);
        }
    }

    /// Data-parallel engines give one series each. Counts add up. For KV the fullest engine counts: a request cannot
    /// choose its engine, and the first full one already preempts, which a mean would hide.
    fn vllm(&mut self, name: &[u8], sample: &Sample<'a>) {
        let (out, value) = (&mut self.readout, sample.value);
        match without_total(name) {
            b"num_requests_running" => add(&mut out.running, value),
            b"num_requests_waiting" => add(&mut out.waiting, value),
            b"num_requests_waiting_by_reason" => self.waiting_by_reason(sample),
            b"kv_cache_usage_perc" | b"gpu_cache_usage_perc" => {
                out.kv = Some(out.kv.unwrap_or(0.0).max(value.min(1.0)));
            }
            b"generation_tokens" => add(&mut out.generated_tokens, value),
            b"prompt_tokens" => add(&mut out.prompt_tokens, value),
            b"lora_requests_info" => self.lora(sample),
            b"engine_sleep_state" if label(sample.labels, b"sleep_state") == Some(b"awake") => {
                out.asleep = Some(out.asleep.unwrap_or(false) || value == 0.0);
            }
            _ => {}
        }
    }

    fn waiting_by_reason(&mut self, sample: &Sample<'a>) {
        match label(sample.labels, b"reason") {
            Some(b"capacity") => add(&mut self.capacity, sample.value),
            Some(b"deferred") => add(&mut self.readout.deferred, sample.value),
            _ => {}
        }
    }

    /// vLLM never removes a series; its value is the time at which it was last set, so the largest is the current one.
    fn lora(&mut self, sample: &Sample<'a>) {
        if self.newest_lora.is_none_or(|(newest, _)| sample.value > newest) {
            self.newest_lora = Some((sample.value, sample.labels));
        }
    }

    fn llamacpp(&mut self, name: &[u8], value: f64) {
        let out = &mut self.readout;
        match without_total(name) {
            b"requests_processing" => out.running = Some(value),
            b"requests_deferred" => out.waiting = Some(value),
            b"tokens_predicted" => out.generated_tokens = Some(value),
            b"prompt_tokens" => out.prompt_tokens = Some(value),
            _ => {}
        }
    }

    fn into_readout(self) -> Readout {
        let mut out = self.readout;
        out.waiting = self.capacity.or(out.waiting);
        let Some((_, labels)) = self.newest_lora else { return out };
        out.max_loras = label(labels, b"max_lora").and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
        let running = String::from_utf8_lossy(label(labels, b"running_lora_adapters").unwrap_or_default());
        out.running_adapters = running.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        out
    }
}

struct Sample<'a> {
    name: &'a [u8],
    labels: &'a [u8],
    value: f64,
}

impl<'a> Sample<'a> {
    /// `None` when the line is no sample or its value is negative, infinite or not a number.
    fn read(line: &'a [u8]) -> Option<Self> {
        let name_end = line.iter().position(|byte| matches!(byte, b'{' | b' ' | b'\t'))?;
        let (name, rest) = line.split_at_checked(name_end)?;
        let (labels, rest) = match rest.strip_prefix(b"{") {
            Some(inside) => {
                let close = memrchr(b'}', inside)?;
                (inside.get(..close)?, inside.get(close + 1..)?)
            }
            None => (&[][..], rest),
        };
        let text = std::str::from_utf8(rest).ok()?;
        let value: f64 = text.split_ascii_whitespace().next()?.parse().ok()?;
        (value.is_finite() && value >= 0.0).then_some(Self { name, labels, value })
    }
}

/// The raw value of a label; escapes are left as they are (no wanted value needs one).
fn label<'a>(mut labels: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    loop {
        let equals = memchr(b'=', labels)?;
        let name = labels.get(..equals)?.trim_ascii();
        let value = labels.get(equals + 1..)?.trim_ascii_start().strip_prefix(b"\"")?;
        let end = closing_quote(value)?;
        if name == wanted {
            return value.get(..end);
        }
        let rest = value.get(end + 1..)?.trim_ascii_start();
        labels = rest.strip_prefix(b",").unwrap_or(rest);
    }
}

fn closing_quote(text: &[u8]) -> Option<usize> {
    let mut escaped = false;
    text.iter().position(|&byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    })
}

fn without_total(name: &[u8]) -> &[u8] {
    name.strip_suffix(b"_total").unwrap_or(name)
}

fn add(sum: &mut Option<f64>, value: f64) {
    *sum = Some(sum.unwrap_or(0.0) + value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_the_recorded_vllm_text() {
        let out = parse(include_bytes!("../../tests/fixtures/vllm-metrics.txt"));
        assert_eq!((out.running, out.waiting, out.deferred), (Some(4.0), Some(4.0), Some(4.0)));
        assert_eq!(out.kv, Some(0.0009768009768009733));
        assert_eq!(out.start_time, Some(1.79610524188e9));
        assert_eq!((out.generated_tokens, out.prompt_tokens), (Some(3489.0), Some(480.0)));
        assert_eq!((out.max_loras, out.asleep), (Some(2), Some(false)));
        assert_eq!(out.running_adapters, ["lora-2", "lora-1"]);
    }

    #[test]
    fn reads_the_recorded_llamacpp_text() {
        let out = parse(include_bytes!("../../tests/fixtures/llamacpp-metrics.txt"));
        assert_eq!((out.running, out.waiting, out.generated_tokens), (Some(2.0), Some(4.0), Some(65.0)));
        assert_eq!(out.kv, None);
    }

    #[test]
    fn sums_the_counts_of_data_parallel_engines_and_takes_the_fullest_cache() {
        let out = parse(
            b"vllm:num_requests_waiting{engine=\"0\"} 1e1\nvllm:num_requests_waiting{engine=\"1\"} 2\n\
              vllm:gpu_cache_usage_perc{engine=\"0\"} 0.25\nvllm:gpu_cache_usage_perc{engine=\"1\"} 0.75",
        );
        assert_eq!((out.waiting, out.kv), (Some(12.0), Some(0.75)));
    }

    #[test]
    fn leaves_out_values_that_are_no_load() {
        for value in ["NaN", "-1", "+Inf", "", "x"] {
            let out = parse(format!("vllm:num_requests_running {value}\n").as_bytes());
            assert_eq!(out.running, None, "{value}");
        }
    }

    #[test]
    fn finds_labels_behind_values_with_quotes_and_braces() {
        let line = br#"vllm:num_requests_waiting_by_reason{m="a\"},=",reason="capacity"} 3"#;
        assert_eq!(parse(line).waiting, Some(3.0));
    }

    proptest! {
        #[test]
        fn junk_gives_only_usable_values(junk in r#"((vllm:|llamacpp:)(num_requests_running|lora_requests_info|kv_cache_usage_perc)[{}=",\\ a-z0-9.+-]{0,40}\n|.{0,20}\n){0,8}"#) {
            let out = parse(junk.as_bytes());
            prop_assert!(out.running.is_none_or(|n| n >= 0.0));
            prop_assert!(out.kv.is_none_or(|n| (0.0..=1.0).contains(&n)));
        }
    }
}
