//! What a decision needs to know about a request. No text of the client gets here, only hashes and counts.

/// A request as the scheduler sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// It needs an adapter that is loaded on demand; false for a base model and for adapters registered at start.
    pub on_demand_adapter: bool,
    /// The conversation it belongs to.
    pub session: Option<Session>,
    /// Hash of what keeps it near others without a session: its adapter, else its first prefix blocks.
    /// Read only by the picker `two-choice`.
    pub affinity_key: Option<u64>,
    /// Prefix blocks of the whole request; 0 when prefixes are not followed.
    pub prefix_blocks: u32,
    /// Estimated tokens of the prompt; 0 when unknown.
    pub prompt_tokens: u32,
    /// Counts the model's requests; the turn of `round-robin`.
    pub turn: u64,
}

/// A conversation whose cache lies on the replica that served it last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Hash of the client's session id.
    pub key: u64,
    /// Identity of the replica that served the session last, while that is remembered.
    pub remembered: Option<u64>,
}
