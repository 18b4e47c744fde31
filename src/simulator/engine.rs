//! A simulated engine: seats, prefill, decode, and vLLM's limit on distinct adapters that run at once.
//!
//! Requests are taken in order, but one whose adapter would be one too many is passed over until a slot of the batch is
//! free (vLLM counts it as deferred). Each request has its own share of speed: batching costs nothing here.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// How fast and how large an engine is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Requests that run at once.
    pub seats: usize,
    /// Distinct adapters that run at once (`--max-loras`).
    pub max_loras: usize,
    /// Prompt tokens a second, each request.
    pub prefill: f64,
    /// Answer tokens a second, each request.
    pub decode: f64,
    /// For one adapter load.
    pub load: Duration,
    /// For one unload.
    pub unload: Duration,
}

impl Default for Speed {
    /// A small GPU at the edge. Guesses, but for the unload: 5 ms was seen of vLLM 0.32. Loads of the tiny adapters of the
    /// tests took 27 to 37 ms there; 1 s stands for a rank-64 adapter of a 7B model read from a cold disk.
    fn default() -> Self {
        Self {
            seats: 16,
            max_loras: 4,
            prefill: 4_000.0,
            decode: 40.0,
            load: Duration::from_secs(1),
            unload: Duration::from_millis(5),
        }
    }
}

/// A request inside the engine.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Its number in the run.
    pub request: usize,
    /// Its adapter.
    pub adapter: usize,
    /// Tokens of its prompt.
    pub prompt: u32,
    /// Tokens of its answer.
    pub answer: u32,
}

/// When a started request has its first token and its last.
#[derive(Clone, Copy, Debug)]
pub struct Started {
    /// Which.
    pub job: Job,
    /// After its start.
    pub first_token: Duration,
    /// After its start.
    pub end: Duration,
}

/// One engine.
#[derive(Debug)]
pub struct Engine {
    speed: Speed,
    running: HashMap<usize, usize>,
    queue: VecDeque<Job>,
}

impl Engine {
    /// An idle one.
    pub fn new(speed: Speed) -> Self {
        Self { speed, running: HashMap::new(), queue: VecDeque::new() }
    }

    /// Requests that run, and that wait.
    pub fn load(&self) -> (usize, usize) {
        (self.running.values().sum(), self.queue.len())
    }

    /// A request comes.
    pub fn enqueue(&mut self, job: Job) {
        self.queue.push_back(job);
    }

    /// A running request has ended.
    pub fn ended(&mut self, adapter: usize) {
        if let Some(count) = self.running.get_mut(&adapter) {
            *count -= 1;
            if *count == 0 {
                self.running.remove(&adapter);
            }
        }
    }

    /// The requests that can start now.
    pub fn start(&mut self) -> Vec<Started> {
        let mut started = Vec::new();
        let mut passed = VecDeque::new();
        while let Some(job) = self.queue.pop_front() {
            if self.load().0 >= self.speed.seats {
                passed.push_back(job);
                break;
            }
            if self.running.contains_key(&job.adapter) || self.running.len() < self.speed.max_loras {
                *self.running.entry(job.adapter).or_default() += 1;
                started.push(self.timed(job));
            } else {
                passed.push_back(job);
            }
        }
        passed.append(&mut self.queue);
        self.queue = passed;
        started
    }

    fn timed(&self, job: Job) -> Started {
        let first_token = Duration::from_secs_f64(f64::from(job.prompt) / self.speed.prefill);
        let rest = Duration::from_secs_f64(f64::from(job.answer.saturating_sub(1)) / self.speed.decode);
        Started { job, first_token, end: first_token + rest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_and_distinct_adapters_are_limited_and_a_deferred_request_holds_up_no_other() {
        let mut engine = Engine::new(Speed { seats: 3, max_loras: 1, ..Speed::default() });
        for (request, adapter) in [(0, 7), (1, 8), (2, 7), (3, 7), (4, 7)] {
            engine.enqueue(Job { request, adapter, prompt: 4_000, answer: 41 });
        }
        let started = engine.start();
        assert_eq!(started.iter().map(|s| s.job.request).collect::<Vec<_>>(), [0, 2, 3]);
        assert_eq!((started[0].first_token, started[0].end), (Duration::from_secs(1), Duration::from_secs(2)));
        (0..3).for_each(|_| engine.ended(7));
        assert_eq!(engine.start().iter().map(|s| s.job.request).collect::<Vec<_>>(), [1]);
        assert_eq!(engine.load(), (1, 1));
    }
}
