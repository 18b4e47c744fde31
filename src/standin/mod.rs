//! A stand-in engine that speaks the API recorded of vLLM 0.32.0.
