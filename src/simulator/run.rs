//! One run: an agenda of events in virtual time around the real snapshot, scheduler and table.

use super::engine::{Engine, Job, Speed};
use super::policy::{Ask, Picked, Policy};
use super::report::{Report, Served};
use super::workload::{self, Arrival, Workload};
use crate::config::{Checked, ConfigErrors};
use crate::engine::Readout;
use crate::fleet::clock::to_ms;
use crate::fleet::{Fleet, Lease, Model};
use crate::residency::{self, Acquired, Action, AdapterId, Outcome, ReplicaId, Table, Ticket, plan};
use crate::scheduler::{Request, Session};
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

/// Between two read-outs of a replica, as in production.
const READOUT: Duration = Duration::from_millis(250);
/// Between two plans that nothing else calls for, as in production.
const TICK: Duration = Duration::from_millis(50);

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Engines.
    pub replicas: usize,
    /// `max_loaded_adapters`.
    pub slots: NonZeroUsize,
    /// Adapters asked for.
    pub adapters: usize,
    /// Requests in all.
    pub requests: usize,
    /// Requests a second.
    pub rate: f64,
    /// Of the arrivals and of the scheduler.
    pub seed: u64,
    /// The engines' size and speed.
    pub speed: Speed,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            replicas: 4,
            slots: NonZeroUsize::MIN.saturating_add(3),
            adapters: 32,
            requests: 5_000,
            rate: 8.0,
            seed: 1,
            speed: Speed::default(),
        }
    }
}

/// Runs one workload under one policy to its end.
///
/// # Errors
/// Options that make no configuration, such as no replica.
pub fn simulate(options: &Options, workload: Workload, policy: Policy) -> Result<Report, ConfigErrors> {
    let arrivals = workload::arrivals(workload, options.requests, options.rate, options.adapters, options.seed);
    let mut run = Run::new(options, policy, arrivals)?;
    run.finish();
    let counters: Vec<_> = run.tables.iter().map(Table::counters).collect();
    Ok(Report::of(workload, policy, &run.served, &counters, run.refused))
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Arrival(usize),
    Done { table: usize, action: Action },
    FirstToken(usize),
    End(usize),
    Readout(usize),
    Tick,
}

/// A request on its way.
#[derive(Debug, Default)]
struct OnItsWay {
    count: Option<Lease>,
    seat: Option<(usize, residency::Lease)>,
    replica: usize,
    first_token: Option<Duration>,
}

struct Run {
    policy: Policy,
    speed: Speed,
    random: StdRng,
    now: Duration,
    agenda: BTreeMap<(Duration, u64), Event>,
    sequence: u64,
    model: Arc<Model>,
    /// One for the whole model; of policies that know nothing of residency one for each replica.
    tables: Vec<Table>,
    /// Of each member: its table, and its name there.
    homes: Vec<(usize, ReplicaId)>,
    /// The same names in every table, since each got them in the same order.
    adapters: Vec<AdapterId>,
    engines: Vec<Engine>,
    arrivals: Vec<Arrival>,
    on_its_way: HashMap<usize, OnItsWay>,
    waiting: HashMap<(usize, Ticket), usize>,
    served: Vec<Served>,
    refused: u64,
    open: usize,
}

impl Run {
    fn new(options: &Options, policy: Policy, arrivals: Vec<Arrival>) -> Result<Self, ConfigErrors> {
        let model = model(options.replicas)?;
        let tables = if policy == Policy::Pointsman { 1 } else { options.replicas };
        let mut tables: Vec<_> = (0..tables).map(|_| Table::new(policy.residency(), options.slots)).collect();
        let count = tables.len();
        let home = |member: usize| Some((member % count, tables.get_mut(member % count)?.add_replica(Duration::ZERO)));
        let homes = (0..options.replicas).filter_map(home).collect();
        let add = |table: &mut Table| (0..options.adapters).map(|_| table.add_adapter()).collect::<Vec<_>>();
        let adapters = tables.iter_mut().map(add).next_back().unwrap_or_default();
        let mut run = Self {
            policy,
            speed: options.speed,
            random: StdRng::seed_from_u64(options.seed),
            now: Duration::ZERO,
            agenda: BTreeMap::new(),
            sequence: 0,
            engines: model.members.iter().map(|_| Engine::new(options.speed)).collect(),
            model,
            tables,
            homes,
            adapters,
            open: arrivals.len(),
            arrivals,
            on_its_way: HashMap::new(),
            waiting: HashMap::new(),
            served: Vec::new(),
            refused: 0,
        };
        for (number, at) in run.arrivals.iter().map(|arrival| arrival.at).enumerate().collect::<Vec<_>>() {
            run.at(at, Event::Arrival(number));
        }
        (0..run.engines.len()).for_each(|replica| run.at(READOUT, Event::Readout(replica)));
        run.at(TICK, Event::Tick);
        Ok(run)
    }

    fn at(&mut self, time: Duration, event: Event) {
        self.sequence += 1;
        self.agenda.insert((time, self.sequence), event);
    }

    fn finish(&mut self) {
        while self.open > 0
            && let Some(((now, _), event)) = self.agenda.pop_first()
        {
            self.now = now;
            match event {
                Event::Arrival(request) => self.arrive(request),
                Event::Done { table, action } => self.done(table, action),
                Event::FirstToken(request) => self.first_token(request),
                Event::End(request) => self.end(request),
                Event::Readout(replica) => self.read_out(replica),
                Event::Tick => {
                    self.tables.iter_mut().for_each(|table| table.tick(now));
                    self.at(now + TICK, Event::Tick);
                }
            }
            self.settle();
        }
    }

    /// Milliseconds as the replicas' atomics count them; 0 means never there.
    fn now_ms(&self) -> u64 {
        to_ms(self.now) + 1
    }

    fn arrive(&mut self, number: usize) {
        let Some(arrival) = self.arrivals.get(number).copied() else { return };
        let Some(adapter) = self.adapters.get(arrival.adapter).copied() else { return };
        let picked = self.pick(&arrival, adapter);
        let home = picked.and_then(|picked| Some((picked, self.homes.get(picked.member).copied()?)));
        let Some((picked, (table, replica))) = home else { return self.refuse() };
        let now = self.now;
        let Some(acquired) = self.tables.get_mut(table).map(|t| t.acquire(adapter, picked.at(replica), now)) else {
            return;
        };
        match acquired {
            Acquired::Ready(lease) => self.place(number, table, lease),
            Acquired::AwaitLoad { ticket, replica } | Acquired::Started { ticket, replica } => {
                self.waiting.insert((table, ticket), number);
                let count = self.position(table, replica).and_then(|at| self.model.members.get(at));
                let count = count.map(|member| Lease::take(&member.replica));
                self.on_its_way.insert(number, OnItsWay { count, ..OnItsWay::default() });
            }
            Acquired::AwaitSlot(ticket) => {
                self.waiting.insert((table, ticket), number);
            }
            Acquired::Refused(_) => self.refuse(),
        }
    }

    fn done(&mut self, table: usize, action: Action) {
        let now = self.now;
        let Some(table) = self.tables.get_mut(table) else { return };
        match action {
            Action::Load(holding) => table.load_done(holding, Ok(()), now),
            Action::Unload(holding) => table.unload_done(holding, Ok(()), now),
        }
    }

    fn pick(&mut self, arrival: &Arrival, adapter: AdapterId) -> Option<Picked> {
        let now_ms = self.now_ms();
        let mut snapshot = self.model.snapshot(&[], &[], now_ms);
        for candidate in &mut snapshot.candidates {
            let (table, replica) = *self.homes.get(candidate.member)?;
            let view = self.tables.get(table)?.view(adapter, replica, self.now)?;
            (candidate.adapter, candidate.free_slots) = (view.adapter, view.free_slots);
        }
        let session =
            arrival.session.map(|key| Session { key, remembered: self.model.sessions.replica_of(key, now_ms) });
        let request = Request {
            on_demand_adapter: true,
            session,
            prompt_tokens: arrival.prompt,
            turn: self.model.next_turn(),
            ..Request::default()
        };
        let ask = Ask { request, adapter: arrival.adapter, snapshot: &snapshot, model: &self.model };
        self.policy.pick(&ask, &mut self.random)
    }

    fn position(&self, table: usize, replica: ReplicaId) -> Option<usize> {
        self.homes.iter().position(|home| *home == (table, replica))
    }

    fn refuse(&mut self) {
        self.refused += 1;
        self.open -= 1;
    }

    /// The request goes into the engine where its adapter is.
    fn place(&mut self, number: usize, table: usize, seat: residency::Lease) {
        let Some(replica) = self.position(table, seat.holding().replica) else { return };
        let (Some(arrival), Some(member)) = (self.arrivals.get(number), self.model.members.get(replica)) else {
            return;
        };
        if let Some(session) = arrival.session {
            self.model.sessions.remember(session, member.replica.identity, to_ms(self.now) + 1);
        }
        let job = Job { request: number, adapter: arrival.adapter, prompt: arrival.prompt, answer: arrival.answer };
        let counted = self.on_its_way.remove(&number).and_then(|way| way.count);
        let counted = counted.filter(|lease| Arc::ptr_eq(lease.replica(), &member.replica));
        let count = Some(counted.unwrap_or_else(|| Lease::take(&member.replica)));
        self.on_its_way.insert(number, OnItsWay { count, seat: Some((table, seat)), replica, first_token: None });
        if let Some(engine) = self.engines.get_mut(replica) {
            engine.enqueue(job);
        }
        self.start(replica);
    }

    fn start(&mut self, replica: usize) {
        let Some(engine) = self.engines.get_mut(replica) else { return };
        for started in engine.start() {
            self.at(self.now + started.first_token, Event::FirstToken(started.job.request));
            self.at(self.now + started.end, Event::End(started.job.request));
        }
    }

    fn first_token(&mut self, number: usize) {
        if let Some(way) = self.on_its_way.get_mut(&number) {
            way.first_token = Some(self.now);
        }
    }

    fn end(&mut self, number: usize) {
        let (Some(way), Some(arrival)) = (self.on_its_way.remove(&number), self.arrivals.get(number).copied()) else {
            return;
        };
        if let Some(engine) = self.engines.get_mut(way.replica) {
            engine.ended(arrival.adapter);
        }
        if let Some((table, seat)) = way.seat
            && let Some(table) = self.tables.get_mut(table)
        {
            table.release(seat, self.now);
        }
        let first_token = way.first_token.unwrap_or(self.now).saturating_sub(arrival.at);
        self.served.push(Served { first_token, ended_at: self.now });
        self.open -= 1;
        drop(way.count);
        self.start(way.replica);
    }

    fn read_out(&mut self, replica: usize) {
        if let (Some(engine), Some(member)) = (self.engines.get(replica), self.model.members.get(replica)) {
            let (running, waiting) = engine.load();
            let readout =
                Readout { running: Some(running as f64), waiting: Some(waiting as f64), ..Readout::default() };
            member.replica.set_readout(&readout, member.replica.in_flight(), to_ms(self.now) + 1);
        }
        self.at(self.now + READOUT, Event::Readout(replica));
    }

    /// Hand out what the tables have decided, and send their orders.
    fn settle(&mut self) {
        for table in 0..self.tables.len() {
            let woken = self.tables.get_mut(table).map(Table::drain_woken).unwrap_or_default();
            for woken in woken {
                let Some(number) = self.waiting.remove(&(table, woken.ticket)) else { continue };
                match woken.outcome {
                    Outcome::Ready(lease) => self.place(number, table, lease),
                    Outcome::Refused(_) => self.refuse(),
                }
            }
            self.send_orders(table);
        }
    }

    fn send_orders(&mut self, number: usize) {
        let Some(table) = self.tables.get_mut(number) else { return };
        let actions = plan(table, self.now);
        table.start(&actions, self.now);
        for action in actions {
            let time = match action {
                Action::Load(_) => self.speed.load,
                Action::Unload(_) => self.speed.unload,
            };
            self.at(self.now + time, Event::Done { table: number, action });
        }
    }
}

/// A model with so many replicas that nobody will ever connect to.
fn model(replicas: usize) -> Result<Arc<Model>, ConfigErrors> {
    let urls: Vec<_> = (1..=replicas).map(|port| format!("{{ url: \"http://127.0.0.1:{port}\" }}")).collect();
    let text =
        format!("models: [{{ name: m, engine: vllm, pools: [{{ name: p, replicas: [{}] }}] }}]", urls.join(", "));
    let checked = Checked::parse(&text, "(simulated)")?;
    let fleet = Fleet::new(Arc::new(checked.config), None);
    Ok(fleet.models().first().cloned().unwrap_or_else(|| unreachable!("the configuration has one model")))
}
