//! The states of one adapter on one replica, and the only ways between them.
//!
//! Pure: [`next`] is a function of state and event. What may happen when is decided here; what should happen is decided in
//! `acquire.rs`, `place.rs` and `plan.rs`.
//!
//! ```text
//!            Promise          Load             Sent, Loaded           Drain
//!   Absent ----------> Promised ----> Loading ---------------> Resident ----> Draining
//!   Failed ------------- Load ----------^  | Fault              |  ^ Recall     |
//!     ^  ^-------------------------------- +                    |  +------------+
//!     +----------- Unloaded --------------- Evicting <--- Evict-+---------------+
//! ```

use super::failure::Setback;
use std::time::Duration;

/// How far an order to the engine has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// To be sent at this time or later.
    Due(Duration),
    /// Sent; its result is awaited.
    Sent,
}

/// Where one adapter stands on one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not there.
    Absent,
    /// Not there; it gets the next slot that is vacated, and nobody else does. Takes no slot yet.
    Promised,
    /// Being loaded.
    Loading(Step),
    /// Loaded; may be leased.
    Resident,
    /// Loaded, but closed: running leases go on, new ones are not given, and it is evicted when they have ended.
    Draining,
    /// Being unloaded.
    Evicting {
        /// The unload order.
        step: Step,
        /// The load failed and it is unloaded only to be sure: what to remember afterwards.
        after: Option<Setback>,
    },
    /// Not there, and not to be loaded before [`Setback::until`].
    Failed(Setback),
}

impl State {
    /// Does it take one of the replica's slots now?
    pub fn occupies(self) -> bool {
        matches!(self, Self::Loading(_) | Self::Resident | Self::Draining | Self::Evicting { .. })
    }

    /// Is it there to stay, or coming? Such a copy will take a slot once all evictions under way are done.
    pub fn claims(self) -> bool {
        matches!(self, Self::Promised | Self::Loading(_) | Self::Resident)
    }

    /// Is a load under way or promised?
    pub fn is_coming(self) -> bool {
        matches!(self, Self::Promised | Self::Loading(_))
    }

    /// The failure that forbids a load at `now`.
    pub fn setback(self, now: Duration) -> Option<Setback> {
        match self {
            Self::Failed(setback) | Self::Evicting { after: Some(setback), .. } => Some(setback),
            _ => None,
        }
        .filter(|setback| setback.until > now)
    }

    /// May a load or a promise begin at `now`?
    pub fn is_startable(self, now: Duration) -> bool {
        matches!(self, Self::Absent | Self::Failed(_)) && self.setback(now).is_none()
    }
}

/// What happens to an adapter on a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The next vacated slot is promised to it.
    Promise,
    /// It gets a slot; the load is due now.
    Load(Duration),
    /// Nobody wants it any more before its load was sent.
    Withdraw,
    /// The order was sent.
    Sent,
    /// The load succeeded.
    Loaded,
    /// It was found on the engine.
    Adopt,
    /// The load failed.
    Fault(Setback, Duration),
    /// It takes no new leases.
    Drain,
    /// It goes; the unload is due now.
    Evict(Duration),
    /// It stays after all: it is wanted again, and its going was not yet sent.
    Recall,
    /// The unload succeeded, or there was nothing to unload.
    Unloaded,
    /// The unload failed and is due again then.
    UnloadFailed(Duration),
    /// The engine no longer has it.
    Lose,
    /// What made it fail may have changed.
    Forgive,
}

/// The state after `event`, or `None` where the event cannot happen.
pub fn next(state: State, event: Event) -> Option<State> {
    use State::{Absent, Draining, Evicting, Failed, Loading, Promised, Resident};
    use Step::{Due, Sent};
    Some(match (state, event) {
        (Absent | Failed(_), Event::Promise) => Promised,
        (Absent | Failed(_) | Promised, Event::Load(at)) => Loading(Due(at)),
        (Promised | Loading(Due(_)), Event::Withdraw) => Absent,
        (Loading(Due(_)), Event::Sent) => Loading(Sent),
        (Evicting { step: Due(_), after }, Event::Sent) => Evicting { step: Sent, after },
        (Loading(Sent), Event::Loaded) | (Absent | Failed(_) | Promised, Event::Adopt) => Resident,
        (Loading(Sent), Event::Fault(setback, now)) if setback.kind.is_uncertain() => {
            Evicting { step: Due(now), after: Some(setback) }
        }
        (Loading(Sent), Event::Fault(setback, _)) => Failed(setback),
        (Resident, Event::Drain) => Draining,
        (Resident | Draining, Event::Evict(at)) => Evicting { step: Due(at), after: None },
        (Draining | Evicting { step: Due(_), after: None }, Event::Recall) => Resident,
        (Evicting { after, .. }, Event::Unloaded | Event::Lose) => after.map_or(Absent, Failed),
        (Evicting { step: Sent, after }, Event::UnloadFailed(at)) => Evicting { step: Due(at), after },
        (Resident | Draining, Event::Lose) | (Failed(_), Event::Forgive) => Absent,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::failure::LoadFailure;
    use super::*;

    const T: Duration = Duration::from_secs(7);

    fn setback(kind: LoadFailure) -> Setback {
        Setback::new(kind, 1, T)
    }

    fn states() -> Vec<State> {
        use State::*;
        use Step::*;
        let broken = setback(LoadFailure::NotFound);
        let mut all = vec![Absent, Promised, Loading(Due(T)), Loading(Sent), Resident, Draining, Failed(broken)];
        for step in [Due(T), Sent] {
            all.extend([None, Some(broken)].map(|after| Evicting { step, after }));
        }
        all
    }

    fn events() -> Vec<Event> {
        use Event::*;
        let faults = [LoadFailure::NotFound, LoadFailure::TimedOut].map(|kind| Fault(setback(kind), T));
        let mut all = vec![Promise, Load(T), Withdraw, Sent, Loaded, Adopt, Drain, Evict(T), Recall, Unloaded];
        all.extend([UnloadFailed(T), Lose, Forgive]);
        all.extend(faults);
        all
    }

    #[test]
    fn a_copy_lives_from_cold_to_gone() {
        let path = [
            (Event::Promise, State::Promised),
            (Event::Load(T), State::Loading(Step::Due(T))),
            (Event::Sent, State::Loading(Step::Sent)),
            (Event::Loaded, State::Resident),
            (Event::Drain, State::Draining),
            (Event::Evict(T), State::Evicting { step: Step::Due(T), after: None }),
            (Event::Sent, State::Evicting { step: Step::Sent, after: None }),
            (Event::UnloadFailed(T), State::Evicting { step: Step::Due(T), after: None }),
            (Event::Unloaded, State::Absent),
        ];
        let mut state = State::Absent;
        for (event, expected) in path {
            state = next(state, event).unwrap();
            assert_eq!(state, expected, "after {event:?}");
        }
    }

    #[test]
    fn a_failed_load_frees_its_slot_only_when_the_engine_cannot_hold_it() {
        for (kind, keeps_slot) in [
            (LoadFailure::NotFound, false),
            (LoadFailure::Unfit, false),
            (LoadFailure::Rejected, false),
            (LoadFailure::Restarted, false),
            (LoadFailure::Unreachable, true),
            (LoadFailure::TimedOut, true),
        ] {
            let after = next(State::Loading(Step::Sent), Event::Fault(setback(kind), T)).unwrap();
            assert_eq!(after.occupies(), keeps_slot, "{kind:?}");
            assert_eq!(after.setback(T).map(|s| s.kind), Some(kind).filter(|k| !k.backoff(1).is_zero()), "{kind:?}");
        }
    }

    #[test]
    fn every_pair_of_state_and_event_is_allowed_or_refused_as_listed() {
        let allowed = |event: Event| match event {
            Event::Promise => "Absent Failed",
            Event::Load(_) => "Absent Failed Promised",
            Event::Adopt => "Absent Failed Promised",
            Event::Withdraw => "Promised Loading:due",
            Event::Sent => "Loading:due Evicting:due Evicting:due!",
            Event::Loaded => "Loading:sent",
            Event::Fault(..) => "Loading:sent",
            Event::Forgive => "Failed",
            Event::Drain => "Resident",
            Event::Evict(_) => "Resident Draining",
            Event::Recall => "Draining Evicting:due",
            Event::Unloaded => "Evicting:due Evicting:sent Evicting:due! Evicting:sent!",
            Event::UnloadFailed(_) => "Evicting:sent Evicting:sent!",
            Event::Lose => "Resident Draining Evicting:due Evicting:sent Evicting:due! Evicting:sent!",
        };
        let name = |state: State| match state {
            State::Absent => "Absent",
            State::Promised => "Promised",
            State::Loading(Step::Due(_)) => "Loading:due",
            State::Loading(Step::Sent) => "Loading:sent",
            State::Resident => "Resident",
            State::Draining => "Draining",
            State::Evicting { step: Step::Due(_), after: None } => "Evicting:due",
            State::Evicting { step: Step::Due(_), after: Some(_) } => "Evicting:due!",
            State::Evicting { step: Step::Sent, after: None } => "Evicting:sent",
            State::Evicting { step: Step::Sent, after: Some(_) } => "Evicting:sent!",
            State::Failed(_) => "Failed",
        };
        for state in states() {
            for event in events() {
                let expected = allowed(event).split(' ').any(|allowed| allowed == name(state));
                assert_eq!(next(state, event).is_some(), expected, "{state:?} on {event:?}");
            }
        }
    }

    #[test]
    fn only_a_load_an_adoption_or_a_promise_kept_takes_a_new_slot() {
        for (state, event) in states().into_iter().flat_map(|s| events().into_iter().map(move |e| (s, e))) {
            let Some(after) = next(state, event) else { continue };
            if after.occupies() && !state.occupies() {
                assert!(matches!(event, Event::Load(_) | Event::Adopt), "{state:?} on {event:?}");
            }
        }
    }
}
