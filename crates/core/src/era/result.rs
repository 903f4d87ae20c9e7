//! Translates a server's result or error for a client of the other era, or of an older revision.

mod content;
mod head;

use std::borrow::Cow;

use serde_json::json;

pub use self::head::{Whole, head};
use super::{Revision, code};
use crate::message::{self, JsonObjectEditor, Method, array, items, quote};

/// The member with the type of a result.
pub const RESULT_TYPE: &str = "resultType";
pub const COMPLETE: &str = "complete";
const CACHE_HINTS: [(&str, &str); 2] = [("ttlMs", "0"), ("cacheScope", r#""private""#)];

/// True if results of this method have cache hints (SEP-2549).
pub fn is_cacheable(method: Method) -> bool {
    matches!(
        method,
        Method::Discover
            | Method::ToolsList
            | Method::PromptsList
            | Method::ResourcesList
            | Method::ResourceTemplatesList
            | Method::ResourcesRead
    )
}

/// Translates a modern result (JSON text) for a client of this legacy revision. Removes the result
/// type and the cache hints, and replaces content blocks that the revision does not define.
pub fn to_legacy(method: Method, result: &str, revision: Revision) -> Cow<'_, str> {
    let Some(mut editor) = JsonObjectEditor::read(result) else {
        return Cow::Borrowed(result);
    };
    let mut has_changed = editor.remove(RESULT_TYPE);
    if is_cacheable(method) {
        for (name, _) in CACHE_HINTS {
            has_changed |= editor.remove(name);
        }
    }
    has_changed |= match method {
        Method::ToolsCall => {
            let has_new_structure = plain_structure(&mut editor);
            content::downgrade(&mut editor, "content", revision) || has_new_structure
        }
        Method::PromptsGet => messages(&mut editor, revision),
        Method::ToolsList => tools(&mut editor),
        _ => false,
    };
    if has_changed {
        Cow::Owned(editor.to_string())
    } else {
        Cow::Borrowed(result)
    }
}

/// Removes a `structuredContent` that is not an object, because revisions before 2026-07-28 do not
/// allow it. If there is no `content`, the value becomes a text block.
fn plain_structure(result: &mut JsonObjectEditor<'_>) -> bool {
    let Some(structure) = result.get("structuredContent") else {
        return false;
    };
    if structure.starts_with('{') {
        return false;
    }
    let text = format!(r#"[{{"type":"text","text":{}}}]"#, quote(structure));
    result.remove("structuredContent");
    let has_no_content = result
        .get("content")
        .and_then(items)
        .is_none_or(|items| items.is_empty());
    if has_no_content {
        result.set("content", &text);
    }
    true
}

/// Removes each `outputSchema` that is not for an object. Clients before 2026-07-28 would refuse
/// the whole list.
fn tools(result: &mut JsonObjectEditor<'_>) -> bool {
    let Some(tools) = result.get("tools").and_then(items) else {
        return false;
    };
    let mut has_changed = false;
    let tools: Vec<Cow<'_, str>> = tools
        .into_iter()
        .map(|tool| {
            let foreign = message::member(tool, "outputSchema").is_some_and(|schema| {
                message::text_member(schema, "type").as_deref() != Some("object")
            });
            let Some(mut editor) = JsonObjectEditor::read(tool).filter(|_| foreign) else {
                return Cow::Borrowed(tool);
            };
            has_changed = true;
            editor.remove("outputSchema");
            Cow::Owned(editor.to_string())
        })
        .collect();
    let tools = has_changed.then(|| array(&tools));
    if let Some(tools) = &tools {
        result.set("tools", tools);
    }
    has_changed
}

/// Replaces content blocks in the messages of a prompt that the revision does not define.
fn messages(result: &mut JsonObjectEditor<'_>, revision: Revision) -> bool {
    let Some(messages) = result.get("messages").and_then(items) else {
        return false;
    };
    let mut has_changed = false;
    let messages: Vec<Cow<'_, str>> = messages
        .into_iter()
        .map(|text| {
            let Some(mut message) = JsonObjectEditor::read(text) else {
                return Cow::Borrowed(text);
            };
            let block = message
                .get("content")
                .and_then(|block| content::older_block(block, revision));
            let Some(block) = block else {
                return Cow::Borrowed(text);
            };
            has_changed = true;
            message.set("content", &block);
            Cow::Owned(message.to_string())
        })
        .collect();
    let messages = has_changed.then(|| array(&messages));
    if let Some(messages) = &messages {
        result.set("messages", messages);
    }
    has_changed
}

/// Translates a legacy result (JSON text) for a modern client. Adds the result type `complete`. For
/// methods with cache hints, adds hints that forbid caching.
pub fn to_modern(method: Method, result: &str) -> Cow<'_, str> {
    let [(ttl, _), (scope, _)] = CACHE_HINTS;
    let Some([has_kind, has_ttl, has_scope]) =
        message::has_members(result, [RESULT_TYPE, ttl, scope])
    else {
        return Cow::Borrowed(result);
    };
    let mut added = String::new();
    if !has_kind {
        added.push_str(r#","resultType":"complete""#);
    }
    let is_complete =
        || !has_kind || message::text_member(result, RESULT_TYPE).as_deref() == Some(COMPLETE);
    if is_cacheable(method) && is_complete() {
        for ((name, value), is_present) in CACHE_HINTS.iter().zip([has_ttl, has_scope]) {
            if !is_present {
                added.extend([",", &quote(name), ":", value]);
            }
        }
    }
    let Some(unclosed_text) = result.strip_suffix('}').filter(|_| !added.is_empty()) else {
        return Cow::Borrowed(result);
    };
    let unclosed_text = message::one_line(unclosed_text.trim_end());
    let added = if unclosed_text.ends_with('{') {
        &added[1..]
    } else {
        &added
    };
    Cow::Owned(format!("{unclosed_text}{added}}}"))
}

/// Translates a modern `error` (JSON text) for a legacy client. If `data` names the requested
/// `uri`, the error becomes "resource not found", which has its own code in legacy revisions. Codes
/// that legacy revisions do not define become an internal error.
pub fn error_to_legacy<'a>(method: Method, uri: Option<&str>, error: &'a str) -> Cow<'a, str> {
    match error_code(error) {
        Some(code::INVALID_PARAMS) if method == Method::ResourcesRead => {
            let data = message::member(error, "data");
            let missing_uri = data.and_then(|data| message::text_member(data, "uri"));
            if missing_uri.is_some() && missing_uri.as_deref() == uri {
                with_code(error, code::RESOURCE_NOT_FOUND)
            } else {
                Cow::Borrowed(error)
            }
        }
        Some(code::HEADER_MISMATCH | code::MISSING_CAPABILITY | code::UNSUPPORTED_VERSION) => {
            with_code(error, code::INTERNAL_ERROR)
        }
        _ => Cow::Borrowed(error),
    }
}

/// Translates a legacy `error` (JSON text) for a modern client. Replaces codes that modern
/// revisions forbid or use differently. The caller handles −32042 before, with
/// [`InputRequired::from_error`](super::questions::InputRequired::from_error).
pub fn error_to_modern<'a>(method: Method, uri: Option<&str>, error: &'a str) -> Cow<'a, str> {
    match error_code(error) {
        Some(code::RESOURCE_NOT_FOUND) => {
            let Some(mut editor) = JsonObjectEditor::read(error) else {
                return Cow::Borrowed(error);
            };
            editor.set("code", &code::INVALID_PARAMS.to_string());
            if let Some(uri) =
                uri.filter(|_| method == Method::ResourcesRead && !editor.has("data"))
            {
                editor.set("data", &json!({ "uri": uri }).to_string());
            }
            Cow::Owned(editor.to_string())
        }
        Some(code::URL_ELICITATION_REQUIRED) => {
            let Some(mut editor) = JsonObjectEditor::read(error) else {
                return Cow::Borrowed(error);
            };
            let required = json!({ "requiredCapabilities": { "elicitation": { "url": {} } } });
            editor.set("code", &code::MISSING_CAPABILITY.to_string());
            editor.set("data", &required.to_string());
            Cow::Owned(editor.to_string())
        }
        // Modern revisions reserve these codes. Legacy servers may use them freely.
        Some(-32099..=code::HEADER_MISMATCH) => with_code(error, code::INTERNAL_ERROR),
        _ => Cow::Borrowed(error),
    }
}

/// The code of an `error` (JSON text).
pub fn error_code(error: &str) -> Option<i64> {
    message::member(error, "code")?.parse().ok()
}

fn with_code(error: &str, code: i64) -> Cow<'_, str> {
    let Some(mut editor) = JsonObjectEditor::read(error) else {
        return Cow::Borrowed(error);
    };
    editor.set("code", &code.to_string());
    Cow::Owned(editor.to_string())
}
