//! A strict parser of JSON text (RFC 8259): one pass, no recursion, no copies.
//!
//! The parser finds the spans of values and decodes only the keys of objects. It accepts exactly
//! the texts that `serde_json` accepts. Property tests verify this.

use std::borrow::Cow;

use super::{Span, surrogates};

/// The text is not valid JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Invalid;

/// A parser and its position in a JSON text.
#[derive(Debug)]
pub(super) struct Scanner<'a> {
    text: &'a str,
    position: usize,
    depth: usize,
    deepest: usize,
}

impl<'a> Scanner<'a> {
    /// A parser at the first value of `text`.
    pub fn new(text: &'a str) -> Self {
        let mut scanner = Self {
            text,
            position: 0,
            depth: 0,
            deepest: 0,
        };
        scanner.skip_space();
        scanner
    }

    /// The deepest level of objects and arrays so far.
    pub fn deepest(&self) -> usize {
        self.deepest
    }

    pub fn position(&self) -> usize {
        self.position
    }

    /// The span from `start` to the current position.
    pub fn since(&self, start: usize) -> Span {
        Span::new(start, self.position)
    }

    /// The byte at the current position.
    pub fn first(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    /// Reads the object at the current position. Calls `visit` after each key. `visit` must read
    /// the value.
    pub fn members<E: From<Invalid>>(
        &mut self,
        mut visit: impl FnMut(&mut Self, Cow<'a, str>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.expect(b'{')?;
        self.enter();
        self.skip_space();
        if self.first() != Some(b'}') {
            loop {
                let (key, is_escaped) = self.key()?;
                let key = if is_escaped {
                    // An invalid surrogate in one key must not hide the other members.
                    let raw = key.get(self.text);
                    let key = serde_json::from_str(raw)
                        .ok()
                        .or_else(|| surrogates::lossy(raw));
                    Cow::Owned(key.ok_or(Invalid)?)
                } else {
                    Cow::Borrowed(&self.text[key.start() + 1..key.end() - 1])
                };
                visit(self, key)?;
                self.skip_space();
                if self.first() != Some(b',') {
                    break;
                }
                self.position += 1;
                self.skip_space();
            }
        }
        self.expect(b'}')?;
        self.depth -= 1;
        Ok(())
    }

    /// Reads the array at the current position. Calls `visit` for each item. `visit` must read the
    /// item.
    pub fn items<E: From<Invalid>>(
        &mut self,
        mut visit: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        self.expect(b'[')?;
        self.enter();
        self.skip_space();
        if self.first() != Some(b']') {
            loop {
                visit(self)?;
                self.skip_space();
                if self.first() != Some(b',') {
                    break;
                }
                self.position += 1;
                self.skip_space();
            }
        }
        self.expect(b']')?;
        self.depth -= 1;
        Ok(())
    }

    /// Skips the value at the current position and returns its span.
    pub fn value(&mut self) -> Result<Span, Invalid> {
        let start = self.position;
        let mut open = Open::default();
        loop {
            match self.first().ok_or(Invalid)? {
                b'"' => drop(self.string()?),
                b'-' | b'0'..=b'9' => self.number()?,
                b't' => self.literal("true")?,
                b'f' => self.literal("false")?,
                b'n' => self.literal("null")?,
                bracket @ (b'{' | b'[') => {
                    let is_object = bracket == b'{';
                    self.position += 1;
                    self.enter();
                    self.skip_space();
                    let end = if is_object { b'}' } else { b']' };
                    if self.first() != Some(end) {
                        open.push(is_object);
                        if is_object {
                            self.key()?;
                        }
                        continue;
                    }
                    self.position += 1;
                    self.depth -= 1;
                }
                _ => return Err(Invalid),
            }
            // A value ended. Continue or close the objects and arrays around it.
            loop {
                let Some(is_object) = open.innermost() else {
                    return Ok(Span::new(start, self.position));
                };
                self.skip_space();
                match (self.first(), is_object) {
                    (Some(b','), _) => {
                        self.position += 1;
                        self.skip_space();
                        if is_object {
                            self.key()?;
                        }
                        break;
                    }
                    (Some(b'}'), true) | (Some(b']'), false) => {
                        self.position += 1;
                        self.depth -= 1;
                        open.pop();
                    }
                    _ => return Err(Invalid),
                }
            }
        }
    }

    /// Returns an error unless only white space remains.
    pub fn end(&mut self) -> Result<(), Invalid> {
        self.skip_space();
        if self.first().is_some() {
            return Err(Invalid);
        }
        Ok(())
    }

    fn enter(&mut self) {
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.first() {
            self.position += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), Invalid> {
        if self.first() != Some(byte) {
            return Err(Invalid);
        }
        self.position += 1;
        Ok(())
    }

    fn literal(&mut self, literal: &str) -> Result<(), Invalid> {
        let rest = &self.text.as_bytes()[self.position..];
        if !rest.starts_with(literal.as_bytes()) {
            return Err(Invalid);
        }
        self.position += literal.len();
        Ok(())
    }

    /// Reads a key and moves to its value. Returns the key's span including quotes, and true if the
    /// key has escapes.
    fn key(&mut self) -> Result<(Span, bool), Invalid> {
        if self.first() != Some(b'"') {
            return Err(Invalid);
        }
        let start = self.position;
        let is_escaped = self.string()?;
        let key = Span::new(start, self.position);
        self.skip_space();
        self.expect(b':')?;
        self.skip_space();
        Ok((key, is_escaped))
    }

    /// Skips the string at the current position. Returns true if the string has escapes.
    fn string(&mut self) -> Result<bool, Invalid> {
        self.position += 1;
        let mut is_escaped = false;
        loop {
            self.position = end_of_plain(self.text.as_bytes(), self.position);
            match self.first() {
                Some(b'"') => {
                    self.position += 1;
                    return Ok(is_escaped);
                }
                Some(b'\\') => {
                    is_escaped = true;
                    self.escape()?;
                }
                // A control character is not allowed, and the text must not end here.
                _ => return Err(Invalid),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Invalid> {
        let rest = &self.text.as_bytes()[self.position + 1..];
        self.position += match rest {
            [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
            [b'u', one, two, three, four, ..]
                if [one, two, three, four]
                    .iter()
                    .all(|digit| digit.is_ascii_hexdigit()) =>
            {
                6
            }
            _ => return Err(Invalid),
        };
        Ok(())
    }

    fn number(&mut self) -> Result<(), Invalid> {
        if self.first() == Some(b'-') {
            self.position += 1;
        }
        if self.first() == Some(b'0') {
            self.position += 1;
        } else {
            self.digits()?;
        }
        if self.first() == Some(b'.') {
            self.position += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.first() {
            self.position += 1;
            if let Some(b'+' | b'-') = self.first() {
                self.position += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    /// Skips at least one digit.
    fn digits(&mut self) -> Result<(), Invalid> {
        let start = self.position;
        while let Some(b'0'..=b'9') = self.first() {
            self.position += 1;
        }
        if self.position == start {
            return Err(Invalid);
        }
        Ok(())
    }
}

/// The open objects and arrays, as a stack of bits. A bit is set for an object. The lowest bit is
/// the innermost level.
#[derive(Default)]
struct Open {
    depth: usize,
    bits: u64,
    /// The bits of outer levels, in groups of 64.
    outer: Vec<u64>,
}

impl Open {
    fn push(&mut self, is_object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.bits);
        }
        self.bits = (self.bits << 1) | u64::from(is_object);
        self.depth += 1;
    }

    fn innermost(&self) -> Option<bool> {
        (self.depth > 0).then_some(self.bits & 1 == 1)
    }

    fn pop(&mut self) {
        self.depth -= 1;
        self.bits >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.bits = self.outer.pop().unwrap_or_default();
        }
    }
}

/// Returns the position of the first byte that ends plain text in a string: a quotation mark, a
/// backslash, or a control character (which is invalid). Reads eight bytes at a time.
pub(super) fn end_of_plain(text: &[u8], mut position: usize) -> usize {
    const LOW_BITS: u64 = u64::MAX / 0xFF;
    const HIGH_BITS: u64 = LOW_BITS << 7;
    // Sets the highest bit of the first byte below `limit`, and possibly of later bytes.
    fn first_below(word: u64, limit: u8) -> u64 {
        word.wrapping_sub(LOW_BITS * u64::from(limit)) & !word & HIGH_BITS
    }
    while let Some(chunk) = text[position..].first_chunk() {
        let word = u64::from_le_bytes(*chunk);
        let mask = first_below(word, b' ')
            | first_below(word ^ (LOW_BITS * u64::from(b'"')), 1)
            | first_below(word ^ (LOW_BITS * u64::from(b'\\')), 1);
        if mask != 0 {
            return position + mask.trailing_zeros() as usize / 8;
        }
        position += chunk.len();
    }
    let is_plain = |byte: &u8| *byte >= b' ' && !matches!(*byte, b'"' | b'\\');
    position
        + text[position..]
            .iter()
            .take_while(|byte| is_plain(byte))
            .count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::de::IgnoredAny;

    use super::*;

    /// Reads a text that contains exactly one value. Returns its depth.
    fn skip(text: &str) -> Result<usize, Invalid> {
        let mut scanner = Scanner::new(text);
        let value = scanner.value()?;
        scanner.end()?;
        assert_eq!(value.get(text), text.trim_matches([' ', '\n', '\r', '\t']));
        Ok(scanner.deepest())
    }

    fn is_json(text: &str) -> bool {
        serde_json::from_str::<IgnoredAny>(text).is_ok()
    }

    #[test]
    fn depth_is_counted_outside_of_strings() {
        let nested = |levels: usize| "[{\"a\":".repeat(levels) + "0" + &"}]".repeat(levels);
        for (text, expected) in [
            ("1", 0),
            ("{}", 1),
            (r#"[{"a":[]},[[]]]"#, 3),
            (r#"["[[[[","\"[[","\\",[]]"#, 2),
            (r#"{"[\\\"[":{"{":1}}"#, 2),
            (&nested(31), 62),
            (&nested(32), 64),
            (&nested(33), 66),
            (&nested(64), 128),
            (&nested(1000), 2000),
        ] {
            assert_eq!(skip(text), Ok(expected), "{text}");
        }
    }

    /// Brackets match at every depth, also beyond a group of 64 levels.
    #[test]
    fn brackets_match_at_every_depth() {
        for levels in 1..200 {
            let opening: String = (0..levels)
                .map(|level| if level % 3 == 0 { "{\"\":" } else { "[" })
                .collect();
            let closing: Vec<_> = (0..levels)
                .map(|level| if level % 3 == 0 { "}" } else { "]" })
                .collect();
            let closing: String = closing.into_iter().rev().collect();
            assert_eq!(skip(&format!("{opening}0{closing}")), Ok(levels));
            for level in 0..levels {
                let mut wrong_closing = closing.clone();
                let other_bracket = if &closing[level..=level] == "}" {
                    "]"
                } else {
                    "}"
                };
                wrong_closing.replace_range(level..=level, other_bracket);
                assert_eq!(
                    skip(&format!("{opening}0{wrong_closing}")),
                    Err(Invalid),
                    "{levels} {level}"
                );
            }
        }
    }

    #[test]
    fn the_end_of_plain_text_is_found_at_every_offset() {
        for end in ['"', '\\', '\0', '\n', '\u{1f}'] {
            for length in 0..20 {
                for character in ['x', ' ', '!', '#', '[', ']', '\u{7f}', 'é'] {
                    let prefix = character.to_string().repeat(length);
                    let text = format!("{prefix}{end}\"\\\u{1}aaaaaaaa");
                    assert_eq!(end_of_plain(text.as_bytes(), 0), prefix.len(), "{text:?}");
                }
            }
        }
        assert_eq!(end_of_plain("aaaaaaaaaa".as_bytes(), 3), 10);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        /// Random texts of typical JSON characters. Few of them are valid.
        #[test]
        fn random_texts_are_valid_as_in_serde_json(text in r#"[\[\]{}",:0-2eE+.\-truefalsn\\ \n\x01]{0,12}"#) {
            prop_assert_eq!(skip(&text).is_ok(), is_json(&text), "{}", text);
        }

        /// Valid texts in which one character is changed, removed or added.
        #[test]
        fn changed_texts_are_valid_as_in_serde_json(
            text in prop::sample::select(vec![
                r#"{"a":[1,-2.5e+3,true,null],"b\n":{"c":"d\u00e4\\"},"":false} "#,
                r#" [ {"x" : "0123456789abcdef\"" } , [ ] , { } , -0.0E1 ]"#,
                r#""a string of more than eight bytes""#,
            ]),
            index in any::<prop::sample::Index>(),
            with in prop::sample::select(vec!["", "\"", "\\", "{", "}", "[", "]", ",", ":", "0", "e", "\t", "\u{0}", "u", "-", "."]),
            replaced in 0..2_usize,
        ) {
            let mut text = text.to_owned();
            let index = index.index(text.len());
            text.replace_range(index..index + replaced, with);
            prop_assert_eq!(skip(&text).is_ok(), is_json(&text), "{}", text);
        }
    }
}
