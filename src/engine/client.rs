//! A small HTTP/1.1 client for the control plane of replicas: health, metrics, adapters.
//!
//! Takes `host:port` and a path, gives the body of a 2xx answer. Every call ends within the client's time limit and
//! reads at most [`BODY_LIMIT`] bytes. It never carries users' requests.

use bytes::Bytes;
use http::{Method, Request, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_util::client::legacy::{Client as Http, Error as HttpError, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::{error::Error, fmt, time::Duration};

/// Largest body read, bytes. A full vLLM metrics text is about 70 KB; each adapter adds some.
pub const BODY_LIMIT: usize = 4 << 20;
/// How long an idle connection is kept: below the 5 s after which both engines close it.
const IDLE: Duration = Duration::from_secs(4);

/// Clones share one pool of connections.
#[derive(Clone, Debug)]
pub struct Client {
    http: Http<HttpConnector, Full<Bytes>>,
    time_limit: Duration,
}

/// Why a call gave no usable body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// No connection: refused, no route, or no such host.
    Refused(String),
    /// No complete answer within the time limit.
    TimedOut,
    /// An answer other than 2xx, with the engine's own message.
    Status {
        /// The HTTP status.
        status: u16,
        /// The message inside the engine's error object, or the start of the body.
        message: String,
    },
    /// The connection broke, or the body was too long or not what was asked for.
    BadBody(String),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) => write!(f, "cannot connect: {why}"),
            Self::TimedOut => f.write_str("no answer in time"),
            Self::Status { status, message } => write!(f, "status {status}: {message}"),
            Self::BadBody(why) => write!(f, "unusable answer: {why}"),
        }
    }
}

impl Error for CallError {}

impl Client {
    /// A client with its own pool whose calls take at most `time_limit`.
    pub fn new(time_limit: Duration) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let http =
            Http::builder(TokioExecutor::new()).pool_idle_timeout(IDLE).pool_timer(TokioTimer::new()).build(connector);
        Self { http, time_limit }
    }

    /// The same pool with another time limit.
    pub fn within(&self, time_limit: Duration) -> Self {
        Self { http: self.http.clone(), time_limit }
    }

    /// GET; the body of a 2xx answer.
    pub async fn get(&self, address: &str, path: &str) -> Result<Bytes, CallError> {
        self.call(Method::GET, address, path, Bytes::new()).await
    }

    /// POST of a JSON body; the body of a 2xx answer.
    pub async fn post(&self, address: &str, path: &str, json: String) -> Result<Bytes, CallError> {
        self.call(Method::POST, address, path, json.into()).await
    }

    async fn call(&self, method: Method, address: &str, path: &str, body: Bytes) -> Result<Bytes, CallError> {
        let exchange = self.exchange(method, address, path, body);
        tokio::time::timeout(self.time_limit, exchange).await.unwrap_or(Err(CallError::TimedOut))
    }

    async fn exchange(&self, method: Method, address: &str, path: &str, body: Bytes) -> Result<Bytes, CallError> {
        let request = || {
            Request::builder()
                .method(method.clone())
                .uri(format!("http://{address}{path}"))
                .header(CONTENT_TYPE, "application/json")
                .body(Full::new(body.clone()))
                .map_err(|e| CallError::Refused(e.to_string()))
        };
        let mut answer = self.http.request(request()?).await;
        // The pool itself retries a request that it never wrote. One that was written while the engine closed the idle
        // connection may have been acted on, so only a GET goes out again.
        if method == Method::GET && answer.as_ref().is_err_and(broke_off) {
            answer = self.http.request(request()?).await;
        }
        let (head, body) = answer.map_err(|e| failed(&e))?.into_parts();
        let body = Limited::new(body, BODY_LIMIT).collect().await.map_err(|e| bad_body(&*e))?.to_bytes();
        if head.status.is_success() {
            return Ok(body);
        }
        Err(CallError::Status { status: head.status.as_u16(), message: message_of(&body) })
    }
}

fn broke_off(error: &HttpError) -> bool {
    let cause = error.source().and_then(|source| source.downcast_ref::<hyper::Error>());
    cause.is_some_and(|cause| cause.is_incomplete_message() || cause.is_canceled())
}

fn failed(error: &HttpError) -> CallError {
    let why = error.source().map_or_else(|| error.to_string(), root_cause);
    if error.is_connect() { CallError::Refused(why) } else { CallError::BadBody(why) }
}

fn bad_body(error: &(dyn Error + Send + Sync + 'static)) -> CallError {
    if error.is::<LengthLimitError>() {
        return CallError::BadBody(format!("longer than {BODY_LIMIT} bytes"));
    }
    CallError::BadBody(root_cause(error))
}

fn root_cause(mut error: &(dyn Error + 'static)) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// The message of `{"error":{"message"}}` (both engines) or `{"detail"}` (vLLM's router), else the first 300 bytes.
fn message_of(body: &[u8]) -> String {
    let json: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let message = json.pointer("/error/message").or_else(|| json.get("detail")).and_then(|text| text.as_str());
    let start = body.get(..300).unwrap_or(body);
    message.map_or_else(|| String::from_utf8_lossy(start).into_owned(), str::to_owned)
}
