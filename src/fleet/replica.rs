//! One engine process and how loaded it is, in atomics that every worker shares.
//!
//! When does a request stop counting? When its [`Lease`](super::Lease) is dropped: at the end of the answer, at an abort,
//! at a failure, and when its task panics.

use super::breaker::Breaker;
use super::call::Calls;
use super::clock::to_ms;
use super::last_times::LastTimes;
use super::snapshot::{BreakerView, Candidate};
use crate::config::checked::Health;
use crate::engine::{Engine, EngineKind, Readout};
use crate::scheduler::profile::Thresholds;
use arc_swap::{ArcSwap, ArcSwapOption};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// Weight of a new sample in the moving average of first-token times: about the last ten requests count.
const FIRST_TOKEN_ALPHA: f64 = 0.2;

/// What a replica that has just come gets of its usual work. Guess: enough to warm it up.
const FRESH_SHARE: f64 = 0.1;

/// One engine process.
#[derive(Debug)]
pub struct Replica {
    /// `host:port`.
    pub name: Arc<str>,
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// A hash of the name: the same across reloads and restarts.
    pub identity: u64,
    /// How to talk to what runs there.
    pub engine: Engine,
    /// Failures seen by requests.
    pub breaker: Breaker,
    /// Where the host name leads; kept fresh by discovery.
    address: ArcSwapOption<SocketAddr>,
    /// Tries under way.
    pub calls: Calls,
    /// When a byte last came from it, or a counter of its moved, process clock.
    progress_ms: AtomicU64,
    /// A hash of its last read-out: a change is a sign of life.
    signs: AtomicU64,
    /// It hangs.
    stalled: AtomicBool,
    /// An operator takes it out: no new requests.
    draining: AtomicBool,
    /// When it came or came back, process clock; 0 when it was there from the start.
    fresh_since_ms: AtomicU64,
    /// The last health probe's view; true until a probe says otherwise.
    reachable: AtomicBool,
    /// llama.cpp's ids of the adapters, by our names.
    adapter_ids: ArcSwap<Vec<(String, u32)>>,
    in_flight: AtomicU32,
    /// Waiting (24 bits), running (24 bits) and KV use in 65,535ths (16 bits) of the last read-out, in one word so that a
    /// decision never mixes two read-outs.
    readout: AtomicU64,
    /// Our in-flight count when that read-out was asked for.
    in_flight_at_readout: AtomicU32,
    /// When it was taken, process clock; 0 for never.
    readout_at_ms: AtomicU64,
    /// Requests that the engine was seen to run at once; see [`LastReadout::seats`].
    seats: AtomicU32,
    readout_wanted: Notify,
    /// Bits of the engine's start time, seconds since the epoch; 0 when unknown.
    start_time: AtomicU64,
    /// Bits of the moving average of first-token times, seconds; 0 for none yet.
    first_token: AtomicU64,
    first_tokens: LastTimes,
    /// Requests picked for it so far.
    picked: AtomicU64,
}

impl Replica {
    /// A replica that was never tried.
    pub fn new(host: &str, port: u16, name: &str, engine: EngineKind) -> Self {
        Self {
            name: name.into(),
            host: host.to_owned(),
            port,
            identity: xxhash_rust::xxh3::xxh3_64(name.as_bytes()),
            engine: Engine::new(engine),
            breaker: Breaker::default(),
            address: ArcSwapOption::from_pointee(host.parse().ok().map(|ip| SocketAddr::new(ip, port))),
            calls: Calls::default(),
            progress_ms: AtomicU64::new(0),
            signs: AtomicU64::new(0),
            stalled: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            fresh_since_ms: AtomicU64::new(0),
            reachable: AtomicBool::new(true),
            adapter_ids: ArcSwap::default(),
            in_flight: AtomicU32::new(0),
            readout: AtomicU64::new(0),
            in_flight_at_readout: AtomicU32::new(0),
            readout_at_ms: AtomicU64::new(0),
            seats: AtomicU32::new(0),
            readout_wanted: Notify::new(),
            start_time: AtomicU64::new(0),
            first_token: AtomicU64::new(0),
            first_tokens: LastTimes::default(),
            picked: AtomicU64::new(0),
        }
    }

    /// Where to connect; `None` while the host name was never resolved.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address.load().as_deref().copied()
    }

    /// The host name leads there now.
    pub fn set_address(&self, address: SocketAddr) {
        if self.address() != Some(address) {
            self.address.store(Some(Arc::new(address)));
        }
    }

    /// A health probe reached it, or did not.
    pub fn set_reachable(&self, reachable: bool, now_ms: u64) {
        let before = self.reachable.swap(reachable, Ordering::Relaxed);
        if reachable && !before {
            self.set_fresh(now_ms);
            self.breaker.end_rest(now_ms);
        }
    }

    /// What the last health probe found.
    pub fn is_reachable(&self) -> bool {
        self.reachable.load(Ordering::Relaxed)
    }

    /// The breaker, and tripped as well while probes do not reach it.
    pub fn breaker_view(&self, now_ms: u64) -> BreakerView {
        if self.is_reachable() && !self.stalled.load(Ordering::Relaxed) {
            self.breaker.view(now_ms)
        } else {
            BreakerView::Tripped
        }
    }

    /// It sent a byte, or something moved in its metrics.
    pub fn progressed(&self, now_ms: u64) {
        self.progress_ms.store(now_ms, Ordering::Relaxed);
        if self.stalled.load(Ordering::Relaxed) && self.stalled.swap(false, Ordering::Relaxed) {
            self.set_fresh(now_ms);
            tracing::info!(replica = %self.name, "the replica works again");
        }
    }

    /// How long it has shown no sign of work, milliseconds.
    pub fn idle_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.progress_ms.load(Ordering::Relaxed))
    }

    /// It hangs: tripped until it shows a sign of work. Says whether that is new.
    pub fn set_stalled(&self) -> bool {
        !self.stalled.swap(true, Ordering::Relaxed)
    }

    /// It hangs.
    pub fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed)
    }

    /// An operator takes it out, or lets it in again.
    pub fn set_draining(&self, draining: bool) {
        self.draining.store(draining, Ordering::Relaxed);
    }

    /// An operator takes it out: no new requests.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// It has just come, or come back.
    pub fn set_fresh(&self, now_ms: u64) {
        self.fresh_since_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Which share of its usual work it should get: rises from [`FRESH_SHARE`] to 1 over `slow_start`.
    fn share(&self, slow_start: Duration, now_ms: u64) -> f64 {
        let since = self.fresh_since_ms.load(Ordering::Relaxed);
        if since == 0 || slow_start.is_zero() {
            return 1.0;
        }
        let passed = now_ms.saturating_sub(since) as f64 / to_ms(slow_start).max(1) as f64;
        (FRESH_SHARE + (1.0 - FRESH_SHARE) * passed).min(1.0)
    }

    /// llama.cpp's id of an adapter there, if it has it.
    pub fn adapter_id(&self, name: &str) -> Option<u32> {
        self.adapter_ids.load().iter().find(|(known, _)| known == name).map(|(_, id)| *id)
    }

    /// What the server listed, by our names.
    pub fn set_adapter_ids(&self, ids: Vec<(String, u32)>) {
        if **self.adapter_ids.load() != ids {
            self.adapter_ids.store(Arc::new(ids));
        }
    }

    /// Requests picked and not ended.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Requests picked for it since the start.
    pub fn picked(&self) -> u64 {
        self.picked.load(Ordering::Relaxed)
    }

    pub(super) fn count_pick(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.picked.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_end(&self) {
        let before = self.in_flight.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a lease ended twice on {}", self.name);
    }

    /// Take a read-out over. `in_flight_then` is our in-flight count when it was asked for.
    pub fn set_readout(&self, readout: &Readout, in_flight_then: u32, now_ms: u64) {
        let counted = self.signs.swap(signs_of(readout), Ordering::Relaxed) != signs_of(readout);
        // While a long prompt is read no token is counted yet, but the cache fills.
        let filled = readout.kv.unwrap_or(0.0) > LastReadout::unpack(self.readout.load(Ordering::Relaxed)).kv + 1e-4;
        if counted || filled {
            self.progressed(now_ms);
        }
        self.readout.store(LastReadout::of(readout).pack(), Ordering::Relaxed);
        let seats = LastReadout::of(readout).seats(self.seats.load(Ordering::Relaxed));
        self.seats.store(seats, Ordering::Relaxed);
        self.start_time.store(readout.start_time.unwrap_or(0.0).to_bits(), Ordering::Relaxed);
        self.in_flight_at_readout.store(in_flight_then, Ordering::Relaxed);
        // Release pairs with the acquire in `last_readout`: who sees the new time sees the new values.
        self.readout_at_ms.store(now_ms, Ordering::Release);
    }

    /// When the engine process started, seconds since the epoch, as of the last read-out; `None` when unknown. A change
    /// means a restart.
    pub fn start_time(&self) -> Option<f64> {
        Some(f64::from_bits(self.start_time.load(Ordering::Relaxed))).filter(|time| *time > 0.0)
    }

    /// Somebody waits for what the next read-out will say.
    pub fn want_readout(&self) {
        self.readout_wanted.notify_one();
    }

    /// Ends when a read-out is wanted before its time.
    pub async fn readout_wanted(&self) {
        self.readout_wanted.notified().await;
    }

    /// The last read-out and its age, if there ever was one.
    pub fn last_readout(&self, now_ms: u64) -> Option<(LastReadout, Duration)> {
        let at = self.readout_at_ms.load(Ordering::Acquire);
        let age = Duration::from_millis(now_ms.saturating_sub(at));
        (at > 0).then(|| (LastReadout::unpack(self.readout.load(Ordering::Relaxed)), age))
    }

    /// Add a first-token time to the moving average and to the window.
    pub fn observe_first_token(&self, elapsed: Duration) {
        self.first_tokens.add(elapsed);
        let sample = elapsed.as_secs_f64();
        let before = f64::from_bits(self.first_token.load(Ordering::Relaxed));
        let next = if before == 0.0 { sample } else { before + FIRST_TOKEN_ALPHA * (sample - before) };
        // A lost race loses one sample of an average: harmless.
        self.first_token.store(next.to_bits(), Ordering::Relaxed);
    }

    /// Median of the last times to the first token, if there were any.
    pub fn first_token_median(&self) -> Option<Duration> {
        self.first_tokens.median()
    }

    /// Moving average of the time to the first token, if there was one.
    pub fn first_token(&self) -> Option<Duration> {
        let seconds = f64::from_bits(self.first_token.load(Ordering::Relaxed));
        (seconds > 0.0).then(|| Duration::from_secs_f64(seconds))
    }

    /// This replica as a decision sees it. What depends on the request (adapter, prefix, tried) is left at its default.
    pub fn candidate(&self, member: usize, thresholds: &Thresholds, health: &Health, now_ms: u64) -> Candidate {
        let in_flight = self.in_flight();
        let load = match self.last_readout(now_ms) {
            Some((readout, age)) if to_ms(age) <= to_ms(health.readout_max_age) => {
                let seats = self.seats.load(Ordering::Relaxed).max(thresholds.target_inflight as u32);
                readout.corrected(in_flight, self.in_flight_at_readout.load(Ordering::Relaxed), seats)
            }
            _ => EffectiveLoad::own(in_flight, thresholds),
        };
        Candidate {
            member,
            identity: self.identity,
            priority: 0,
            weight: 1.0,
            share: self.share(health.slow_start, now_ms),
            waiting: load.waiting,
            running: load.running,
            in_flight: f64::from(in_flight),
            kv: load.kv,
            breaker: self.breaker_view(now_ms),
            adapter: super::snapshot::AdapterView::Absent,
            free_slots: 0,
            prefix_blocks: 0,
            tried: false,
        }
    }
}

/// A hash of the counters in a read-out. The gauges are not among them: those fall when a call is given up, whether the
/// engine works or not.
fn signs_of(readout: &Readout) -> u64 {
    let values = [readout.generated_tokens, readout.prompt_tokens, readout.start_time];
    let mut hash = xxhash_rust::xxh3::Xxh3::new();
    values.iter().for_each(|value| hash.update(&value.unwrap_or(-1.0).to_bits().to_le_bytes()));
    hash.digest()
}

/// What is kept of a read-out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LastReadout {
    /// Requests waiting in the engine.
    pub waiting: f64,
    /// Requests running in the engine.
    pub running: f64,
    /// KV use, 0 to 1.
    pub kv: f64,
}

/// Bits for each of the two counts.
const COUNT_BITS: u32 = 24;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;

impl LastReadout {
    fn of(readout: &Readout) -> Self {
        Self {
            waiting: readout.waiting.unwrap_or(0.0) + readout.deferred.unwrap_or(0.0),
            running: readout.running.unwrap_or(0.0),
            kv: readout.kv.unwrap_or(0.0),
        }
    }

    fn pack(self) -> u64 {
        // `as` saturates and turns NaN into 0: nothing an engine says can overflow the word.
        let count = |value: f64| (value.round() as u64).min(COUNT_MAX);
        let kv = (self.kv.clamp(0.0, 1.0) * 65_535.0).round() as u64;
        count(self.waiting) << (COUNT_BITS + 16) | count(self.running) << 16 | kv
    }

    fn unpack(word: u64) -> Self {
        Self {
            waiting: (word >> (COUNT_BITS + 16)) as f64,
            running: ((word >> 16) & COUNT_MAX) as f64,
            kv: (word & 0xffff) as f64 / 65_535.0,
        }
    }

    /// How many requests the engine can probably run at once. No engine tells; but one that makes requests wait has no
    /// free seat, and one that makes none wait may have half as many again as it was ever seen to run.
    fn seats(self, before: u32) -> u32 {
        let running = self.running as u32;
        if self.waiting > 0.0 { running.max(1) } else { before.max(running + running / 2) }
    }

    /// Effective waiting = read-out + picks since, less completions since, never below 0. Of the picks since, those that
    /// find a free seat do not wait.
    fn corrected(self, in_flight: u32, in_flight_then: u32, seats: u32) -> EffectiveLoad {
        let since = f64::from(in_flight) - f64::from(in_flight_then);
        let free = if self.waiting > 0.0 { 0.0 } else { (f64::from(seats) - self.running).max(0.0) };
        let since = if since > 0.0 { (since - free).max(0.0) } else { since };
        EffectiveLoad { waiting: (self.waiting + since).max(0.0), running: self.running, kv: self.kv }
    }
}

struct EffectiveLoad {
    waiting: f64,
    running: f64,
    kv: f64,
}

impl EffectiveLoad {
    /// Without a fresh read-out our own counts take over: up to `target_inflight` run, the rest waits. So a replica that
    /// says nothing is neither idle nor full.
    fn own(in_flight: u32, thresholds: &Thresholds) -> Self {
        let in_flight = f64::from(in_flight);
        let running = in_flight.min(thresholds.target_inflight);
        Self { waiting: in_flight - running, running, kv: 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica() -> Replica {
        Replica::new("127.0.0.1", 8001, "127.0.0.1:8001", EngineKind::Vllm)
    }

    fn readout(waiting: f64, running: f64, kv: f64) -> Readout {
        Readout { waiting: Some(waiting), running: Some(running), kv: Some(kv), ..Readout::default() }
    }

    #[test]
    fn picks_since_the_readout_count_as_waiting_and_completions_are_taken_off() {
        let replica = replica();
        for _ in 0..5 {
            replica.count_pick();
        }
        replica.set_readout(&readout(2.0, 3.0, 0.5), 5, 100);
        for _ in 0..3 {
            replica.count_pick();
        }
        let candidate = replica.candidate(0, &Thresholds::default(), &Health::default(), 200);
        assert_eq!((candidate.waiting, candidate.running, candidate.in_flight), (5.0, 3.0, 8.0));
        for _ in 0..7 {
            replica.count_end();
        }
        assert_eq!(replica.candidate(0, &Thresholds::default(), &Health::default(), 200).waiting, 0.0);
    }

    #[test]
    fn a_readout_older_than_its_limit_counts_for_nothing() {
        let replica = replica();
        replica.set_readout(&readout(100.0, 50.0, 1.0), 0, 100);
        for _ in 0..10 {
            replica.count_pick();
        }
        let candidate = replica.candidate(0, &Thresholds::default(), &Health::default(), 100 + 2_001);
        assert_eq!((candidate.waiting, candidate.running, candidate.kv), (2.0, 8.0, 0.0));
    }

    #[test]
    fn nothing_an_engine_says_overflows_the_word() {
        for (waiting, running, kv) in [(f64::NAN, f64::INFINITY, f64::NAN), (-5.0, 1e300, 7.0), (1e9, -1e9, -1.0)] {
            let packed = LastReadout::of(&readout(waiting, running, kv)).pack();
            let back = LastReadout::unpack(packed);
            assert!(back.waiting >= 0.0 && back.running >= 0.0 && (0.0..=1.0).contains(&back.kv), "{back:?}");
        }
    }

    #[test]
    fn an_unreachable_replica_is_tripped_and_probes_once_reached_again() {
        let replica = replica();
        replica.set_reachable(false, 10);
        assert_eq!(replica.breaker_view(10), BreakerView::Tripped);
        replica.set_reachable(true, 20);
        assert_eq!(replica.breaker_view(20), BreakerView::Healthy);
    }

    #[test]
    fn first_token_times_are_averaged() {
        let replica = replica();
        assert_eq!(replica.first_token(), None);
        replica.observe_first_token(Duration::from_millis(100));
        replica.observe_first_token(Duration::from_millis(200));
        let average = replica.first_token().unwrap_or_default().as_secs_f64();
        assert!((average - 0.12).abs() < 1e-9, "{average}");
    }
}
