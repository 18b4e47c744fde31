//! A working set above the slots: a small discrete-event loop in virtual time around the real table.
//!
//! Requests ask for an adapter drawn evenly, wait for it, and are served on one of the replica's seats. Closed loop: each
//! client asks again when it was served. Open loop: requests come at random, at a share of what the seats can do.
//! Printed with `--nocapture`: throughput relative to a working set that fits, and the waits.

use pointsman::residency::{
    Acquired, Action, AdapterId, Holding, Lease, Outcome, Pick, Policy, Reach, ReplicaId, Table, Ticket, plan,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::num::NonZeroUsize;
use std::time::Duration;

const REPLICAS: usize = 2;
const SLOTS: usize = 2;
const SEATS: usize = 4;
const SERVICE: Duration = Duration::from_millis(500);
const UNLOAD: Duration = Duration::from_millis(5);
const RUN: Duration = Duration::from_secs(150);
const TICK: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Arrivals {
    /// So many clients.
    Closed(usize),
    /// This share of the requests that all seats together can serve.
    Open(f64),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival,
    Served { replica: usize, request: usize },
    Ordered(usize),
    Tick,
}

struct Request {
    adapter: AdapterId,
    asked_at: Duration,
    lease: Option<Lease>,
}

#[derive(Debug)]
struct Score {
    per_second: f64,
    loads: u64,
    p99_wait: f64,
    max_wait: f64,
    mean_wait: f64,
}

impl std::fmt::Display for Score {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let per_thousand = self.loads as f64 / (self.per_second * RUN.as_secs_f64()) * 1000.0;
        let Self { per_second, mean_wait, p99_wait, max_wait, .. } = self;
        write!(f, "{per_second:>5.1} | {per_thousand:>10.1} | {mean_wait:>6.2} {p99_wait:>6.2} {max_wait:>6.2}")
    }
}

struct Storm {
    rng: StdRng,
    now: Duration,
    table: Table,
    replicas: Vec<ReplicaId>,
    adapters: Vec<AdapterId>,
    load: Duration,
    arrivals: Arrivals,
    reach: Reach,
    agenda: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    sequence: u64,
    orders: Vec<Action>,
    requests: Vec<Request>,
    waiting: HashMap<Ticket, usize>,
    /// Of each replica: free seats and requests that wait for one.
    seats: Vec<(usize, VecDeque<usize>)>,
    waits: Vec<f64>,
}

impl Storm {
    fn new(policy: Policy, reach: Reach, adapters: usize, load: Duration, arrivals: Arrivals) -> Self {
        let mut table = Table::new(policy, NonZeroUsize::new(SLOTS).unwrap());
        let replicas: Vec<_> = (0..REPLICAS).map(|_| table.add_replica(Duration::ZERO)).collect();
        let adapters: Vec<_> = (0..adapters).map(|_| table.add_adapter()).collect();
        Self {
            rng: StdRng::seed_from_u64(7),
            now: Duration::ZERO,
            seats: replicas.iter().map(|_| (SEATS, VecDeque::new())).collect(),
            table,
            replicas,
            adapters,
            load,
            arrivals,
            reach,
            agenda: BinaryHeap::new(),
            sequence: 0,
            orders: Vec::new(),
            requests: Vec::new(),
            waiting: HashMap::new(),
            waits: Vec::new(),
        }
    }

    fn run(mut self) -> Score {
        match self.arrivals {
            Arrivals::Closed(clients) => (0..clients).for_each(|_| self.ask()),
            Arrivals::Open(_) => self.at(TICK, Event::Arrival),
        }
        self.at(TICK, Event::Tick);
        while let Some(Reverse((now, _, event))) = self.agenda.pop().filter(|Reverse((now, ..))| *now < RUN) {
            self.now = now;
            match event {
                Event::Arrival => self.arrive(),
                Event::Served { replica, request } => self.served(replica, request),
                Event::Ordered(order) => self.done(self.orders[order]),
                Event::Tick => {
                    self.table.tick(now);
                    self.at(TICK, Event::Tick);
                }
            }
            self.collect();
        }
        self.score()
    }

    fn score(mut self) -> Score {
        let unserved: Vec<_> = self.waiting.values().map(|request| self.requests[*request].asked_at).collect();
        let mut waits = std::mem::take(&mut self.waits);
        let served = waits.len();
        waits.extend(unserved.iter().map(|asked| (RUN - *asked).as_secs_f64()));
        waits.sort_by(f64::total_cmp);
        Score {
            per_second: served as f64 / RUN.as_secs_f64(),
            loads: self.table.counters().loads_started,
            p99_wait: waits[waits.len() * 99 / 100],
            max_wait: waits[waits.len() - 1],
            mean_wait: waits.iter().sum::<f64>() / waits.len() as f64,
        }
    }

    fn at(&mut self, after: Duration, event: Event) {
        self.sequence += 1;
        self.agenda.push(Reverse((self.now + after, self.sequence, event)));
    }

    fn arrive(&mut self) {
        self.ask();
        let Arrivals::Open(share) = self.arrivals else { return };
        let mean = SERVICE.as_secs_f64() / (share * (REPLICAS * SEATS) as f64);
        let gap = -mean * (1.0 - self.rng.random_range(0.0..1.0_f64)).ln();
        self.at(Duration::from_secs_f64(gap), Event::Arrival);
    }

    fn ask(&mut self) {
        let adapter = self.adapters[self.rng.random_range(0..self.adapters.len())];
        let request = self.requests.len();
        self.requests.push(Request { adapter, asked_at: self.now, lease: None });
        // The least loaded replica; the table prefers a holder.
        let replica = (0..REPLICAS).min_by_key(|r| self.seats[*r].1.len() + SEATS - self.seats[*r].0).unwrap();
        let pick = Pick { replica: self.replicas[replica], reach: self.reach };
        match self.table.acquire(adapter, pick, self.now) {
            Acquired::Ready(lease) => self.seat(request, lease),
            Acquired::AwaitLoad { ticket, .. } | Acquired::Started { ticket, .. } | Acquired::AwaitSlot(ticket) => {
                self.waiting.insert(ticket, request);
            }
            Acquired::Refused(refusal) => panic!("{refusal:?}"),
        }
        self.collect();
    }

    fn seat(&mut self, request: usize, lease: Lease) {
        self.waits.push((self.now - self.requests[request].asked_at).as_secs_f64());
        let replica = self.replicas.iter().position(|id| *id == lease.holding().replica).unwrap();
        assert_eq!(lease.holding().adapter, self.requests[request].adapter);
        self.requests[request].lease = Some(lease);
        if self.seats[replica].0 == 0 {
            self.seats[replica].1.push_back(request);
        } else {
            self.seats[replica].0 -= 1;
            self.serve(replica, request);
        }
    }

    fn serve(&mut self, replica: usize, request: usize) {
        let service = SERVICE.mul_f64(self.rng.random_range(0.5..1.5));
        self.at(service, Event::Served { replica, request });
    }

    fn served(&mut self, replica: usize, request: usize) {
        let lease = self.requests[request].lease.take().unwrap();
        self.table.release(lease, self.now);
        match self.seats[replica].1.pop_front() {
            Some(next) => self.serve(replica, next),
            None => self.seats[replica].0 += 1,
        }
        self.collect();
        if let Arrivals::Closed(_) = self.arrivals {
            self.ask();
        }
    }

    fn done(&mut self, action: Action) {
        match action {
            Action::Load(holding) => self.table.load_done(holding, Ok(()), self.now),
            Action::Unload(holding) => self.table.unload_done(holding, Ok(()), self.now),
        }
    }

    fn collect(&mut self) {
        for woken in self.table.drain_woken() {
            let request = self.waiting.remove(&woken.ticket).unwrap();
            match woken.outcome {
                Outcome::Ready(lease) => self.seat(request, lease),
                Outcome::Refused(refusal) => panic!("{refusal:?}"),
            }
        }
        let actions = plan(&self.table, self.now);
        self.table.start(&actions, self.now);
        for action in actions {
            let took = if let Action::Load(Holding { .. }) = action { self.load } else { UNLOAD };
            self.orders.push(action);
            self.at(took, Event::Ordered(self.orders.len() - 1));
        }
    }
}

/// Who decides: a name, how far requests reach, and the policy.
type Rival = (&'static str, Reach, Policy);

fn rivals() -> [Rival; 3] {
    [
        ("each picks, lru", Reach::Apart, Policy::plain_lru()),
        ("holder, plain lru", Reach::One, Policy::plain_lru()),
        ("default", Reach::One, Policy::default()),
    ]
}

#[test]
fn one_and_a_half_times_the_slots_does_not_thrash() {
    println!("arrivals     | load s | policy            | req/s | loads/1000 | mean, p99, max wait s | of fitting");
    for arrivals in [Arrivals::Closed(32), Arrivals::Open(0.85)] {
        for load in [0.1, 0.5, 2.0] {
            for (name, reach, policy) in rivals() {
                let run = |adapters| Storm::new(policy, reach, adapters, Duration::from_secs_f64(load), arrivals).run();
                let (fitting, storm) = (run(REPLICAS * SLOTS), run(REPLICAS * SLOTS * 3 / 2));
                let share = storm.per_second / fitting.per_second;
                println!("{:<12} | {load:>6} | {name:<17} | {storm} | {share:>4.2}", format!("{arrivals:?}"));
                if name == "default" {
                    assert!(share >= 0.6, "{arrivals:?}, load {load} s: {share:.2} of what fits");
                    assert!(storm.max_wait < 25.0, "{arrivals:?}, load {load} s: starved {:.1} s", storm.max_wait);
                }
            }
        }
    }
}
