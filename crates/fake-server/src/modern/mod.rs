//! The modern era (2026-07-28). Every request describes its client.

mod base64;
mod headers;
pub(crate) mod http;
pub(crate) mod listen;
mod meta;
pub(crate) mod pending;
pub(crate) mod result;
pub(crate) mod rounds;
mod subscribe;
pub(crate) mod task;
pub(crate) mod tasks;

use std::sync::Arc;

use hyper::HeaderMap;
use serde_json::{Value, json};

use self::task::EXTENSION;
use crate::action::ServiceAction;
use crate::catalog;
use crate::message::{RpcError, error};
use crate::methods;
use crate::request::{ClientDescription, ReceivedRequest};
use crate::revision::{Revision, RevisionEra};
use crate::script::Script;
use crate::service::Service;
use crate::session::FakeSession;

/// Returns true if a request over a pipe belongs to this era.
pub(crate) fn claims(script: &Script, params: &str) -> bool {
    script.is_modern() && (!script.is_legacy() || meta::is_modern(params))
}

/// Returns the actions for one request over a pipe.
pub(crate) fn receive(
    service: &Arc<Service>,
    session: &Arc<FakeSession>,
    id: &str,
    method: &str,
    params: &str,
) -> Vec<ServiceAction> {
    let script = service.script();
    let outcome = admit(&script, method, params, None).and_then(|client| {
        answer(&ReceivedRequest {
            service,
            session,
            script: &script,
            id,
            method,
            params,
            client: &client,
        })
    });
    outcome.unwrap_or_else(|refusal| vec![ServiceAction::Send(error(id, &refusal))])
}

/// Reads the client of a request. Checks in this order: `_meta`, the headers, the version.
fn admit(
    script: &Script,
    method: &str,
    params: &str,
    headers: Option<&HeaderMap>,
) -> Result<ClientDescription, RpcError> {
    if method == "initialize" && !meta::is_modern(params) {
        let body: Value = serde_json::from_str(params).unwrap_or_default();
        return Err(unsupported(script, &body["protocolVersion"]));
    }
    let client = meta::read(params)?;
    if let Some(headers) = headers {
        headers::check(headers, &client.revision, method, params)?;
    }
    let is_supported = script.revisions.iter().any(|revision| {
        revision.era() == RevisionEra::Modern && revision.as_str() == client.revision
    });
    if is_supported {
        Ok(client)
    } else {
        Err(unsupported(script, &json!(client.revision)))
    }
}

fn answer(request: &ReceivedRequest) -> Result<Vec<ServiceAction>, RpcError> {
    let (script, method) = (request.script, request.method);
    let unknown_revision = || RpcError {
        data: Some(json!({"supported": versions(script)})),
        ..RpcError::method_not_found(method)
    };
    if catalog::is_absent(script, method) {
        return Err(unknown_revision());
    }
    match method {
        "server/discover" => methods::greet(request, || Ok(discover(script))),
        "subscriptions/listen" => subscribe::open(request),
        "tasks/get" | "tasks/update" | "tasks/cancel" if script.tasks => tasks::answer(request),
        _ => methods::answer(request)?.ok_or_else(unknown_revision),
    }
}

fn discover(script: &Script) -> Value {
    let mut capabilities = catalog::capabilities(script, Revision::V2026_07_28.as_str());
    if script.tasks {
        capabilities["extensions"] = json!({EXTENSION: {}});
    }
    let mut result = json!({
        "supportedVersions": versions(script),
        "capabilities": capabilities,
    });
    if let Some(instructions) = &script.instructions {
        result["instructions"] = json!(instructions);
    }
    result
}

/// Returns the pinned revisions, newest first.
fn versions(script: &Script) -> Vec<&'static str> {
    script
        .pinned()
        .into_iter()
        .rev()
        .map(Revision::as_str)
        .collect()
}

fn unsupported(script: &Script, requested_revision: &Value) -> RpcError {
    let supported_versions = versions(script);
    let message = format!(
        "unsupported protocol version; supported: {}",
        supported_versions.join(", ")
    );
    RpcError {
        data: Some(json!({"supported": supported_versions, "requested": requested_revision})),
        ..RpcError::new(-32022, message)
    }
}
