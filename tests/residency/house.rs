//! A table with its engines, for tests of one behaviour each.

use pointsman::residency::state::State;
use pointsman::residency::{
    Acquired, Action, AdapterId, Lease, Listing, LoadFailure, Outcome, Pick, Policy, Reach, Reason, ReplicaId, Table,
    Ticket, plan,
};
use std::num::NonZeroUsize;
use std::time::Duration;

/// A table with its engines; engines answer when told to.
pub(crate) struct House {
    pub(crate) table: Table,
    pub(crate) replicas: Vec<ReplicaId>,
    pub(crate) adapters: Vec<AdapterId>,
    pub(crate) now: Duration,
}

pub(crate) fn house(replicas: usize, slots: usize, adapters: usize) -> House {
    let mut table = Table::new(Policy::default(), NonZeroUsize::new(slots).unwrap());
    let now = Duration::from_secs(100);
    let replicas = (0..replicas).map(|_| table.add_replica(now)).collect();
    let adapters = (0..adapters).map(|_| table.add_adapter()).collect();
    House { table, replicas, adapters, now }
}

impl House {
    pub(crate) fn ask(&mut self, adapter: usize, replica: usize, reach: Reach) -> Acquired {
        let pick = Pick { replica: self.replicas[replica], reach };
        self.table.acquire(self.adapters[adapter], pick, self.now)
    }

    /// Sends what is due.
    pub(crate) fn orders(&mut self) -> Vec<Action> {
        let actions = plan(&self.table, self.now);
        self.table.start(&actions, self.now);
        actions
    }

    pub(crate) fn answer(&mut self, result: Result<(), LoadFailure>) {
        for action in self.orders() {
            match action {
                Action::Load(holding) => self.table.load_done(holding, result, self.now),
                Action::Unload(holding) => self.table.unload_done(holding, Ok(()), self.now),
            }
        }
    }

    /// Asks, and lets the engines answer until the adapter is there.
    pub(crate) fn hold(&mut self, adapter: usize, replica: usize) -> Lease {
        let acquired = self.ask(adapter, replica, Reach::Apart);
        if let Acquired::Ready(lease) = acquired {
            return lease;
        }
        self.answer(Ok(()));
        self.answer(Ok(()));
        self.ready().pop().unwrap()
    }

    pub(crate) fn use_once(&mut self, adapter: usize, replica: usize) {
        let lease = self.hold(adapter, replica);
        self.later(1);
        self.table.release(lease, self.now);
    }

    pub(crate) fn ready(&mut self) -> Vec<Lease> {
        let woken = self.table.drain_woken().into_iter().map(|woken| woken.outcome);
        woken.map(|outcome| if let Outcome::Ready(lease) = outcome { lease } else { panic!("{outcome:?}") }).collect()
    }

    pub(crate) fn refused(&mut self) -> Vec<Reason> {
        let woken = self.table.drain_woken().into_iter().map(|woken| woken.outcome);
        woken
            .map(|outcome| if let Outcome::Refused(why) = outcome { why.reason } else { panic!("{outcome:?}") })
            .collect()
    }

    pub(crate) fn later(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.table.tick(self.now);
    }

    pub(crate) fn state(&self, adapter: usize, replica: usize) -> State {
        self.table.state(self.adapters[adapter], self.replicas[replica]).unwrap()
    }

    pub(crate) fn observe(&mut self, replica: usize, adapters: &[usize], start_time: f64) {
        let adapters: Vec<_> = adapters.iter().map(|adapter| self.adapters[*adapter]).collect();
        let asked_at = self.now;
        self.now += Duration::from_millis(5);
        let listing = Listing { adapters: &adapters, start_time: Some(start_time), asked_at };
        self.table.observe(self.replicas[replica], listing, self.now);
    }
}

pub(crate) fn is_load(action: &Action) -> bool {
    matches!(action, Action::Load(_))
}

pub(crate) fn ticket(acquired: Acquired) -> Ticket {
    match acquired {
        Acquired::AwaitLoad { ticket, .. } | Acquired::Started { ticket, .. } | Acquired::AwaitSlot(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}
