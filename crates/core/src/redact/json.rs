//! Redaction of JSON, in one pass and without recursion: values under secret names go, strings are
//! redacted, and everything else keeps its bytes.

use std::borrow::Cow;

use super::{HIDDEN, Rules};
use crate::message;

/// JSON inside strings inside strings, as results of tools have it. Each such level doubles the escapes of
/// its members, so that no message has room for more of them.
const MAX_NESTED: usize = 32;

/// What comes next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// A value; its bytes go if it is hidden.
    Value {
        hidden: bool,
    },
    /// A member's name, or the end of its object.
    Key,
    Colon {
        hidden: bool,
    },
    /// A comma, or the end of what is open.
    Comma,
}

impl Rules<'_> {
    /// JSON or anything else; `nested` counts the strings around it. `None` if nothing changes.
    pub(super) fn text(&self, text: &str, nested: usize) -> Option<String> {
        // Below the first level it is only worth a try where there are members.
        let is_json = match text.trim_start().as_bytes().first() {
            Some(b'{' | b'[') => nested <= MAX_NESTED,
            Some(b'"') => nested == 0,
            _ => false,
        };
        match is_json.then(|| self.json(text, nested)) {
            Some(Ok(changed)) => changed,
            Some(Err(NotJson)) | None => self.plain(text),
        }
    }

    fn json(&self, text: &str, nested: usize) -> Result<Option<String>, NotJson> {
        let bytes = text.as_bytes();
        let mut edits = Edits::of(text);
        // Whether each of what is open is an object.
        let mut open = Vec::new();
        let (mut at, mut next) = (0, Next::Value { hidden: false });
        while let Some(&byte) = bytes.get(at) {
            if byte.is_ascii_whitespace() {
                at += 1;
                continue;
            }
            let end = match (next, byte) {
                (Next::Value { hidden: true }, _) => {
                    let end = value_end(bytes, at)?;
                    edits.replace(at, end, &message::quote(HIDDEN));
                    next = Next::Comma;
                    end
                }
                (Next::Value { .. }, b'{' | b'[') => {
                    let is_object = byte == b'{';
                    open.push(is_object);
                    next = if is_object {
                        Next::Key
                    } else {
                        Next::Value { hidden: false }
                    };
                    at + 1
                }
                (Next::Value { .. } | Next::Comma, b']') if open.last() == Some(&false) => {
                    open.pop();
                    next = Next::Comma;
                    at + 1
                }
                (Next::Key | Next::Comma, b'}') if open.last() == Some(&true) => {
                    open.pop();
                    next = Next::Comma;
                    at + 1
                }
                (Next::Value { .. }, _) => {
                    let end = value_end(bytes, at)?;
                    let changed = if byte == b'"' {
                        let string = decoded(&text[at..end]);
                        self.text(&string, nested + 1)
                    } else {
                        let hidden = self.secrets.map(|secrets| secrets.hide(&text[at..end]));
                        hidden.and_then(|hidden| match hidden {
                            Cow::Borrowed(_) => None,
                            Cow::Owned(changed) => Some(changed),
                        })
                    };
                    if let Some(changed) = changed {
                        edits.replace(at, end, &message::quote(&changed));
                    }
                    next = Next::Comma;
                    end
                }
                (Next::Key, b'"') => {
                    let end = value_end(bytes, at)?;
                    let key = decoded(&text[at..end]);
                    let hidden = self.hides(&key);
                    if let Some(secrets) = self.secrets
                        && let Cow::Owned(changed) = secrets.hide(&key)
                    {
                        edits.replace(at, end, &message::quote(&changed));
                    }
                    next = Next::Colon { hidden };
                    end
                }
                (Next::Colon { hidden }, b':') => {
                    next = Next::Value { hidden };
                    at + 1
                }
                (Next::Comma, b',') => {
                    next = match open.last() {
                        Some(true) => Next::Key,
                        Some(false) => Next::Value { hidden: false },
                        None => return Err(NotJson),
                    };
                    at + 1
                }
                _ => return Err(NotJson),
            };
            at = end;
        }
        if !open.is_empty() || next != Next::Comma {
            return Err(NotJson);
        }
        Ok(edits.finish())
    }
}

#[derive(Debug)]
struct NotJson;

/// A text with parts of it replaced, in order.
struct Edits<'t> {
    text: &'t str,
    changed: String,
    copied: usize,
}

impl<'t> Edits<'t> {
    fn of(text: &'t str) -> Self {
        Self {
            text,
            changed: String::new(),
            copied: 0,
        }
    }

    fn replace(&mut self, from: usize, until: usize, with: &str) {
        self.changed.push_str(&self.text[self.copied..from]);
        self.changed.push_str(with);
        self.copied = until;
    }

    /// `None` if nothing was replaced.
    fn finish(mut self) -> Option<String> {
        if self.copied == 0 {
            return None;
        }
        self.changed.push_str(&self.text[self.copied..]);
        Some(self.changed)
    }
}

/// What a string literal says.
fn decoded(literal: &str) -> Cow<'_, str> {
    let inner = &literal[1..literal.len() - 1];
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return inner.into();
    }
    // One with half a character in it is no text. It is looked at as it is written.
    let said = serde_json::from_str::<String>(literal);
    said.map_or(inner.into(), Cow::Owned)
}

/// Where the value that begins here ends.
fn value_end(bytes: &[u8], from: usize) -> Result<usize, NotJson> {
    match bytes[from] {
        b'"' => string_end(bytes, from),
        b'{' | b'[' => {
            let (mut depth, mut at) = (0_usize, from);
            loop {
                match bytes.get(at).ok_or(NotJson)? {
                    b'"' => {
                        at = string_end(bytes, at)?;
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => {
                        depth -= 1;
                        if depth == 0 {
                            return Ok(at + 1);
                        }
                    }
                    _ => {}
                }
                at += 1;
            }
        }
        _ => {
            let is_of_it = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
            let length = bytes[from..]
                .iter()
                .take_while(|byte| is_of_it(byte))
                .count();
            if length == 0 {
                Err(NotJson)
            } else {
                Ok(from + length)
            }
        }
    }
}

fn string_end(bytes: &[u8], from: usize) -> Result<usize, NotJson> {
    let mut at = from + 1;
    loop {
        let rest = bytes.get(at..).ok_or(NotJson)?;
        at += memchr::memchr2(b'"', b'\\', rest).ok_or(NotJson)?;
        if bytes[at] == b'"' {
            return Ok(at + 1);
        }
        // Whatever is escaped ends no string.
        at += 2;
    }
}
