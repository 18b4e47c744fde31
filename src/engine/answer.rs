//! How to read an engine's answer to a proxied request: status and the start of the body in, [`Verdict`] out.
//!
//! Pure. It never decides whether to retry.

use memchr::memmem::find;

/// What an answer says about the replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It served the request.
    Ok,
    /// The replica failed; another may serve the request.
    ReplicaFailed,
    /// The replica asks for less (429). Says nothing about its health.
    BackPressure,
    /// The replica does not know the model or adapter by this name.
    AdapterMissing,
    /// The request is at fault. Says nothing about the replica's health.
    ClientError,
    /// 500 about this one request; the engine lives.
    ServerError,
}

/// Reads an answer. `body_head` may be empty or cut anywhere: then only the status speaks.
pub fn classify(status: u16, body_head: &[u8]) -> Verdict {
    match status {
        502..=504 => Verdict::ReplicaFailed,
        500 if has(body_head, b"EngineCore") || has(body_head, b"EngineDeadError") => Verdict::ReplicaFailed,
        500.. => Verdict::ServerError,
        429 => Verdict::BackPressure,
        404 if has(body_head, b"The model `") && has(body_head, b"` does not exist") => Verdict::AdapterMissing,
        400.. => Verdict::ClientError,
        _ => Verdict::Ok,
    }
}

fn has(text: &[u8], needle: &[u8]) -> bool {
    find(text, needle).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_a_failed_replica_from_a_failed_request() {
        let missing = br#"{"error":{"message":"The model `nope` does not exist. Valid aliases: base.","code":404}}"#;
        let dead = br#"{"error":{"message":"EngineCore encountered an issue."}}"#;
        let cases: [(u16, &[u8], Verdict); 9] = [
            (200, b"", Verdict::Ok),
            (404, missing, Verdict::AdapterMissing),
            (404, br#"{"detail":"Not Found"}"#, Verdict::ClientError),
            (400, b"", Verdict::ClientError),
            (429, b"", Verdict::BackPressure),
            (500, dead, Verdict::ReplicaFailed),
            (500, b"{}", Verdict::ServerError),
            (501, b"", Verdict::ServerError),
            (503, b"", Verdict::ReplicaFailed),
        ];
        for (status, body, verdict) in cases {
            assert_eq!(classify(status, body), verdict, "{status}");
        }
    }
}
