//! Each candidate in turn, in the order of the model's members, by the model's own counter.

use crate::scheduler::field::Field;

pub(super) fn pick(field: &Field<'_>) -> Option<usize> {
    let at = field.request.turn.checked_rem(field.kept.len() as u64)?;
    usize::try_from(at).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::fixture::{field, fleet};
    use crate::scheduler::request::Request;

    #[test]
    fn turns_go_round() {
        let turns = [0, 1, 2, 3, u64::MAX].map(|turn| Request { turn, ..Default::default() });
        let picks = turns.map(|request| field(&request, &fleet(3), |field| pick(&field)).unwrap());
        assert_eq!(picks, [0, 1, 2, 0, 0]);
    }
}
