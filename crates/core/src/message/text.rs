//! Finds members and replaces spans of JSON text, and builds Mainstay's own messages.

use std::borrow::Cow;

use serde::Deserialize;

use super::{
    Span,
    scan::{Invalid, Scanner, end_of_plain},
    surrogates,
};

/// Borrows where possible. serde always reads a plain `Cow` as owned.
#[derive(Deserialize)]
#[serde(transparent)]
struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);

/// Returns a member of an object as JSON text. If the member occurs twice, the last one counts.
/// `None` if the member is absent or the text is not an object.
pub fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let mut last_value = None;
    let result = Scanner::new(object).members(|scanner, key| {
        let value = scanner.value()?;
        if key == name {
            last_value = Some(value);
        }
        Ok::<(), Invalid>(())
    });
    result.ok()?;
    Some(last_value?.get(object))
}

/// Returns true for each name that is a member of the object. `None` if the text is not an object.
pub fn has_members<const N: usize>(object: &str, names: [&str; N]) -> Option<[bool; N]> {
    let mut is_present = [false; N];
    let result = Scanner::new(object).members(|scanner, key| {
        if let Some(index) = names.iter().position(|name| key == *name) {
            is_present[index] = true;
        }
        scanner.value()?;
        Ok::<(), Invalid>(())
    });
    result.ok()?;
    Some(is_present)
}

/// Like [`member`], for a string member.
pub fn text_member<'a>(object: &'a str, name: &str) -> Option<Cow<'a, str>> {
    text(member(object, name)?)
}

/// Decodes a JSON string. `None` if `raw` is not a string.
pub fn text(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"'));
    if let Some(inner) = inner
        && end_of_plain(inner.as_bytes(), 0) == inner.len()
    {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str::<Borrowed<'_>>(raw)
        .ok()
        .map(|text| text.0)
}

/// Decodes a JSON string for display, with U+FFFD for half a surrogate pair. `None` if `raw` is not
/// a string.
pub fn shown_text(raw: &str) -> Option<Cow<'_, str>> {
    text(raw).or_else(|| surrogates::lossy(raw).map(Cow::Owned))
}

/// Like [`shown_text`], for a member of an object.
pub fn shown_member<'a>(object: &'a str, name: &str) -> Option<Cow<'a, str>> {
    shown_text(member(object, name)?)
}

/// The span of the member at `path`, such as `["_meta", "progressToken"]`, inside `object`.
pub fn locate(text: &str, object: Span, path: &[&str]) -> Option<Span> {
    path.iter().try_fold(object, |span, name| {
        member(span.get(text), name).map(|value| Span::from_part(text, value))
    })
}

/// Replaces the spans of `edits`. Also removes line breaks between tokens, because stdio and SSE
/// frame messages by line. (A JSON string cannot contain a raw line break.)
pub fn splice(text: &str, edits: &mut [(Span, &str)]) -> String {
    edits.sort_unstable_by_key(|(span, _)| span.start());
    let added_bytes: usize = edits.iter().map(|(_, replacement)| replacement.len()).sum();
    let mut out = String::with_capacity(text.len() + added_bytes);
    let mut position = 0;
    for (span, replacement) in edits.iter() {
        push_one_line(&mut out, &text[position..span.start()]);
        out.push_str(replacement);
        position = span.end();
    }
    push_one_line(&mut out, &text[position..]);
    out
}

/// Removes line breaks between the tokens of a JSON text.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if memchr::memchr2(b'\n', b'\r', text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    push_one_line(&mut out, text);
    Cow::Owned(out)
}

fn push_one_line(out: &mut String, text: &str) {
    let mut position = 0;
    for line_break in memchr::memchr2_iter(b'\n', b'\r', text.as_bytes()) {
        out.push_str(&text[position..line_break]);
        position = line_break + 1;
    }
    out.push_str(&text[position..]);
}

/// Cuts a text after at most `bytes` bytes and adds `…`. Returns a shorter text unchanged.
pub fn shortened(mut text: String, bytes: usize) -> String {
    if text.len() > bytes {
        text.truncate(text.floor_char_boundary(bytes));
        // The cut may remove most of the text.
        text.shrink_to_fit();
        text.push('…');
    }
    text
}

/// Writes `text` as a JSON string with quotes.
pub fn quote(text: &str) -> String {
    // Fast path: names and most URIs need no escapes.
    if text
        .bytes()
        .all(|byte| byte >= b' ' && !matches!(byte, b'"' | b'\\'))
    {
        let mut literal = String::with_capacity(text.len() + 2);
        literal.push('"');
        literal.push_str(text);
        literal.push('"');
        return literal;
    }
    serde_json::Value::from(text).to_string()
}

/// Writes a response. `id` and `result` are JSON text.
pub fn response(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// Writes an error response. `id` is JSON text. `None` becomes `null`, for an unreadable id.
pub fn error_response(
    id: Option<&str>,
    code: i64,
    message: &str,
    data: Option<&serde_json::Value>,
) -> String {
    let id = id.unwrap_or("null");
    let message = quote(message);
    match data {
        Some(data) => {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message},"data":{data}}}}}"#
            )
        }
        None => format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}}}}}"#
        ),
    }
}

/// Writes a request or, without an id, a notification. `params` is JSON text.
pub fn request(id: Option<u64>, method: &str, params: Option<&str>) -> String {
    let method = quote(method);
    let id = id.map(|id| format!(r#""id":{id},"#)).unwrap_or_default();
    match params {
        Some(params) => format!(r#"{{"jsonrpc":"2.0",{id}"method":{method},"params":{params}}}"#),
        None => format!(r#"{{"jsonrpc":"2.0",{id}"method":{method}}}"#),
    }
}
