//! `/metrics` in vLLM's names and in llama.cpp's. A misbehaving stand-in may lie in the gauges.

use super::engine_core::Core;
use super::misbehave::Misbehaviour;
use super::seats::Gauges;
use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, Ordering};

/// Tokens of one KV block, as recorded.
const BLOCK: u64 = 32;

/// The gauges as they are told.
struct Told {
    running: f64,
    capacity: f64,
    deferred: f64,
    kv: f64,
}

impl Told {
    fn of(core: &Core) -> Self {
        if let Misbehaviour::LieInMetrics { running, waiting, kv } = core.misbehaves() {
            return Self { running, capacity: waiting, deferred: 0.0, kv };
        }
        let Gauges { running, capacity, deferred, kv, .. } = core.seats.gauges();
        Self { running: float(running as u64), capacity: float(capacity as u64), deferred: float(deferred as u64), kv }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
fn float(count: u64) -> f64 {
    count as f64
}

/// A text under construction. Writing to a `String` cannot fail, so results are dropped.
struct Text {
    text: String,
    model: String,
}

impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// A sample with the labels that nearly all of vLLM's have; `more` begins with a comma or is empty.
    fn sample(&mut self, name: &str, more: &str, value: f64) {
        let _ = writeln!(self.text, "{name}{{engine=\"0\",model_name=\"{}\"{more}}} {}", self.model, go_float(value));
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.head(name, "gauge", help);
        self.sample(name, "", value);
    }

    fn counter(&mut self, name: &str, help: &str, value: f64) {
        self.head(name, "counter", help);
        self.sample(name, "", value);
    }

    fn bare(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.head(name, kind, help);
        let _ = writeln!(self.text, "{name} {value}");
    }
}

/// A value as the Python client of Prometheus writes it: from a million on with an exponent.
fn go_float(value: f64) -> String {
    let scientific = format!("{value:e}");
    match scientific.split_once('e') {
        Some((mantissa, exponent)) if value >= 1e6 => format!("{mantissa}e+{exponent:0>2}"),
        _ => format!("{value:?}"),
    }
}

/// A label value between its quotes.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// vLLM's text.
pub(super) fn vllm(core: &Core) -> String {
    let mut text = Text { text: String::with_capacity(8_192), model: escaped(&core.options.model) };
    let start = go_float(core.start_time());
    text.bare("process_start_time_seconds", "gauge", "Start time since the epoch in seconds.", start);
    gauges(&mut text, &Told::of(core));
    counters(&mut text, core);
    adapters(&mut text, core);
    cache_config(&mut text, core);
    text.text
}

fn gauges(text: &mut Text, told: &Told) {
    const BY_REASON: &str = "vllm:num_requests_waiting_by_reason";
    const SLEEP: &str = "vllm:engine_sleep_state";
    text.gauge("vllm:num_requests_running", "Requests that hold a seat.", told.running);
    text.gauge("vllm:num_requests_waiting", "Requests that wait.", told.capacity + told.deferred);
    text.head(BY_REASON, "gauge", "Requests that wait, by reason.");
    text.sample(BY_REASON, ",reason=\"capacity\"", told.capacity);
    text.sample(BY_REASON, ",reason=\"deferred\"", told.deferred);
    text.head(SLEEP, "gauge", "Whether the engine sleeps.");
    text.sample(SLEEP, ",sleep_state=\"awake\"", 1.0);
    text.sample(SLEEP, ",sleep_state=\"weights_offloaded\"", 0.0);
    text.sample(SLEEP, ",sleep_state=\"discard_all\"", 0.0);
    text.gauge("vllm:kv_cache_usage_perc", "Share of the KV cache in use; 1 is all of it.", told.kv);
}

fn counters(text: &mut Text, core: &Core) {
    const SUCCESS: &str = "vllm:request_success_total";
    let count = |counter: &AtomicU64| float(counter.load(Ordering::Relaxed));
    let counters = &core.counters;
    let prompt = count(&counters.prompt_tokens);
    text.counter("vllm:prefix_cache_queries_total", "Tokens looked up in the prefix cache.", prompt);
    text.counter("vllm:prefix_cache_hits_total", "Tokens found in the prefix cache.", 0.0);
    text.counter("vllm:num_preemptions_total", "Preemptions.", 0.0);
    text.counter("vllm:prompt_tokens_total", "Tokens prefilled.", prompt);
    text.counter("vllm:generation_tokens_total", "Tokens generated.", count(&counters.generated_tokens));
    text.head(SUCCESS, "counter", "Requests that were generated to an end.");
    for (reason, value) in [
        ("stop", 0.0),
        ("length", count(&counters.ended_by_length)),
        ("abort", 0.0),
        ("error", 0.0),
        ("repetition", 0.0),
    ] {
        let (model, value) = (&text.model, go_float(value));
        let _ = writeln!(
            text.text,
            "{SUCCESS}{{engine=\"0\",finished_reason=\"{reason}\",model_name=\"{model}\"}} {value}"
        );
    }
}

/// One series for every set of running adapters ever seen; the largest value marks the present one. `waiting` copies
/// `running`, as recorded.
fn adapters(text: &mut Text, core: &Core) {
    const NAME: &str = "vllm:lora_requests_info";
    if core.options.max_loras == 0 {
        return;
    }
    text.head(NAME, "gauge", "Running stats on lora requests.");
    for (running, time) in core.seats.adapter_history() {
        let (running, limit) = (escaped(&running), core.options.max_loras);
        let _ = writeln!(
            text.text,
            "{NAME}{{max_lora=\"{limit}\",running_lora_adapters=\"{running}\",waiting_lora_adapters=\"{running}\"}} {}",
            go_float(time)
        );
    }
}

fn cache_config(text: &mut Text, core: &Core) {
    const NAME: &str = "vllm:cache_config_info";
    let tokens = core.options.kv_tokens;
    text.head(NAME, "gauge", "Information of the cache configuration.");
    let _ = writeln!(
        text.text,
        "{NAME}{{block_size=\"{BLOCK}\",cache_dtype=\"auto\",enable_prefix_caching=\"True\",engine=\"0\",kv_cache_size_tokens=\"{tokens}\",num_gpu_blocks=\"{}\"}} 1.0",
        tokens / BLOCK
    );
}

/// llama.cpp's text. `n_busy_slots_per_decode` and the speeds are told as 0: nobody balances by them.
pub(super) fn llamacpp(core: &Core) -> String {
    let told = Told::of(core);
    let mut text = Text { text: String::with_capacity(2_048), model: String::new() };
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (prompt, predicted) = (count(&core.counters.prompt_tokens), count(&core.counters.generated_tokens));
    text.bare("llamacpp:prompt_tokens_total", "counter", "Prompt tokens processed, without cached ones.", prompt);
    text.bare("llamacpp:prompt_tokens_cached_total", "counter", "Prompt tokens taken from the cache.", 0);
    text.bare("llamacpp:tokens_predicted_total", "counter", "Tokens generated.", predicted);
    text.bare("llamacpp:n_decode_total", "counter", "Decode calls.", predicted);
    text.bare("llamacpp:prompt_tokens_seconds", "gauge", "Prompt tokens a second.", 0);
    text.bare("llamacpp:predicted_tokens_seconds", "gauge", "Generated tokens a second.", 0);
    text.bare("llamacpp:requests_processing", "gauge", "Requests in a slot.", told.running);
    text.bare("llamacpp:requests_deferred", "gauge", "Requests that wait.", told.capacity + told.deferred);
    text.bare("llamacpp:n_busy_slots_per_decode", "gauge", "Busy slots per decode call.", 0);
    text.text
}

#[cfg(test)]
mod tests {
    use super::go_float;

    #[test]
    fn values_are_written_as_recorded() {
        assert_eq!(go_float(1_796_105_241.88), "1.79610524188e+09");
        assert_eq!(go_float(0.000_976_800_976_800_973_3), "0.0009768009768009733");
        assert_eq!(go_float(480.0), "480.0");
    }
}
