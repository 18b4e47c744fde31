//! `n / (n + waiting + running)`: unlike queue it sees the batch that already runs.

use super::falling;
use crate::scheduler::field::{Field, Scores};
use crate::scheduler::load::batch;

pub(super) fn scores(half: f64, field: &Field<'_>) -> Scores {
    field.score(|candidate| falling(half, batch(candidate)))
}

#[cfg(test)]
mod tests {
    use crate::fleet::snapshot::Candidate;
    use crate::scheduler::fixture::{candidate, scored_by};
    use crate::scheduler::scorer::Scorer;

    #[test]
    fn waiting_and_running_count_alike() {
        for (half, waiting, running, expected) in
            [(30.0, 0.0, 0.0, 1.0), (30.0, 10.0, 20.0, 0.5), (30.0, 0.0, 90.0, 0.25), (10.0, 10.0, 0.0, 0.5)]
        {
            let fleet = [Candidate { waiting, running, ..candidate(0) }];
            let scores = scored_by(Scorer::Load(half), &Default::default(), &fleet);
            assert_eq!(scores, [expected], "load({half}) of {waiting} + {running}");
        }
    }
}
