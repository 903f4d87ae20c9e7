//! Redacts JSON in one pass and without recursion. Hides values with secret names and redacts
//! strings. All other bytes stay unchanged. A name can be the key of a member, another member
//! (`{"name": …, "value": …}`), the first element of a pair (`[name, value]`), or an option in a
//! list of arguments.

use std::borrow::Cow;

use super::{
    HIDDEN, Rules,
    edits::Edits,
    names::{Secrecy, is_number, is_word, may_be_name},
};
use crate::message::{self, shown_text};

/// Maximum depth of JSON inside strings, as in tool results. Each level doubles the backslashes, so
/// no message has room for more levels.
const MAX_NESTED: usize = 32;

/// The token that must come next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// A value. Its name has this secrecy.
    Value(Secrecy),
    /// The key of a member, or the end of the object.
    Key,
    Colon(Secrecy),
    /// A comma, or the end of the container.
    Comma,
}

/// An open object or array.
struct Open {
    start: usize,
    /// True if the container has a string that is not a number.
    has_strings: bool,
    kind: ContainerKind,
}

enum ContainerKind {
    Object(Object),
    Array(Array),
}

/// The span of a value. `has_strings` is true if the value contains a string that is not a number.
#[derive(Clone, Copy)]
struct ValueSpan {
    start: usize,
    end: usize,
    has_strings: bool,
}

/// The state of an object that may be a pair of a name and a value.
struct Object {
    /// The kind of the latest member.
    member: Member,
    /// The secrecy of the value, according to the name.
    secrecy: Secrecy,
    value: Option<ValueSpan>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Member {
    Name,
    Value,
    Other,
}

impl Member {
    fn from_key(key: &str) -> Self {
        let is_key = |word: &&str| key.eq_ignore_ascii_case(word);
        if ["name", "key", "header"].iter().any(&is_key) {
            Self::Name
        } else if ["value", "values"].iter().any(is_key) {
            Self::Value
        } else {
            Self::Other
        }
    }
}

/// The state of an array that may be a pair of a name and a value, or a list of arguments.
struct Array {
    elements: usize,
    /// The secrecy of the second element, according to the first one. Both must be strings.
    secrecy: Secrecy,
    second: Option<ValueSpan>,
    /// The secrecy of the next element, if the latest one is an option. Both must be strings.
    option: Secrecy,
}

impl Open {
    fn at(start: usize, is_object: bool) -> Self {
        let kind = if is_object {
            ContainerKind::Object(Object {
                member: Member::Other,
                secrecy: Secrecy::Open,
                value: None,
            })
        } else {
            ContainerKind::Array(Array {
                elements: 0,
                secrecy: Secrecy::Open,
                second: None,
                option: Secrecy::Open,
            })
        };
        Self {
            start,
            has_strings: false,
            kind,
        }
    }
}

impl Rules<'_> {
    /// Redacts JSON or plain text. `nested` is the number of strings around the text. `None` if
    /// nothing changes.
    pub(super) fn text(&self, text: &str, nested: usize) -> Option<String> {
        // A string inside a string is parsed only if it may be an object or array.
        let is_json = match text.trim_start().as_bytes().first() {
            Some(b'{' | b'[') => nested <= MAX_NESTED,
            Some(b'"') => nested == 0,
            _ => false,
        };
        match is_json.then(|| self.json(text, nested)) {
            Some(Ok(new_text)) => new_text,
            Some(Err(NotJson)) | None => self.redact_plain(text),
        }
    }

    fn json(&self, text: &str, nested: usize) -> Result<Option<String>, NotJson> {
        let mut reader = Reader {
            rules: self,
            text,
            edits: Edits::new(text),
            open: Vec::new(),
            without_strings: 0,
        };
        reader.read(nested)?;
        Ok(reader.edits.finish())
    }
}

struct Reader<'r> {
    rules: &'r Rules<'r>,
    text: &'r str,
    edits: Edits<'r>,
    open: Vec<Open>,
    /// All containers before this position were searched and have no strings.
    without_strings: usize,
}

impl Reader<'_> {
    fn read(&mut self, nested: usize) -> Result<(), NotJson> {
        let bytes = self.text.as_bytes();
        let (mut position, mut next) = (0, Next::Value(Secrecy::Open));
        while let Some(&byte) = bytes.get(position) {
            if byte.is_ascii_whitespace() {
                position += 1;
                continue;
            }
            (position, next) = match (next, byte) {
                (Next::Value(secrecy), _) if byte != b']' => {
                    self.value(position, byte, secrecy, nested)?
                }
                (Next::Value(_) | Next::Comma, b']')
                    if matches!(self.kind(), Some(ContainerKind::Array(_))) =>
                {
                    self.close(position + 1);
                    (position + 1, Next::Comma)
                }
                (Next::Key | Next::Comma, b'}')
                    if matches!(self.kind(), Some(ContainerKind::Object(_))) =>
                {
                    self.close(position + 1);
                    (position + 1, Next::Comma)
                }
                (Next::Key, b'"') => {
                    let end = value_end(bytes, position)?;
                    (end, Next::Colon(self.key(position, end)))
                }
                (Next::Colon(secrecy), b':') => (position + 1, Next::Value(secrecy)),
                (Next::Comma, b',') => match self.kind() {
                    Some(ContainerKind::Object(_)) => (position + 1, Next::Key),
                    Some(ContainerKind::Array(_)) => (position + 1, Next::Value(Secrecy::Open)),
                    None => return Err(NotJson),
                },
                _ => return Err(NotJson),
            };
        }
        if !self.open.is_empty() || next != Next::Comma {
            return Err(NotJson);
        }
        Ok(())
    }

    fn kind(&mut self) -> Option<&mut ContainerKind> {
        self.open.last_mut().map(|open| &mut open.kind)
    }

    /// Reads the key of a member, and returns the secrecy of the member's value.
    fn key(&mut self, start: usize, end: usize) -> Secrecy {
        let key = decode_literal(&self.text[start..end]);
        if let Some(secrets) = self.rules.secrets
            && let Cow::Owned(new_text) = secrets.hide(&key)
        {
            self.edits
                .replace(start, end, message::quote(&new_text).into());
        }
        let secrecy = self.rules.secrecy(&key);
        let Some(ContainerKind::Object(object)) = self.kind() else {
            return secrecy;
        };
        object.member = Member::from_key(&key);
        match object.member {
            Member::Value => secrecy.max(object.secrecy),
            Member::Name | Member::Other => secrecy,
        }
    }

    /// Reads a value, or only the start of a container. Returns the position after it, and the
    /// token that must come next.
    fn value(
        &mut self,
        start: usize,
        byte: u8,
        secrecy: Secrecy,
        nested: usize,
    ) -> Result<(usize, Next), NotJson> {
        let bytes = self.text.as_bytes();
        let is_container = matches!(byte, b'{' | b'[');
        if is_container {
            let is_hidden = match secrecy {
                Secrecy::Open => false,
                Secrecy::Secret => true,
                Secrecy::Secrets => start >= self.without_strings,
            };
            if is_hidden {
                let end = value_end(bytes, start)?;
                let has_strings = has_strings(bytes, start, end)?;
                if has_strings || secrecy == Secrecy::Secret {
                    self.hide(start, end);
                    self.finish_value(start, end, None, has_strings);
                    return Ok((end, Next::Comma));
                }
                self.without_strings = end;
            }
            self.open.push(Open::at(start, byte == b'{'));
            let next = if byte == b'{' {
                Next::Key
            } else {
                Next::Value(Secrecy::Open)
            };
            return Ok((start + 1, next));
        }
        let end = value_end(bytes, start)?;
        if byte == b'"' {
            let string = decode_literal(&self.text[start..end]);
            if secrecy.hides(&string) {
                self.hide(start, end);
            } else if let Some(new_text) = self.rules.text(&string, nested + 1) {
                self.edits
                    .replace(start, end, message::quote(&new_text).into());
            }
            self.finish_value(start, end, Some(&string), !is_number(&string));
        } else {
            if secrecy == Secrecy::Secret {
                self.hide(start, end);
            } else if let Some(secrets) = self.rules.secrets
                && let Cow::Owned(new_text) = secrets.hide(&self.text[start..end])
            {
                self.edits
                    .replace(start, end, message::quote(&new_text).into());
            }
            self.finish_value(start, end, None, false);
        }
        Ok((end, Next::Comma))
    }

    fn hide(&mut self, start: usize, end: usize) {
        self.edits
            .replace(start, end, message::quote(HIDDEN).into());
    }

    /// Updates the state of the container around this value, and hides the secret of a pair or
    /// list.
    fn finish_value(&mut self, start: usize, end: usize, string: Option<&str>, has_strings: bool) {
        let rules = self.rules;
        let Some(open) = self.open.last_mut() else {
            return;
        };
        open.has_strings |= has_strings;
        let span = ValueSpan {
            start,
            end,
            has_strings,
        };
        let hidden_span = match &mut open.kind {
            ContainerKind::Object(object) => match object.member {
                Member::Name => {
                    let name = string.filter(|name| may_be_name(name));
                    let secrecy = name.map_or(Secrecy::Open, |name| rules.secrecy(name));
                    object.secrecy = object.secrecy.max(secrecy);
                    // In an object, the value may come before its name.
                    object.value.filter(|value| value.is_hidden_by(secrecy))
                }
                Member::Value => {
                    object.value = Some(span);
                    None
                }
                Member::Other => None,
            },
            ContainerKind::Array(array) => {
                let option_or_name = string.filter(|option_or_name| is_word(option_or_name));
                let name_secrecy = |option_or_name: Option<&str>| {
                    let name =
                        option_or_name.map(|option_or_name| option_or_name.trim_start_matches('-'));
                    name.map_or(Secrecy::Open, |name| rules.secrecy(name))
                };
                let option =
                    option_or_name.filter(|option_or_name| option_or_name.starts_with('-'));
                let previous_option = std::mem::replace(&mut array.option, name_secrecy(option));
                array.elements += 1;
                match array.elements {
                    1 if option.is_none() => array.secrecy = name_secrecy(option_or_name),
                    2 => array.second = string.map(|_| span),
                    _ => {}
                }
                // An option can be followed by another option instead of a value.
                let is_value = string.is_some_and(|value| !value.starts_with("--"));
                Some(span).filter(|span| is_value && span.is_hidden_by(previous_option))
            }
        };
        if let Some(ValueSpan { start, end, .. }) = hidden_span {
            self.hide(start, end);
        }
    }

    fn close(&mut self, end: usize) {
        let Some(open) = self.open.pop() else {
            return;
        };
        if let ContainerKind::Array(array) = open.kind
            && array.elements == 2
            && let Some(second) = array.second
            && second.is_hidden_by(array.secrecy)
        {
            self.hide(second.start, second.end);
        }
        self.finish_value(open.start, end, None, open.has_strings);
    }
}

impl ValueSpan {
    /// True if a name with this secrecy hides the value.
    fn is_hidden_by(&self, secrecy: Secrecy) -> bool {
        match secrecy {
            Secrecy::Open => false,
            Secrecy::Secrets => self.has_strings,
            Secrecy::Secret => true,
        }
    }
}

#[derive(Debug)]
struct NotJson;

/// Decodes a string literal.
fn decode_literal(literal: &str) -> Cow<'_, str> {
    let content = &literal[1..literal.len() - 1];
    if memchr::memchr(b'\\', content.as_bytes()).is_none() {
        return content.into();
    }
    shown_text(literal).unwrap_or(content.into())
}

/// Returns the end of the value at `from`.
fn value_end(bytes: &[u8], from: usize) -> Result<usize, NotJson> {
    match bytes[from] {
        b'"' => string_end(bytes, from),
        b'{' | b'[' => {
            let (mut depth, mut position) = (0_usize, from);
            loop {
                match bytes.get(position).ok_or(NotJson)? {
                    b'"' => {
                        position = string_end(bytes, position)?;
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => {
                        depth -= 1;
                        if depth == 0 {
                            return Ok(position + 1);
                        }
                    }
                    _ => {}
                }
                position += 1;
            }
        }
        _ => {
            let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
            let length = bytes[from..]
                .iter()
                .take_while(|byte| is_part(byte))
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
    let mut position = from + 1;
    loop {
        let rest = bytes.get(position..).ok_or(NotJson)?;
        position += memchr::memchr2(b'"', b'\\', rest).ok_or(NotJson)?;
        if bytes[position] == b'"' {
            return Ok(position + 1);
        }
        // Skip the escaped character, which cannot end the string.
        position += 2;
    }
}

/// True if a value contains a string that is neither a number nor the key of a member.
fn has_strings(bytes: &[u8], from: usize, end: usize) -> Result<bool, NotJson> {
    let mut position = from;
    while let Some(quote) = memchr::memchr(b'"', &bytes[position..end]) {
        let string_start = position + quote;
        position = string_end(bytes, string_start)?;
        let rest = bytes[position..end].iter();
        let next_byte = rest.copied().find(|byte| !byte.is_ascii_whitespace());
        let inner = std::str::from_utf8(&bytes[string_start + 1..position - 1]);
        if next_byte != Some(b':') && !inner.is_ok_and(is_number) {
            return Ok(true);
        }
    }
    Ok(false)
}
