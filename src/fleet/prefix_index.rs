//! Which replicas have probably cached which prefix blocks.
//!
//! A guess from what was sent where: bounded, oldest blocks forgotten first, as in the engines' own caches. A block's hash
//! is chained over all blocks before it and seeded with (model, adapter, revision), so one look-up a block is enough and
//! adapters never share.

use quick_cache::sync::Cache;

/// Blocks remembered for each model: 65,536 blocks of 512 tokens are far more than a replica's KV cache holds.
const CAPACITY: usize = 65_536;

/// Members that the index tells apart; those beyond never match. One bit each in a word.
pub const MAX_MEMBERS: usize = 64;

/// The prefix blocks of one model.
#[derive(Debug)]
pub struct PrefixIndex {
    holders: Cache<u64, u64>,
}

impl Default for PrefixIndex {
    fn default() -> Self {
        Self { holders: Cache::new(CAPACITY) }
    }
}

impl PrefixIndex {
    /// For each leading block the bit set of the members that hold it and all blocks before it; ends at the first block
    /// that nobody holds.
    pub fn holders<'a>(&'a self, blocks: &'a [u64]) -> impl Iterator<Item = u64> + 'a {
        blocks.iter().scan(u64::MAX, |mask, block| {
            *mask &= self.holders.get(block)?;
            (*mask != 0).then_some(*mask)
        })
    }

    /// The member was sent a prompt with these blocks.
    pub fn insert(&self, blocks: &[u64], member: usize) {
        let Some(bit) = bit(member) else { return };
        for block in blocks {
            let before = self.holders.get(block).unwrap_or(0);
            if before & bit == 0 {
                // Two workers may race and one bit be lost: the next request with this block sets it again.
                self.holders.insert(*block, before | bit);
            }
        }
    }
}

/// The member's bit, if it has one.
pub fn bit(member: usize) -> Option<u64> {
    (member < MAX_MEMBERS).then(|| 1 << member)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masks(index: &PrefixIndex, blocks: &[u64]) -> Vec<u64> {
        index.holders(blocks).collect()
    }

    #[test]
    fn a_member_matches_as_far_as_it_was_sent_the_same_blocks() {
        let index = PrefixIndex::default();
        index.insert(&[1, 2, 3], 0);
        index.insert(&[1, 2], 5);
        assert_eq!(masks(&index, &[1, 2, 3, 4]), [0b10_0001, 0b10_0001, 0b1]);
    }

    #[test]
    fn a_hole_ends_the_match() {
        let index = PrefixIndex::default();
        index.insert(&[1], 0);
        index.insert(&[3], 0);
        assert_eq!(masks(&index, &[1, 2, 3]), [1]);
    }

    #[test]
    fn members_beyond_the_last_bit_never_match() {
        let index = PrefixIndex::default();
        index.insert(&[1], MAX_MEMBERS);
        assert!(masks(&index, &[1]).is_empty());
    }
}
