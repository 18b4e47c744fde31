//! A client of which one knows what it received: one connection for each request, no pool, no retry of its own.

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// For an answer's head and for each piece of its body.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why there was no answer, or not all of it.
pub type Broken = Box<dyn std::error::Error + Send + Sync>;

/// An answer read to its end.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }
}

/// An answer that is being received. Dropping it closes the connection.
pub struct Stream {
    pub status: StatusCode,
    pub headers: HeaderMap,
    body: Incoming,
    unread: Vec<u8>,
    _connection: Connection,
}

impl Stream {
    /// The next event's data; `None` at the end of the body.
    pub async fn event(&mut self) -> Result<Option<String>, Broken> {
        loop {
            if let Some(end) = self.unread.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.unread.drain(..end + 2).collect();
                let data = data_of(&String::from_utf8(block)?);
                if data.is_some() {
                    return Ok(data);
                }
                continue;
            }
            let Some(piece) = self.piece().await? else {
                return if self.unread.is_empty() { Ok(None) } else { Err("the last event is not whole".into()) };
            };
            self.unread.extend_from_slice(&piece);
        }
    }

    /// Read the body to its end.
    pub async fn rest(mut self) -> Result<Answer, Broken> {
        while let Some(piece) = self.piece().await? {
            self.unread.extend_from_slice(&piece);
        }
        Ok(Answer { status: self.status, headers: self.headers, body: self.unread.into() })
    }

    async fn piece(&mut self) -> Result<Option<Bytes>, Broken> {
        let frame = timeout(PATIENCE, self.body.frame()).await?;
        Ok(frame.transpose()?.map(|frame| frame.into_data().unwrap_or_default()))
    }
}

/// The data of a block of lines; `None` if it has none, as a comment or an empty block, which are no events.
fn data_of(block: &str) -> Option<String> {
    let lines: Vec<&str> = block.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim_start).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// The task that drives a connection; it and its socket end with the value.
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Send a request and wait for the head of the answer.
pub async fn send(to: SocketAddr, method: Method, path: &str, body: Option<&Value>) -> Result<Stream, Broken> {
    let io = TokioIo::new(TcpStream::connect(to).await?);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await?;
    let connection = Connection(tokio::spawn(async move { drop(connection.await) }));
    let body = body.map(Value::to_string).unwrap_or_default();
    let request = Request::builder().method(method).uri(path).header("host", to.to_string());
    let request = request.header("content-type", "application/json").body(Full::new(Bytes::from(body)))?;
    let (head, body) = timeout(PATIENCE, sender.send_request(request)).await??.into_parts();
    Ok(Stream { status: head.status, headers: head.headers, body, unread: Vec::new(), _connection: connection })
}

/// POST, and the head of the answer.
pub async fn begin(to: SocketAddr, path: &str, body: &Value) -> Result<Stream, Broken> {
    send(to, Method::POST, path, Some(body)).await
}

/// POST, and the whole answer.
pub async fn try_post(to: SocketAddr, path: &str, body: &Value) -> Result<Answer, Broken> {
    begin(to, path, body).await?.rest().await
}

/// POST, where an answer must come.
pub async fn post(to: SocketAddr, path: &str, body: &Value) -> Answer {
    try_post(to, path, body).await.unwrap_or_else(|error| panic!("POST {to}{path}: {error}"))
}

/// GET, and the whole answer.
pub async fn try_get(to: SocketAddr, path: &str) -> Result<Answer, Broken> {
    send(to, Method::GET, path, None).await?.rest().await
}

/// GET, where an answer must come.
pub async fn get(to: SocketAddr, path: &str) -> Answer {
    try_get(to, path).await.unwrap_or_else(|error| panic!("GET {to}{path}: {error}"))
}
