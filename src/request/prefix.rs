//! The prefix blocks of a prompt: hashes by which two prompts with the same beginning are recognised.
//!
//! Input: the body, where its prompt lies, and a seed that stands for (model, adapter, revision). Block *i* is
//! `xxh3_64(bytes of block i, seed = block i - 1)`, block 0 takes the caller's seed: equal hashes mean equal beginnings, not
//! just equal blocks. Only whole blocks of the raw JSON text count, so the turns of one conversation share every block before
//! the bracket that closes `messages`.
//!
//! It never decodes or tokenises: the text is compared as the client wrote it.

use super::span::Span;
use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes of a block: about 512 tokens at 4 bytes a token. Guess; an engine's own blocks are 16 to 128 tokens, and finer
/// blocks here cost index entries without telling replicas apart.
pub const PREFIX_BLOCK_BYTES: usize = 2_048;

/// Blocks that are hashed at most: the first 128 KiB, about 32,000 tokens. Guess.
pub const MAX_PREFIX_BLOCKS: usize = 64;

/// The hashes of a prompt's leading blocks, in order.
pub type PrefixBlocks = SmallVec<[u64; MAX_PREFIX_BLOCKS]>;

/// Hashes the leading blocks of a prompt that consists of `prompt`'s pieces of `body`.
///
/// A piece that is not the last (`system` before `messages`) may end within a block: that rest is no block, but what follows
/// is chained to it.
pub fn prefix_blocks(body: &[u8], prompt: &[Span], seed: u64) -> PrefixBlocks {
    let mut blocks = PrefixBlocks::new();
    let mut chain = seed;
    for piece in prompt {
        let (whole, rest) = piece.of(body).as_chunks::<PREFIX_BLOCK_BYTES>();
        for block in whole.iter().take(MAX_PREFIX_BLOCKS - blocks.len()) {
            chain = xxh3_64_with_seed(block, chain);
            blocks.push(chain);
        }
        chain = if rest.is_empty() { chain } else { xxh3_64_with_seed(rest, chain) };
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(text: &str, seed: u64) -> PrefixBlocks {
        prefix_blocks(text.as_bytes(), &[Span { start: 0, end: text.len() }], seed)
    }

    #[test]
    fn only_whole_blocks_count() {
        for (bytes, count) in [(0, 0), (1, 0), (2_047, 0), (2_048, 1), (2_049, 1), (4_096, 2), (10_000_000, 64)] {
            assert_eq!(blocks(&"x".repeat(bytes), 1).len(), count, "{bytes} bytes");
        }
    }

    #[test]
    fn turns_of_a_conversation_share_all_blocks_before_the_closing_bracket() {
        let first = format!(r#"[{{"role":"user","content":"{}"}}]"#, "why ".repeat(3_000));
        let second = format!("{},{}", &first[..first.len() - 1], r#"{"role":"assistant","content":"because"}]"#);
        let (first, second) = (blocks(&first, 7), blocks(&second, 7));
        assert_eq!(first.len(), 5);
        assert_eq!(first[..], second[..5]);
    }

    #[test]
    fn an_early_difference_changes_all_later_blocks() {
        let text = "a".repeat(8_192);
        let other = format!("b{}", &text[1..]);
        assert!(blocks(&text, 1).iter().zip(blocks(&other, 1)).all(|(one, two)| *one != two));
        assert!(blocks(&text, 1).iter().zip(blocks(&text, 2)).all(|(one, two)| *one != two), "the seed is part of it");
    }

    #[test]
    fn equal_blocks_at_different_places_have_different_hashes() {
        let mut seen = blocks(&"a".repeat(131_072), 1).to_vec();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), MAX_PREFIX_BLOCKS);
    }

    #[test]
    fn a_short_system_prompt_changes_the_blocks_of_the_messages() {
        let of = |system: &str| {
            let body = format!("{system}{}", "m".repeat(4_096));
            let cut = system.len();
            prefix_blocks(body.as_bytes(), &[Span { start: 0, end: cut }, Span { start: cut, end: body.len() }], 1)
        };
        assert_eq!(of("be brief").len(), 2);
        assert_eq!(of("be brief"), of("be brief"));
        assert_ne!(of("be brief"), of("be kind."));
    }
}
