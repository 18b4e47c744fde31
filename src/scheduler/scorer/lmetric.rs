//! `least cost / cost`, where `cost = new prefill tokens * batch size`.
//!
//! New prefill tokens are the prompt less its cached share; the batch is what the engine holds, and this request. The product
//! needs no weights between cache and load: both make the first token later.

use crate::fleet::snapshot::Candidate;
use crate::scheduler::field::{Field, Scores};
use crate::scheduler::load::load;
use crate::scheduler::request::Request;

pub(super) fn scores(field: &Field<'_>) -> Scores {
    let costs = field.score(|candidate| cost(field.request, candidate));
    let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
    costs.iter().map(|cost| least / cost).collect()
}

/// At least 1: even a prompt that is cached in full computes its last token anew.
fn cost(request: &Request, candidate: &Candidate) -> f64 {
    let blocks = f64::from(request.prefix_blocks.max(1));
    let cached = (f64::from(candidate.prefix_blocks) / blocks).min(1.0);
    let new_tokens = f64::from(request.prompt_tokens) * (1.0 - cached);
    new_tokens.max(1.0) * (load(candidate) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::fixture::{candidate, scored_by};
    use crate::scheduler::scorer::Scorer;

    #[test]
    fn cache_and_load_trade_by_their_product() {
        let request = Request { prefix_blocks: 4, prompt_tokens: 400, ..Default::default() };
        for (name, one, other, expected) in [
            ("equal", (0, 0.0), (0, 0.0), [1.0, 1.0]),
            ("half is cached", (2, 0.0), (0, 0.0), [1.0, 0.5]),
            ("half is cached, twice the batch", (2, 1.0), (0, 0.0), [1.0, 1.0]),
            ("all is cached", (4, 3.0), (0, 0.0), [1.0, 0.01]),
        ] {
            let fleet =
                [one, other].map(|(prefix_blocks, running)| Candidate { prefix_blocks, running, ..candidate(0) });
            assert_eq!(scored_by(Scorer::Lmetric, &request, &fleet)[..], expected, "{name}");
        }
    }
}
