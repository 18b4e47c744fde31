//! The control planes against a tiny server that answers with recorded codes and texts.

use super::*;
use llamacpp::{LoraAdapter, adapter_id};
use std::{
    sync::Arc,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::{net::TcpListener, task::JoinHandle};
use vllm::{Load, Unload, Vllm};

/// Answers with one status and body; after `per_connection` answers it takes one more request and closes unanswered,
/// as an engine does whose idle time-out meets a request on the wire.
struct Server {
    address: String,
    served: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn server(status: u16, body: &'static str, per_connection: usize) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let served = Arc::new(AtomicUsize::new(0));
    let count = served.clone();
    let task = tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            for _ in 0..per_connection {
                let mut request = [0; 4096];
                if socket.read(&mut request).await.unwrap_or(0) == 0 {
                    break;
                }
                count.fetch_add(1, Ordering::Relaxed);
                let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                socket.write_all(answer.as_bytes()).await.unwrap();
            }
            let _unanswered = socket.read(&mut [0; 4096]).await;
        }
    });
    Server { address, served, task }
}

fn client() -> Client {
    Client::new(Duration::from_secs(5))
}

async fn load(status: u16, body: &'static str) -> Load {
    let server = server(status, body, 1).await;
    Vllm.load_adapter(&client(), &server.address, "x", "/a").await
}

#[tokio::test]
async fn tells_the_recorded_outcomes_of_a_load_apart() {
    assert_eq!(load(200, "Success").await, Load::Loaded);
    let body = r#"{"error":{"message":"The lora adapter 'x' has already been loaded. If"}}"#;
    assert_eq!(load(400, body).await, Load::AlreadyLoaded);
    let body = r#"{"error":{"message":"The lora adapter 'base' conflicts with a served base model."}}"#;
    assert_eq!(load(400, body).await, Load::BaseNameConflict);
    assert_eq!(load(404, r#"{"detail":"Not Found"}"#).await, Load::RuntimeLoadingDisabled);
    let body = r#"{"error":{"message":"Loading lora x failed: No adapter found for /a"}}"#;
    assert!(matches!(load(404, body).await, Load::NotFound(_)));
    let body =
        r#"{"error":{"message":"Call to add_lora method failed: LoRA rank 16 is greater than max_lora_rank 8."}}"#;
    assert!(matches!(load(500, body).await, Load::RankTooHigh(_)));
    assert!(matches!(load(500, "x").await, Load::Refused { status: 500, .. }));
}

#[tokio::test]
async fn an_unload_of_an_unknown_name_is_not_loaded() {
    let server = server(404, r#"{"error":{"message":"The lora adapter 'x' cannot be found."}}"#, 1).await;
    assert_eq!(Vllm.unload_adapter(&client(), &server.address, "x").await, Unload::NotLoaded);
}

#[tokio::test]
async fn a_closed_port_is_refused_and_a_silent_server_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let hasty = client().within(Duration::from_millis(50));
    assert_eq!(hasty.get(&address, "/health").await, Err(CallError::TimedOut));
    drop(listener);
    assert!(matches!(client().get(&address, "/health").await, Err(CallError::Refused(_))));
}

#[tokio::test]
async fn a_get_survives_a_connection_that_closes_under_it() {
    let (server, client) = (server(200, "", 1).await, client());
    for _ in 0..20 {
        assert_eq!(Engine::new(EngineKind::Vllm).health(&client, &server.address).await, Ok(()));
    }
}

#[tokio::test]
async fn llamacpp_asks_only_once_for_what_is_switched_off() {
    let (server, engine) = (server(501, "{}", 9).await, Engine::new(EngineKind::LlamaCpp));
    let client = client();
    for _ in 0..3 {
        assert_eq!(engine.readout(&client, &server.address).await, Ok(Readout::default()));
    }
    assert_eq!(server.served.load(Ordering::Relaxed), 2);
}

#[test]
fn finds_an_adapter_by_path_and_by_file_name_only_if_unique() {
    let adapter = |id, path: &str| LoraAdapter { id, path: path.to_owned(), scale: 0.0 };
    let adapters = [adapter(0, "/a/x.gguf"), adapter(1, "/b/x.gguf"), adapter(2, "/b/y.gguf")];
    assert_eq!(adapter_id(&adapters, "/b/x.gguf"), Some(1));
    assert_eq!(adapter_id(&adapters, "/c/y.gguf"), Some(2));
    assert_eq!(adapter_id(&adapters, "/c/x.gguf"), None);
}

#[tokio::test]
async fn lists_base_models_and_adapters_with_their_parents() {
    let body = r#"{"object":"list","data":[{"id":"base","root":"/m/base","parent":null,"max_model_len":2048},{"id":"lora-1","root":"/m/lora-1","parent":"base","max_model_len":null}]}"#;
    let server = server(200, body, 1).await;
    let models = Vllm.models(&client(), &server.address).await.unwrap();
    let parents: Vec<_> = models.iter().map(|model| (model.id.as_str(), model.parent.as_deref())).collect();
    assert_eq!(parents, [("base", None), ("lora-1", Some("base"))]);
}

#[tokio::test]
async fn lists_the_adapters_of_llamacpp() {
    let body = r#"[{"id":0,"path":"/m/lora-1.gguf","scale":1.0,"task_name":"","prompt_prefix":""}]"#;
    let server = server(200, body, 1).await;
    let adapters = llamacpp::LlamaCpp::default().lora_adapters(&client(), &server.address).await;
    assert_eq!(adapters, Ok(vec![LoraAdapter { id: 0, path: "/m/lora-1.gguf".to_owned(), scale: 1.0 }]));
}

#[tokio::test]
async fn busy_slots_stand_for_running_requests_and_kv() {
    let body = r#"[{"id":0,"n_ctx":2048,"is_processing":false},{"id":1,"n_ctx":2048,"is_processing":true}]"#;
    let server = server(200, body, 9).await;
    let out = Engine::new(EngineKind::LlamaCpp).readout(&client(), &server.address).await.unwrap();
    assert_eq!((out.running, out.kv), (Some(1.0), Some(0.5)));
}
