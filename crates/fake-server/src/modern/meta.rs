//! The client in the `_meta` of a request.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::catalog;
use crate::message::RpcError;
use crate::request::ClientDescription;
use crate::revision::RevisionEra;

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
const LEVEL: &str = "io.modelcontextprotocol/logLevel";

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

/// Returns the raw `_meta` and its value.
fn parse(params: &str) -> Option<(&str, Value)> {
    let raw_meta = serde_json::from_str(params)
        .ok()
        .and_then(|Params { meta }| meta)?
        .get();
    Some((raw_meta, serde_json::from_str(raw_meta).ok()?))
}

/// Returns true if `_meta` has a key of this era.
pub(super) fn is_modern(params: &str) -> bool {
    parse(params).is_some_and(|(_, meta)| {
        [VERSION, CAPABILITIES, CLIENT]
            .iter()
            .any(|key| meta.get(key).is_some())
    })
}

pub(super) fn read(params: &str) -> Result<ClientDescription, RpcError> {
    let (client_meta, meta) = parse(params).ok_or_else(|| missing("_meta"))?;
    let revision = meta[VERSION].as_str().ok_or_else(|| missing(VERSION))?;
    let capabilities = &meta[CAPABILITIES];
    if !capabilities.is_object() {
        return Err(missing(CAPABILITIES));
    }
    if meta
        .get(CLIENT)
        .is_some_and(|client| !client["name"].is_string())
    {
        return Err(RpcError::invalid_params(format!("malformed: {CLIENT}")));
    }
    let level = match &meta[LEVEL] {
        Value::Null => None,
        level => Some(catalog::level_index(level.as_str().unwrap_or_default())?),
    };
    Ok(ClientDescription {
        era: RevisionEra::Modern,
        revision: revision.to_owned(),
        capabilities: capabilities.clone(),
        level,
        words: client_meta.to_owned(),
    })
}

fn missing(key: &str) -> RpcError {
    RpcError::invalid_params(format!("missing or malformed: {key}"))
}
