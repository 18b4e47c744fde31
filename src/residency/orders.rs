//! One order to an engine, carried out: what is sent, and what the answer means for the table.

use super::ledger::Ledger;
use super::{Action, Holding, LoadFailure, UnloadFailure};
use crate::engine::client::Client;
use crate::engine::vllm::{Load, Unload, Vllm};
use crate::fleet::Replica;
use crate::fleet::adapter::{Adapter, Files};
use std::borrow::Cow;
use std::sync::Arc;

/// Send an order and hand its result in.
pub(super) async fn carry_out(ledger: Arc<Ledger>, action: Action, engines: Client) {
    let (Action::Load(holding) | Action::Unload(holding)) = action;
    let Some((replica, wire, source)) = parties(&ledger, holding) else { return };
    let address = &replica.name;
    match action {
        Action::Load(_) => {
            let result = load(&engines, address, &wire, &source).await;
            match &result {
                Ok(()) => tracing::info!(adapter = %wire, replica = %address, "adapter loaded"),
                Err((kind, reason)) => {
                    tracing::warn!(adapter = %wire, replica = %address, ?kind, %reason, "adapter not loaded");
                    ledger.complain(holding, address, reason);
                }
            }
            ledger.change(|table, now| table.load_done(holding, result.map_err(|(kind, _)| kind), now));
        }
        Action::Unload(_) => {
            let result = unload(&engines, address, &wire).await;
            ledger.change(|table, now| table.unload_done(holding, result, now));
        }
    }
}

fn parties(ledger: &Ledger, holding: Holding) -> Option<(Arc<Replica>, Arc<str>, Adapter)> {
    let books = ledger.books.lock();
    let known = books.known(holding.adapter)?;
    Some((books.place(holding.replica)?.replica.clone(), known.wire.clone(), known.source.clone()))
}

type LoadResult = Result<(), (LoadFailure, Cow<'static, str>)>;

async fn load(engines: &Client, address: &str, wire: &str, source: &Adapter) -> LoadResult {
    // Files that were here and are gone: the engine would register the adapter from its memory and may die of it later.
    if source.files.is_some() && Files::read(&source.path).is_none() {
        return Err((LoadFailure::NotFound, format!("no adapter in {}", source.path.display()).into()));
    }
    let path = source.path.to_string_lossy();
    match Vllm.load_adapter(engines, address, wire, &path).await {
        Load::AlreadyLoaded => adopt(engines, address, wire, &path).await,
        answer => verdict(answer),
    }
}

/// The name is registered already. If it is for the same path it is what we want, else it has to go first.
async fn adopt(engines: &Client, address: &str, wire: &str, path: &str) -> LoadResult {
    let listed = Vllm.models(engines, address).await;
    let root = listed.ok().and_then(|models| models.into_iter().find(|model| model.id == wire)?.root);
    if root.is_none_or(|root| root == path) {
        return Ok(());
    }
    tracing::info!(adapter = wire, replica = address, "registered from another path: it is loaded anew");
    let _ = Vllm.unload_adapter(engines, address, wire).await;
    verdict(Vllm.load_adapter(engines, address, wire, path).await)
}

fn verdict(answer: Load) -> LoadResult {
    Err(match answer {
        Load::Loaded | Load::AlreadyLoaded => return Ok(()),
        Load::NotFound(reason) => (LoadFailure::NotFound, reason.into()),
        Load::RankTooHigh(reason) => (LoadFailure::Unfit, reason.into()),
        Load::BaseNameConflict => (LoadFailure::Rejected, "the name is that of a base model there".into()),
        Load::RuntimeLoadingDisabled => (
            LoadFailure::Rejected,
            "the engine was started without VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 and --enable-lora".into(),
        ),
        Load::Refused { status, reason } => (LoadFailure::Rejected, format!("{status}: {reason}").into()),
        Load::Unreachable(reason) => (LoadFailure::Unreachable, reason.into()),
        Load::TimedOut => (LoadFailure::TimedOut, "no answer to the load in time".into()),
    })
}

async fn unload(engines: &Client, address: &str, wire: &str) -> Result<(), UnloadFailure> {
    match Vllm.unload_adapter(engines, address, wire).await {
        Unload::Unloaded | Unload::NotLoaded => {
            tracing::info!(adapter = wire, replica = address, "adapter unloaded");
            Ok(())
        }
        Unload::RuntimeLoadingDisabled => {
            tracing::warn!(adapter = wire, replica = address, "the engine cannot unload adapters at run time");
            Err(UnloadFailure)
        }
        Unload::Failed(error) => {
            tracing::warn!(adapter = wire, replica = address, %error, "adapter not unloaded");
            Err(UnloadFailure)
        }
    }
}
