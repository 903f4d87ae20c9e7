//! Finds members and replaces spans of JSON text, and builds Mainstay's own messages.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize,
    de::{Deserializer, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{Envelope, Span};

/// A plain `Cow` would always be read as owned.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Borrowed<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// One member of an object, as it stands; `None` where it is absent or the text is no object.
pub fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    struct Find<'n>(&'n str);
    impl<'de> Visitor<'de> for Find<'_> {
        type Value = Option<&'de RawValue>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = None;
            while let Some(Borrowed(key)) = map.next_key::<Borrowed<'de>>()? {
                if key == self.0 {
                    found = Some(map.next_value::<&'de RawValue>()?);
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(found)
        }
    }
    let mut deserializer = serde_json::Deserializer::from_str(object);
    deserializer
        .deserialize_map(Find(name))
        .ok()
        .flatten()
        .map(RawValue::get)
}

/// Which of these members an object has; `None` where the text is no object.
pub fn has_members<const N: usize>(object: &str, names: [&str; N]) -> Option<[bool; N]> {
    struct Look<'n, const N: usize>([&'n str; N]);
    impl<'de, const N: usize> Visitor<'de> for Look<'_, N> {
        type Value = [bool; N];
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut has = [false; N];
            while let Some(Borrowed(key)) = map.next_key::<Borrowed<'de>>()? {
                if let Some(known) = self.0.iter().position(|name| key == *name) {
                    has[known] = true;
                }
                map.next_value::<IgnoredAny>()?;
            }
            Ok(has)
        }
    }
    let mut deserializer = serde_json::Deserializer::from_str(object);
    deserializer.deserialize_map(Look(names)).ok()
}

/// Like [`member`], for a member that holds a string.
pub fn text_member<'a>(object: &'a str, name: &str) -> Option<Cow<'a, str>> {
    text(member(object, name)?)
}

/// What a string (JSON text) says; `None` where it is none.
pub fn text(raw: &str) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Borrowed<'_>>(raw)
        .ok()
        .map(|text| text.0)
}

/// Where the member at `path` (`["_meta", "progressToken"]`) stands in the object at `within`.
pub fn locate(text: &str, within: Span, path: &[&str]) -> Option<Span> {
    path.iter().try_fold(within, |span, name| {
        member(span.get(text), name).map(|found| Span::of(text, found))
    })
}

/// A response with another body (JSON text in one line), in one line, and its envelope; `None` where it
/// has to be read anew.
pub fn with_body(text: &str, envelope: &Envelope, body: &str) -> Option<(String, Envelope)> {
    let super::Kind::Response { body: span, .. } = envelope.kind else {
        return None;
    };
    if memchr::memchr2(b'\n', b'\r', text.as_bytes()).is_some() {
        return None;
    }
    let resized = envelope.resized(body.len())?;
    Some((splice(text, &mut [(span, body)]), resized))
}

/// The text with each span replaced, and the line breaks between tokens removed: stdio and SSE frame
/// by line. (Inside a JSON string a raw line break cannot stand, so every one is between tokens.)
pub fn splice(text: &str, edits: &mut [(Span, &str)]) -> String {
    edits.sort_unstable_by_key(|(span, _)| span.start());
    let grown: usize = edits.iter().map(|(_, new)| new.len()).sum();
    let mut out = String::with_capacity(text.len() + grown);
    let mut at = 0;
    for (span, new) in edits.iter() {
        push_one_line(&mut out, &text[at..span.start()]);
        out.push_str(new);
        at = span.end();
    }
    push_one_line(&mut out, &text[at..]);
    out
}

/// The text without the line breaks between its tokens.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if memchr::memchr2(b'\n', b'\r', text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    push_one_line(&mut out, text);
    Cow::Owned(out)
}

fn push_one_line(out: &mut String, text: &str) {
    let mut at = 0;
    for line_break in memchr::memchr2_iter(b'\n', b'\r', text.as_bytes()) {
        out.push_str(&text[at..line_break]);
        at = line_break + 1;
    }
    out.push_str(&text[at..]);
}

/// At most so many bytes of a text, and `…` where it was longer.
pub fn shortened(mut text: String, bytes: usize) -> String {
    if text.len() > bytes {
        text.truncate(text.floor_char_boundary(bytes));
        // What was cut off may be most of it.
        text.shrink_to_fit();
        text.push('…');
    }
    text
}

/// `text` as a JSON string, quotes included.
pub fn quote(text: &str) -> String {
    // Names and most URIs need no escape.
    if text
        .bytes()
        .all(|byte| byte >= b' ' && !matches!(byte, b'"' | b'\\'))
    {
        let mut quoted = String::with_capacity(text.len() + 2);
        quoted.push('"');
        quoted.push_str(text);
        quoted.push('"');
        return quoted;
    }
    serde_json::Value::from(text).to_string()
}

/// A response with this id (JSON text) and result (JSON text).
pub fn response(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// An error response; `id` is JSON text, `null` where the request's could not be read.
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

/// A request or, without an id, a notification; `params` is JSON text.
pub fn request(id: Option<u64>, method: &str, params: Option<&str>) -> String {
    let method = quote(method);
    let id = id.map(|id| format!(r#""id":{id},"#)).unwrap_or_default();
    match params {
        Some(params) => format!(r#"{{"jsonrpc":"2.0",{id}"method":{method},"params":{params}}}"#),
        None => format!(r#"{{"jsonrpc":"2.0",{id}"method":{method}}}"#),
    }
}
