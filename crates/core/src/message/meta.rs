//! The keys of `_meta` that MCP reserves (2026-07-28, "`_meta`"), and edits of a request's `_meta`.

use super::{Envelope, InvalidParams, JsonObjectEditor, Span, member};

pub use super::keys::{
    CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION, REQUEST_KEYS, SERVER_INFO,
    SUBSCRIPTION_ID,
};

/// Returns a request's `_meta` as JSON text.
pub fn raw<'a>(text: &'a str, envelope: &Envelope) -> Result<Option<&'a str>, InvalidParams> {
    if envelope.landmarks.meta_doubled {
        return Err(InvalidParams("\"_meta\" occurs twice"));
    }
    Ok(envelope.landmarks.meta.map(|span| span.get(text)))
}

/// Returns the edit that changes a request's `_meta` or adds one. `None` if there is no `params`,
/// or if `_meta` occurs twice.
pub fn change(
    text: &str,
    envelope: &Envelope,
    change: impl FnOnce(&mut JsonObjectEditor<'_>),
) -> Option<(Span, String)> {
    if envelope.landmarks.meta_doubled {
        return None;
    }
    if let Some(span) = envelope.landmarks.meta {
        let mut meta = JsonObjectEditor::read(span.get(text)).unwrap_or_default();
        change(&mut meta);
        return Some((span, meta.to_string()));
    }
    let params = member(text, "params")?.strip_prefix('{')?;
    let mut meta = JsonObjectEditor::default();
    change(&mut meta);
    let comma = if params.trim_start() == "}" { "" } else { "," };
    let index = Span::from_part(text, params).start();
    let insertion = Span::new(index, index);
    Some((insertion, format!(r#""_meta":{meta}{comma}"#)))
}

/// Returns the edit that reduces `_meta` to this progress token (JSON text). `None` if `_meta` is
/// absent, occurs twice, or has a member besides the token and [`REQUEST_KEYS`].
pub fn reduce(text: &str, envelope: &Envelope, token: Option<&str>) -> Option<(Span, String)> {
    let landmarks = &envelope.landmarks;
    let meta = landmarks
        .meta
        .filter(|_| !landmarks.meta_has_more && !landmarks.meta_doubled)?;
    if let Some(token) = token {
        return Some((meta, format!(r#"{{"progressToken":{token}}}"#)));
    }
    // Remove the key as well, and one adjacent comma.
    let before = text[..meta.start()]
        .trim_end()
        .strip_suffix(':')?
        .trim_end();
    let before = before.strip_suffix(r#""_meta""#)?.trim_end();
    let span = match before.strip_suffix(',') {
        Some(before) => Span::new(before.len(), meta.end()),
        None => {
            let after = text[meta.end()..].trim_start();
            let after = after.strip_prefix(',').unwrap_or(after);
            Span::new(before.len(), text.len() - after.len())
        }
    };
    Some((span, String::new()))
}
