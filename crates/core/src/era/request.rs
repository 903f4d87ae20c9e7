//! Translates a request for a server of the other era. The caller replaces the id.

use super::{Caller, Era, Revision, questions};
use crate::message::{Envelope, JsonObjectEditor, Method, Span, meta};

/// Translates a legacy client's request for a modern server. Adds the client's description to
/// `_meta` and keeps the other members (progress token, trace context). Removes a `requestState`: a
/// legacy client gets none, so it would belong to another client.
pub fn to_modern(request: &str, caller: &Caller) -> String {
    change(request, |method, params, request_meta| {
        if questions::may_ask(method) {
            questions::strip(params);
        }
        introduce(request_meta, caller);
    })
}

/// Like [`to_modern`], as one edit that also sets the progress token. `None` if the request has no
/// `params`, or needs several edits.
pub fn edit_to_modern(
    request: &str,
    envelope: &Envelope,
    caller: &Caller,
    token: Option<&str>,
) -> Option<(Span, String)> {
    if envelope.brings_answers() {
        return None;
    }
    meta::change(request, envelope, |request_meta| {
        if let Some(token) = token {
            request_meta.set("progressToken", token);
        }
        introduce(request_meta, caller);
    })
}

fn introduce(request_meta: &mut JsonObjectEditor<'_>, caller: &Caller) {
    request_meta.set_text(meta::PROTOCOL_VERSION, Revision::LATEST.as_str());
    if let Some(info) = &caller.client_info {
        request_meta.set(meta::CLIENT_INFO, info);
    }
    let capabilities = caller.capabilities.for_era(Era::Modern);
    request_meta.set(meta::CLIENT_CAPABILITIES, &capabilities);
    match caller.log_level {
        Some(level) => request_meta.set_text(meta::LOG_LEVEL, level.as_str()),
        None => drop(request_meta.remove(meta::LOG_LEVEL)),
    }
}

/// Translates a modern client's request for a legacy server. Removes the client's description,
/// which the session already has. Removes answers to questions, which are sent as responses to the
/// server's own requests.
pub fn to_legacy(request: &str) -> String {
    change(request, |method, params, request_meta| {
        if questions::may_ask(method) {
            questions::strip(params);
        }
        for key in meta::REQUEST_KEYS {
            request_meta.remove(key);
        }
    })
}

/// Like [`to_legacy`], as one edit that also sets the progress token. `None` if `_meta` has members
/// besides the progress token and the client's description, or the request needs several edits.
pub fn edit_to_legacy(
    request: &str,
    envelope: &Envelope,
    token: Option<&str>,
) -> Option<(Span, String)> {
    if envelope.brings_answers() {
        return None;
    }
    meta::reduce(request, envelope, token)
}

/// Edits the `params` and `params._meta` of a request.
fn change(
    request: &str,
    edit: impl FnOnce(Method, &mut JsonObjectEditor<'_>, &mut JsonObjectEditor<'_>),
) -> String {
    let Some(mut message) = JsonObjectEditor::read(request) else {
        return request.to_owned();
    };
    let method = message
        .get("method")
        .and_then(|name| serde_json::from_str(name).ok());
    let method = method.map_or(Method::Other, |name: String| Method::from_name(&name));
    let mut params = object(message.get("params"));
    let request_meta = params.get("_meta").map(str::to_owned);
    let mut request_meta = object(request_meta.as_deref());
    edit(method, &mut params, &mut request_meta);
    if request_meta.is_empty() {
        params.remove("_meta");
    } else {
        let request_meta = request_meta.to_string();
        params.set("_meta", &request_meta);
    }
    let params = params.to_string();
    message.set("params", &params);
    message.to_string()
}

/// Reads an object. `None` and other text become an empty object.
fn object(text: Option<&str>) -> JsonObjectEditor<'_> {
    text.and_then(JsonObjectEditor::read).unwrap_or_default()
}
