//! llama.cpp's control plane: metrics, slots, and the adapters given at start.
//!
//! `/metrics` answers 501 without `--metrics`, and `/slots` may be switched off; what is missing is remembered and not
//! asked for again. It never changes the scale of an adapter.

use super::{
    Readout,
    client::{CallError, Client},
    metrics_text,
};
use bytes::Bytes;
use serde::Deserialize;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A `llama-server` and what it turned out not to offer.
#[derive(Debug, Default)]
pub struct LlamaCpp {
    no_metrics: AtomicBool,
    no_slots: AtomicBool,
}

/// An adapter given to the server at start.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct LoraAdapter {
    /// What a request's `lora` list names it by.
    pub id: u32,
    /// The file it came from, as the server was told.
    pub path: String,
    /// Its scale for requests that name none.
    pub scale: f64,
}

#[derive(Deserialize)]
struct Slot {
    is_processing: bool,
}

impl LlamaCpp {
    /// Reads the load figures once. Without `/metrics` the busy slots count as running; without `/slots` KV is unknown.
    pub async fn readout(&self, client: &Client, address: &str) -> Result<Readout, CallError> {
        let metrics = offered(&self.no_metrics, client, address, "/metrics").await?;
        let mut out = metrics.map(|text| metrics_text::parse(&text)).unwrap_or_default();
        let Some(body) = offered(&self.no_slots, client, address, "/slots").await? else { return Ok(out) };
        let slots: Vec<Slot> = serde_json::from_slice(&body).map_err(|e| CallError::BadBody(e.to_string()))?;
        let busy = slots.iter().filter(|slot| slot.is_processing).count() as f64;
        out.running = out.running.or(Some(busy));
        // Each slot owns an equal share of the KV cache, and its fill is not told.
        out.kv = (!slots.is_empty()).then(|| busy / slots.len() as f64);
        Ok(out)
    }

    /// The adapters, in the server's order.
    pub async fn lora_adapters(&self, client: &Client, address: &str) -> Result<Vec<LoraAdapter>, CallError> {
        let body = client.get(address, "/lora-adapters").await?;
        serde_json::from_slice(&body).map_err(|e| CallError::BadBody(e.to_string()))
    }

    /// Forgets what was missing: call it when the server may have restarted with other flags.
    pub fn forget(&self) {
        self.no_metrics.store(false, Relaxed);
        self.no_slots.store(false, Relaxed);
    }
}

async fn offered(missing: &AtomicBool, client: &Client, address: &str, path: &str) -> Result<Option<Bytes>, CallError> {
    if missing.load(Relaxed) {
        return Ok(None);
    }
    match client.get(address, path).await {
        Ok(body) => Ok(Some(body)),
        Err(CallError::Status { status: 404 | 501, .. }) => {
            missing.store(true, Relaxed);
            Ok(None)
        }
        Err(other) => Err(other),
    }
}

/// The id of the adapter with this path: the exact path, else the same file, else the same file name if only one has it.
pub fn adapter_id(adapters: &[LoraAdapter], path: &str) -> Option<u32> {
    let exact = adapters.iter().find(|adapter| adapter.path == path);
    exact.or_else(|| same_file(adapters, path)).or_else(|| same_name(adapters, path)).map(|adapter| adapter.id)
}

fn same_file<'a>(adapters: &'a [LoraAdapter], path: &str) -> Option<&'a LoraAdapter> {
    let wanted = Path::new(path).canonicalize().ok()?;
    adapters.iter().find(|adapter| Path::new(&adapter.path).canonicalize().is_ok_and(|found| found == wanted))
}

fn same_name<'a>(adapters: &'a [LoraAdapter], path: &str) -> Option<&'a LoraAdapter> {
    let wanted = Path::new(path).file_name()?;
    let mut named = adapters.iter().filter(|adapter| Path::new(&adapter.path).file_name() == Some(wanted));
    named.next().filter(|_| named.next().is_none())
}
