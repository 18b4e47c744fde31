//! `GET /v1/models` and `GET /v1/models/{name}`: what can be asked for, in OpenAI's shape; an adapter names its `parent`
//! as vLLM does.

use crate::fleet::{Fleet, Model};
use serde_json::{Value, json};

/// Who owns them; OpenAI's clients only show it.
const OWNER: &str = "pointsman";

/// The whole list.
pub(super) fn list(fleet: &Fleet) -> Value {
    json!({ "object": "list", "data": fleet.models().iter().flat_map(|model| cards(model)).collect::<Vec<_>>() })
}

/// One card by name; `None` for a name that is not on the list.
pub(super) fn card(fleet: &Fleet, name: &str) -> Option<Value> {
    fleet.models().iter().flat_map(|model| cards(model)).find(|card| card.get("id").is_some_and(|id| id == name))
}

fn cards(model: &Model) -> impl Iterator<Item = Value> + '_ {
    let bases = std::iter::once(&model.name).chain(&model.aliases).map(|name| base_card(name, &model.name));
    let adapters = model.adapters.iter().map(|adapter| {
        json!({
            "id": adapter.name, "object": "model", "created": 0, "owned_by": OWNER,
            "root": adapter.path, "parent": model.name,
        })
    });
    bases.chain(adapters)
}

fn base_card(name: &str, root: &str) -> Value {
    json!({ "id": name, "object": "model", "created": 0, "owned_by": OWNER, "root": root, "parent": null })
}
