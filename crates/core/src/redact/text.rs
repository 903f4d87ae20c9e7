//! Redacts plain text: hides values after secret names, in linear time.

use std::{borrow::Cow, sync::LazyLock};

use memchr::memchr;
use regex::Regex;

use super::{
    HIDDEN,
    edits::Edits,
    names::{is_count, is_number, words},
    pattern,
};

/// Matches the end of a secret name, or the word `Bearer` before credentials. The pattern is ASCII
/// only, so that the regex needs no Unicode tables.
static NAME: LazyLock<Regex> =
    LazyLock::new(|| pattern(concat!(r"(?i-u)\bbearer[ \t]+|", words!())));

/// Maximum number of bytes to read of a name before the secret word at its end.
const MAX_PREFIX: usize = 64;

/// Maximum length of the attributes of an XML element, in bytes.
const MAX_ATTRIBUTES: usize = 256;

/// Length of the longest entry of [`SCHEMES`], in bytes.
const MAX_SCHEME: usize = 9;

/// Authentication schemes. They stay readable before hidden credentials.
const SCHEMES: [&str; 6] = ["basic", "bearer", "digest", "token", "apikey", "negotiate"];

/// Hides the values after secret names.
pub(super) fn hide_named(text: &str) -> Cow<'_, str> {
    let mut reader = Reader {
        text,
        bytes: text.as_bytes(),
        is_balanced: true,
        without_strings: 0,
    };
    let mut edits = Edits::new(text);
    let mut position = 0;
    while let Some(name) = NAME.find_at(text, position) {
        position = name.end();
        if let Some((from, value_end)) = reader.value_of(name.start(), name.end())
            && from < value_end
        {
            edits.replace(from, value_end, HIDDEN.into());
            position = value_end;
        }
    }
    edits.finish().map_or(Cow::Borrowed(text), Cow::Owned)
}

/// A quote character. Each JSON string around the text adds backslashes before it.
#[derive(Clone, Copy)]
struct Quote {
    mark: u8,
    backslashes: usize,
    /// The position after the quote.
    end: usize,
}

/// The surroundings of a value.
#[derive(Clone, Copy, Default)]
struct Around {
    /// True if the name is a header whose value may have several words.
    is_header: bool,
    /// True if the name is in quotes, as a key of JSON is.
    is_member: bool,
    /// The quote before the name, if the same quotes enclose the value.
    within: Option<Quote>,
}

struct Reader<'t> {
    text: &'t str,
    bytes: &'t [u8],
    /// False after a bracket without an end was found. Later brackets are then searched only to the
    /// end of the line, so that the work stays linear.
    is_balanced: bool,
    /// All lists and objects before this position were searched and have no strings.
    without_strings: usize,
}

impl Reader<'_> {
    /// Returns the span of the value after a secret name that ends with `start..end`.
    fn value_of(&mut self, start: usize, end: usize) -> Option<(usize, usize)> {
        if self.bytes[end - 1].is_ascii_whitespace() {
            return Some((end, self.word_end(end)));
        }
        // Other characters show that the word is part of a sentence or another name.
        if !self.bytes.get(end).is_some_and(|byte| {
            byte.is_ascii_whitespace() || matches!(byte, b':' | b'=' | b'"' | b'\'' | b'\\' | b'>')
        }) {
            return None;
        }
        let start_of_name = self.name_start(start);
        let name = &self.text[start_of_name..end];
        let is_plural = name.ends_with(['s', 'S']);
        if is_plural && is_count(name) {
            return None;
        }
        let previous_byte = start_of_name.checked_sub(1).map(|index| self.bytes[index]);
        let is_element = match previous_byte {
            Some(b':') => {
                let prefix = self.name_start(start_of_name - 1);
                prefix > 0 && self.bytes[prefix - 1] == b'<'
            }
            _ => previous_byte == Some(b'<'),
        };
        if is_element && let Some(from) = self.content(end) {
            let rest = &self.bytes[from..];
            let value_end =
                memchr(b'<', rest).map_or_else(|| self.line_end(from), |index| from + index);
            return self.unless_count(is_plural, from, value_end);
        }
        let is_header = is_header(name);
        let is_option = name.starts_with('-');
        let closed = self.quote(end);
        let after = closed.map_or(end, |quote| quote.end);
        let sign = self.skip_blanks(after);
        match (self.bytes.get(sign)?, closed) {
            (b':' | b'=', _) => {
                let is_query = matches!(previous_byte, Some(b'?' | b'&'));
                let is_quoted = closed.is_none() && matches!(previous_byte, Some(b'"' | b'\''));
                let around = Around {
                    is_header: is_header && !is_query,
                    is_member: closed.is_some(),
                    within: is_quoted
                        .then(|| self.quote_before(start_of_name))
                        .flatten(),
                };
                self.value(is_plural, self.skip_sign(sign), around)
            }
            (b',', Some(closed)) => {
                self.value_after_name(is_plural, is_option, start_of_name, sign + 1, closed)
            }
            (byte, None) if is_option && sign > end && !matches!(byte, b'\n' | b'\r') => {
                // An option can be followed by another option instead of a value.
                if self.bytes[sign..].starts_with(b"--") {
                    return None;
                }
                self.value(is_plural, sign, Around::default())
            }
            _ => None,
        }
    }

    /// Returns the value after `"name",`: in `"name":"…","value":"…"`, in a pair, or after an
    /// option in a list.
    fn value_after_name(
        &mut self,
        is_plural: bool,
        is_option: bool,
        start_of_name: usize,
        position: usize,
        closed: Quote,
    ) -> Option<(usize, usize)> {
        let open_quote = self.quote(self.skip_white(position))?;
        let rest = &self.bytes[open_quote.end..];
        if rest
            .get(..5)
            .is_some_and(|key| key.eq_ignore_ascii_case(b"value"))
        {
            let sign = self
                .quote(open_quote.end + 5)
                .map(|quote| self.skip_blanks(quote.end));
            if let Some(sign) = sign
                && self.bytes.get(sign) == Some(&b':')
            {
                return self.value(is_plural, self.skip_sign(sign), Around::default());
            }
        }
        if is_option && rest.starts_with(b"--") {
            return None;
        }
        let value_end = self.closing_quote(open_quote);
        let opening = start_of_name.saturating_sub(closed.backslashes + 1);
        let opening = self.bytes[..opening].trim_ascii_end().last();
        let is_last = |quote: Quote| {
            let next_byte = self.bytes.get(self.skip_white(quote.end));
            matches!(next_byte, Some(b']' | b')'))
        };
        let is_pair =
            matches!(opening, Some(b'[' | b'(')) && self.quote(value_end).is_some_and(is_last);
        if is_option || is_pair {
            self.unless_count(is_plural, open_quote.end, value_end)
        } else {
            None
        }
    }

    /// Returns the span of a value, without its quotes and its authentication scheme.
    fn value(&mut self, is_plural: bool, from: usize, around: Around) -> Option<(usize, usize)> {
        let Around {
            is_header,
            is_member,
            within,
        } = around;
        if let Some(quote) = self.quote(from) {
            let value_end = self.closing_quote(quote);
            if !is_header || is_member || self.is_end(value_end) {
                let from = self.skip_scheme(quote.end, value_end, is_header);
                return self.unless_count(is_plural, from, value_end);
            }
        }
        let is_bracket = matches!(self.bytes.get(from), Some(b'{' | b'[' | b'('));
        if is_bracket && (!is_header || is_member) {
            return self.bracketed_value(is_plural, from);
        }
        if is_header {
            let value_end = match within {
                Some(quote) => self.closing_quote(Quote { end: from, ..quote }),
                None => self.line_end(from),
            };
            let from = self.skip_scheme(from, value_end, true);
            let line = self.text[from..value_end].trim_ascii_end();
            return self.unless_count(is_plural, from, from + line.len());
        }
        let from = self.skip_scheme(from, self.bytes.len(), false);
        let value_end = self.word_end(from);
        self.unless_count(is_plural, from, value_end)
    }

    /// True if nothing of the value follows the quoted part that ends at `value_end`.
    fn is_end(&self, value_end: usize) -> bool {
        let quote_end = self.quote(value_end).map_or(value_end, |quote| quote.end);
        let next_byte = self.bytes.get(quote_end);
        next_byte.is_none_or(|byte| byte.is_ascii_whitespace() || b",)}]\"'".contains(byte))
    }

    /// Returns the span of a value. `None` for a number with a plural name, which is a count.
    fn unless_count(
        &self,
        is_plural: bool,
        from: usize,
        value_end: usize,
    ) -> Option<(usize, usize)> {
        (!is_plural || !is_number(&self.text[from..value_end])).then_some((from, value_end))
    }

    /// Returns the span of a list or an object.
    fn bracketed_value(&mut self, is_plural: bool, from: usize) -> Option<(usize, usize)> {
        if is_plural && from < self.without_strings {
            return None;
        }
        let limit = if self.is_balanced {
            self.bytes.len()
        } else {
            self.line_end(from)
        };
        let (mut depth, mut position, mut has_letters) = (0_usize, from, false);
        while position < limit {
            match self.bytes[position] {
                b'{' | b'[' | b'(' => depth += 1,
                byte if byte.is_ascii_alphabetic() => has_letters |= self.bytes[from] == b'[',
                b'}' | b']' | b')' => {
                    depth -= 1;
                    if depth == 0 {
                        if is_plural && !has_letters {
                            self.without_strings = position;
                            return None;
                        }
                        return Some((from, position + 1));
                    }
                }
                mark @ (b'"' | b'\'') => {
                    let backslashes = self.backslashes_before(position, from);
                    let previous_byte = self.bytes[position - backslashes - 1];
                    // A `'` after a letter or digit is an apostrophe.
                    if mark == b'"' || !previous_byte.is_ascii_alphanumeric() {
                        let end = position + 1;
                        position = self.closing_quote(Quote {
                            mark,
                            backslashes,
                            end,
                        });
                        // A string before a colon is a key.
                        let colon = self
                            .quote(position)
                            .map(|quote| (self.skip_blanks(quote.end), quote.end));
                        if let Some((sign, after)) = colon {
                            has_letters |= self.bytes.get(sign) != Some(&b':')
                                && !is_number(&self.text[end..position]);
                            position = after;
                        } else {
                            has_letters = true;
                        }
                        continue;
                    }
                }
                _ => {}
            }
            position += 1;
        }
        self.is_balanced = false;
        Some((from, self.line_end(from)))
    }

    /// Returns the start of an XML element's content, if the element's name ends at `end`.
    fn content(&self, end: usize) -> Option<usize> {
        match self.bytes.get(end)? {
            b'>' => Some(end + 1),
            byte if byte.is_ascii_whitespace() => {
                let rest = &self.bytes[end..];
                let rest = &rest[..rest.len().min(MAX_ATTRIBUTES)];
                let tag_end = end + memchr(b'>', rest)?;
                (self.bytes[tag_end - 1] != b'/').then_some(tag_end + 1)
            }
            _ => None,
        }
    }

    /// Returns the start of the name that ends at `from`.
    fn name_start(&self, from: usize) -> usize {
        let min_start = from.saturating_sub(MAX_PREFIX);
        let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        let preceding_bytes = self.bytes[min_start..from].iter().rev();
        from - preceding_bytes.take_while(is_part).count()
    }

    fn quote(&self, position: usize) -> Option<Quote> {
        let rest = self.bytes.get(position..)?;
        let backslashes = rest.iter().take_while(|byte| **byte == b'\\').count();
        let mark = *rest.get(backslashes)?;
        matches!(mark, b'"' | b'\'').then_some(Quote {
            mark,
            backslashes,
            end: position + backslashes + 1,
        })
    }

    /// Returns the quote that ends at `end`.
    fn quote_before(&self, end: usize) -> Option<Quote> {
        let position = end.checked_sub(1)?;
        Some(Quote {
            mark: self.bytes[position],
            backslashes: self.backslashes_before(position, position.saturating_sub(MAX_PREFIX)),
            end,
        })
    }

    fn backslashes_before(&self, end: usize, min_start: usize) -> usize {
        let preceding_bytes = self.bytes[min_start..end].iter().rev();
        preceding_bytes.take_while(|byte| **byte == b'\\').count()
    }

    /// Returns the end of a quoted text: its closing quote, or the end of the line.
    fn closing_quote(&self, open: Quote) -> usize {
        // At this depth, a backslash inside the text is written as `escape_length` backslashes. An
        // escaped quote has one backslash less before it.
        let escape_length = 2 * (open.backslashes + 1);
        let mut backslashes = 0;
        for (position, byte) in (open.end..).zip(&self.bytes[open.end..]) {
            match *byte {
                b'\\' => backslashes += 1,
                b'\n' | b'\r' => return position,
                byte if byte == open.mark && backslashes % escape_length <= open.backslashes => {
                    return position - backslashes % escape_length;
                }
                _ => backslashes = 0,
            }
        }
        self.bytes.len()
    }

    fn word_end(&self, from: usize) -> usize {
        let is_end = |byte: &u8| byte.is_ascii_whitespace() || b"\"',;}".contains(byte);
        let length = self.bytes[from..].iter().position(is_end);
        let end = length.map_or(self.bytes.len(), |length| from + length);
        // Backslashes before a quote are part of the quote.
        let is_quote = matches!(self.bytes.get(end), Some(b'"' | b'\''));
        end - if is_quote {
            self.backslashes_before(end, from)
        } else {
            0
        }
    }

    fn line_end(&self, from: usize) -> usize {
        let rest = &self.bytes[from..];
        from + memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len())
    }

    fn skip_white(&self, from: usize) -> usize {
        let rest = self.bytes[from..].iter();
        from + rest.take_while(|byte| byte.is_ascii_whitespace()).count()
    }

    fn skip_blanks(&self, from: usize) -> usize {
        let rest = self.bytes[from..].iter();
        from + rest.take_while(|byte| matches!(byte, b' ' | b'\t')).count()
    }

    /// Skips `:`, `=`, `:=`, `==` or `=>`, and blanks.
    fn skip_sign(&self, sign: usize) -> usize {
        let is_double = matches!(self.bytes.get(sign + 1), Some(b'=' | b'>'));
        self.skip_blanks(sign + 1 + usize::from(is_double))
    }

    /// Skips an authentication scheme before credentials. Outside headers, only `Bearer` is a
    /// scheme.
    fn skip_scheme(&self, from: usize, value_end: usize, is_header: bool) -> usize {
        let text = &self.bytes[from..value_end];
        let letters = text.iter().take(MAX_SCHEME + 1);
        let length = letters
            .take_while(|byte| byte.is_ascii_alphabetic())
            .count();
        let credentials = self.skip_blanks(from + length);
        let word = &text[..length];
        let is_scheme = if is_header {
            SCHEMES
                .iter()
                .any(|scheme| word.eq_ignore_ascii_case(scheme.as_bytes()))
        } else {
            word.eq_ignore_ascii_case(b"bearer")
        };
        if is_scheme && from + length < credentials && credentials < value_end {
            credentials
        } else {
            from
        }
    }
}

/// True if this header's value may have several words.
fn is_header(name: &str) -> bool {
    let has_suffix = |suffix: &str| {
        let start = name.len().checked_sub(suffix.len());
        start.is_some_and(|start| name.as_bytes()[start..].eq_ignore_ascii_case(suffix.as_bytes()))
    };
    has_suffix("authorization") || has_suffix("cookie")
}
