//! Drops tripped replicas. If all are tripped it keeps all: a fleet-wide trip is more likely our fault than theirs.

use super::{Kept, narrow};
use crate::fleet::snapshot::{BreakerView, Candidate};

pub(super) fn apply<'a>(kept: &mut Kept<'a>, dropped: &mut impl FnMut(&'a Candidate)) {
    narrow(kept, usable, dropped);
}

/// May it get this request? A probing replica may get one at a time, so a busy one counts as tripped.
pub(crate) fn usable(candidate: &Candidate) -> bool {
    match candidate.breaker {
        BreakerView::Healthy => true,
        BreakerView::Tripped => false,
        BreakerView::Probing => candidate.in_flight < 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::filter::Filter;
    use crate::scheduler::fixture::{candidate, kept_by};
    use BreakerView::{Healthy, Probing, Tripped};

    #[test]
    fn tripped_and_busy_probing_replicas_are_dropped_unless_all_are() {
        for (fleet, expected) in [
            (vec![(Healthy, 9.0), (Tripped, 0.0), (Healthy, 0.0)], vec![0, 2]),
            (vec![(Probing, 0.0), (Healthy, 0.0)], vec![0, 1]),
            (vec![(Probing, 1.0), (Healthy, 5.0)], vec![1]),
            (vec![(Tripped, 0.0), (Tripped, 0.0)], vec![0, 1]),
            (vec![(Probing, 1.0), (Tripped, 0.0)], vec![0, 1]),
            (vec![(Probing, 0.0), (Tripped, 0.0)], vec![0]),
        ] {
            let candidates: Vec<_> = (fleet.iter().enumerate())
                .map(|(at, &(breaker, in_flight))| Candidate { breaker, in_flight, ..candidate(at) })
                .collect();
            assert_eq!(kept_by(Filter::BreakerOpen, &Default::default(), &candidates), expected, "{fleet:?}");
        }
    }
}
