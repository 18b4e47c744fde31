//! The engines' endpoints that are proxied. Decides by path alone; whether the method fits is the gateway's question.
//!
//! The paths are vLLM's; llama.cpp serves a part of them.

/// An endpoint that takes a POST with a `model` in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// `/v1/chat/completions`
    ChatCompletions,
    /// `/v1/completions`
    Completions,
    /// `/v1/embeddings`
    Embeddings,
    /// `/v1/responses`
    Responses,
    /// `/v1/messages`, Anthropic's dialect
    Messages,
    /// `/v1/rerank`, `/rerank`, `/v2/rerank`
    Rerank,
    /// `/v1/score`, `/score`
    Score,
    /// `/tokenize`
    Tokenize,
    /// `/detokenize`
    Detokenize,
    /// `/pooling`
    Pooling,
    /// `/classify`
    Classify,
    /// `/v1/audio/transcriptions`
    Transcriptions,
    /// `/v1/audio/translations`
    Translations,
}

/// How a body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    /// One JSON object.
    Json,
    /// `multipart/form-data`
    Multipart,
}

/// How an error is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorDialect {
    /// `{"error":{"message","type","param","code"}}`
    OpenAi,
    /// `{"type":"error","error":{"type","message"}}`
    Anthropic,
}

impl Endpoint {
    /// The endpoint of a request's path. A query string is ignored; the match is exact and case-sensitive otherwise.
    pub fn from_path(path: &str) -> Option<Self> {
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        Some(match path {
            "/v1/chat/completions" => Self::ChatCompletions,
            "/v1/completions" => Self::Completions,
            "/v1/embeddings" => Self::Embeddings,
            "/v1/responses" => Self::Responses,
            "/v1/messages" => Self::Messages,
            "/v1/rerank" | "/rerank" | "/v2/rerank" => Self::Rerank,
            "/v1/score" | "/score" => Self::Score,
            "/tokenize" => Self::Tokenize,
            "/detokenize" => Self::Detokenize,
            "/pooling" => Self::Pooling,
            "/classify" => Self::Classify,
            "/v1/audio/transcriptions" => Self::Transcriptions,
            "/v1/audio/translations" => Self::Translations,
            _ => return None,
        })
    }

    /// Its name in metrics and logs: one for all paths of the endpoint.
    pub fn name(self) -> &'static str {
        match self {
            Self::ChatCompletions => "chat_completions",
            Self::Completions => "completions",
            Self::Embeddings => "embeddings",
            Self::Responses => "responses",
            Self::Messages => "messages",
            Self::Rerank => "rerank",
            Self::Score => "score",
            Self::Tokenize => "tokenize",
            Self::Detokenize => "detokenize",
            Self::Pooling => "pooling",
            Self::Classify => "classify",
            Self::Transcriptions => "transcriptions",
            Self::Translations => "translations",
        }
    }

    /// How its request bodies are written.
    pub fn body_kind(self) -> BodyKind {
        match self {
            Self::Transcriptions | Self::Translations => BodyKind::Multipart,
            _ => BodyKind::Json,
        }
    }

    /// How its clients expect errors.
    pub fn error_dialect(self) -> ErrorDialect {
        match self {
            Self::Messages => ErrorDialect::Anthropic,
            _ => ErrorDialect::OpenAi,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_finds_its_endpoint_with_and_without_a_query() {
        for (path, name) in [
            ("/v1/chat/completions", "chat_completions"),
            ("/v1/completions", "completions"),
            ("/v1/embeddings", "embeddings"),
            ("/v1/responses", "responses"),
            ("/v1/messages", "messages"),
            ("/v1/rerank", "rerank"),
            ("/rerank", "rerank"),
            ("/v2/rerank", "rerank"),
            ("/v1/score", "score"),
            ("/score", "score"),
            ("/tokenize", "tokenize"),
            ("/detokenize", "detokenize"),
            ("/pooling", "pooling"),
            ("/classify", "classify"),
            ("/v1/audio/transcriptions", "transcriptions"),
            ("/v1/audio/translations", "translations"),
        ] {
            assert_eq!(Endpoint::from_path(path).map(Endpoint::name), Some(name), "{path}");
            assert_eq!(Endpoint::from_path(&format!("{path}?a=/b?c")).map(Endpoint::name), Some(name), "{path}");
        }
    }

    #[test]
    fn other_paths_are_no_endpoint() {
        for path in [
            "",
            "/",
            "/v1/models",
            "/v1/completions/",
            "/V1/completions",
            "/v1/responses/resp_1",
            "/v1/load_lora_adapter",
        ] {
            assert_eq!(Endpoint::from_path(path), None, "{path}");
        }
    }

    #[test]
    fn only_audio_is_multipart_and_only_messages_speaks_anthropic() {
        assert_eq!(Endpoint::Transcriptions.body_kind(), BodyKind::Multipart);
        assert_eq!(Endpoint::Translations.body_kind(), BodyKind::Multipart);
        assert_eq!(Endpoint::ChatCompletions.body_kind(), BodyKind::Json);
        assert_eq!(Endpoint::Messages.error_dialect(), ErrorDialect::Anthropic);
        assert_eq!(Endpoint::Responses.error_dialect(), ErrorDialect::OpenAi);
    }
}
