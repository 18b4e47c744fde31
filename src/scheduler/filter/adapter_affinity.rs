//! For a request with an on-demand adapter: keeps the holders with room; failing that the replicas with a free slot and
//! room; failing that everything. Leaves all other requests alone.
//!
//! A filter and not a scorer, since a miss is a load: seconds, and perhaps another adapter thrown out. A saturated holder
//! gives way, and that is the only way in which a hot adapter spreads.

use super::{Kept, narrow};
use crate::fleet::snapshot::{AdapterView, Candidate};
use crate::scheduler::{profile::Thresholds, request::Request};

pub(super) fn apply<'a>(
    request: &Request,
    thresholds: &Thresholds,
    kept: &mut Kept<'a>,
    dropped: &mut impl FnMut(&'a Candidate),
) {
    let room = |candidate: &Candidate| candidate.saturation(thresholds) < 1.0;
    if request.on_demand_adapter {
        let _ = narrow(kept, |candidate| holds(candidate) && room(candidate), dropped)
            || narrow(kept, |candidate| candidate.free_slots > 0 && room(candidate), dropped);
    }
}

/// A replica that still loads holds it too: a second load elsewhere would take longer than waiting for the first.
fn holds(candidate: &Candidate) -> bool {
    matches!(candidate.adapter, AdapterView::Resident | AdapterView::Loading)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::filter::Filter;
    use crate::scheduler::fixture::{candidate, kept_by};
    use AdapterView::{Absent, Loading, Resident};

    fn candidates(fleet: &[(AdapterView, usize, f64)]) -> Vec<Candidate> {
        (fleet.iter().enumerate())
            .map(|(at, &(adapter, free_slots, waiting))| Candidate { adapter, free_slots, waiting, ..candidate(at) })
            .collect()
    }

    #[test]
    fn holders_then_free_slots_then_everything() {
        let request = Request { on_demand_adapter: true, ..Default::default() };
        for (name, fleet, expected) in [
            ("holders", vec![(Absent, 2, 0.0), (Resident, 0, 3.0), (Loading, 0, 0.0)], vec![1, 2]),
            ("a full holder gives way to a free slot", vec![(Resident, 0, 4.0), (Absent, 1, 0.0)], vec![1]),
            ("a full holder gives way to another holder", vec![(Resident, 0, 4.0), (Loading, 0, 0.0)], vec![1]),
            ("free slots with room", vec![(Absent, 0, 0.0), (Absent, 1, 0.0), (Absent, 1, 4.0)], vec![1]),
            ("no slot", vec![(Absent, 0, 0.0), (Absent, 0, 0.0)], vec![0, 1]),
            ("no room", vec![(Resident, 1, 4.0), (Absent, 1, 4.0)], vec![0, 1]),
        ] {
            assert_eq!(kept_by(Filter::AdapterAffinity, &request, &candidates(&fleet)), expected, "{name}");
        }
    }

    #[test]
    fn other_requests_are_left_alone() {
        let fleet = candidates(&[(Resident, 0, 0.0), (Absent, 1, 0.0)]);
        assert_eq!(kept_by(Filter::AdapterAffinity, &Request::default(), &fleet), [0, 1]);
    }
}
