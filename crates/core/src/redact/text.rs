//! Redacts plain text: values after secret names. Every text is read a limited number of times.

use std::{borrow::Cow, sync::LazyLock};

use memchr::memchr;
use regex::Regex;

use super::{
    HIDDEN,
    edits::Edits,
    names::{is_count, is_number, words},
    pattern,
};

/// The end of a secret name, or a word before credentials. The pattern matches only ASCII, so that
/// no Unicode table is needed.
static NAME: LazyLock<Regex> =
    LazyLock::new(|| pattern(concat!(r"(?i-u)\bbearer[ \t]+|", words!())));

/// Maximum part of a name that is read before its secret end, in bytes.
const MAX_PREFIX: usize = 64;

/// Maximum length of the attributes of an XML element, in bytes.
const MAX_ATTRIBUTES: usize = 256;

/// Length of the longest scheme, in bytes.
const MAX_SCHEME: usize = 9;

/// Words between `Authorization:` and the credentials that need not be hidden.
const SCHEMES: [&str; 6] = ["basic", "bearer", "digest", "token", "apikey", "negotiate"];

/// Hides the values of secret names.
pub(super) fn named(text: &str) -> Cow<'_, str> {
    let mut reader = Reader {
        text,
        bytes: text.as_bytes(),
        is_balanced: true,
        without_strings: 0,
    };
    let mut edits = Edits::new(text);
    let mut at = 0;
    while let Some(name) = NAME.find_at(text, at) {
        at = name.end();
        if let Some((from, until)) = reader.value_of(name.start(), name.end())
            && from < until
        {
            edits.replace(from, until, HIDDEN.into());
            at = until;
        }
    }
    edits.finish().map_or(Cow::Borrowed(text), Cow::Owned)
}

/// A quote in the text. Each JSON string around it adds backslashes.
#[derive(Clone, Copy)]
struct Quote {
    mark: u8,
    backslashes: usize,
    /// The position after the quote.
    end: usize,
}

/// The context of a value.
#[derive(Clone, Copy, Default)]
struct Around {
    /// True if this is the name of a header, whose value may have several words.
    is_header: bool,
    /// True if the name is in quotes, as in JSON.
    is_member: bool,
    /// The quote before the name, if it encloses both name and value.
    within: Option<Quote>,
}

struct Reader<'t> {
    text: &'t str,
    bytes: &'t [u8],
    /// True until a bracket without an end was found. Only the first such bracket costs a search to
    /// the end.
    is_balanced: bool,
    /// End of the range of brackets without strings that was already searched.
    without_strings: usize,
}

impl Reader<'_> {
    /// The span of the value of a name whose secret end lies at `start..end`.
    fn value_of(&mut self, start: usize, end: usize) -> Option<(usize, usize)> {
        if self.bytes[end - 1].is_ascii_whitespace() {
            return Some((end, self.word_end(end)));
        }
        // Most such words belong to a sentence or another name.
        if !self.bytes.get(end).is_some_and(|byte| {
            byte.is_ascii_whitespace() || matches!(byte, b':' | b'=' | b'"' | b'\'' | b'\\' | b'>')
        }) {
            return None;
        }
        let first = self.name_start(start);
        let name = &self.text[first..end];
        let is_plural = name.ends_with(['s', 'S']);
        if is_plural && is_count(name) {
            return None;
        }
        let before = first.checked_sub(1).map(|at| self.bytes[at]);
        let is_element = match before {
            Some(b':') => {
                let prefix = self.name_start(first - 1);
                prefix > 0 && self.bytes[prefix - 1] == b'<'
            }
            _ => before == Some(b'<'),
        };
        if is_element && let Some(from) = self.content(end) {
            let rest = &self.bytes[from..];
            let until = memchr(b'<', rest).map_or_else(|| self.line_end(from), |at| from + at);
            return self.chosen(is_plural, from, until);
        }
        let is_header = is_header(name);
        let is_option = name.starts_with('-');
        let closed = self.quote(end);
        let after = closed.map_or(end, |quote| quote.end);
        let sign = self.skip_blanks(after);
        match (self.bytes.get(sign)?, closed) {
            (b':' | b'=', _) => {
                let is_query = matches!(before, Some(b'?' | b'&'));
                let is_quoted = closed.is_none() && matches!(before, Some(b'"' | b'\''));
                let around = Around {
                    is_header: is_header && !is_query,
                    is_member: closed.is_some(),
                    within: is_quoted.then(|| self.quote_before(first)).flatten(),
                };
                self.value(is_plural, self.skip_sign(sign), around)
            }
            (b',', Some(closed)) => self.second(is_plural, is_option, first, sign + 1, closed),
            (byte, None) if is_option && sign > end && !matches!(byte, b'\n' | b'\r') => {
                // After an option without a value, another option may follow.
                if self.bytes[sign..].starts_with(b"--") {
                    return None;
                }
                self.value(is_plural, sign, Around::default())
            }
            _ => None,
        }
    }

    /// The value after `"name",`: in `"name":"…","value":"…"`, in a pair, or after an option in a
    /// list.
    fn second(
        &mut self,
        is_plural: bool,
        is_option: bool,
        first: usize,
        at: usize,
        closed: Quote,
    ) -> Option<(usize, usize)> {
        let open = self.quote(self.skip_white(at))?;
        let rest = &self.bytes[open.end..];
        if rest
            .get(..5)
            .is_some_and(|word| word.eq_ignore_ascii_case(b"value"))
        {
            let sign = self
                .quote(open.end + 5)
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
        let until = self.closing(open);
        let opening = first.saturating_sub(closed.backslashes + 1);
        let opening = self.bytes[..opening].trim_ascii_end().last();
        let is_last = |quote: Quote| {
            let next = self.bytes.get(self.skip_white(quote.end));
            matches!(next, Some(b']' | b')'))
        };
        let is_pair =
            matches!(opening, Some(b'[' | b'(')) && self.quote(until).is_some_and(is_last);
        if is_option || is_pair {
            self.chosen(is_plural, open.end, until)
        } else {
            None
        }
    }

    /// The span of a value without its quotes and the scheme before it.
    fn value(&mut self, is_plural: bool, from: usize, around: Around) -> Option<(usize, usize)> {
        let Around {
            is_header,
            is_member,
            within,
        } = around;
        if let Some(quote) = self.quote(from) {
            let until = self.closing(quote);
            if !is_header || is_member || self.is_end(until) {
                let from = self.skip_scheme(quote.end, until, is_header);
                return self.chosen(is_plural, from, until);
            }
        }
        let opens = matches!(self.bytes.get(from), Some(b'{' | b'[' | b'('));
        if opens && (!is_header || is_member) {
            return self.bracketed(is_plural, from);
        }
        if is_header {
            let until = match within {
                Some(quote) => self.closing(Quote { end: from, ..quote }),
                None => self.line_end(from),
            };
            let from = self.skip_scheme(from, until, true);
            let line = self.text[from..until].trim_ascii_end();
            return self.chosen(is_plural, from, from + line.len());
        }
        let from = self.skip_scheme(from, self.bytes.len(), false);
        let until = self.word_end(from);
        self.chosen(is_plural, from, until)
    }

    /// True if the quoted value that ends at `until` is complete.
    fn is_end(&self, until: usize) -> bool {
        let after = self.quote(until).map_or(until, |quote| quote.end);
        let next = self.bytes.get(after);
        next.is_none_or(|byte| byte.is_ascii_whitespace() || b",)}]\"'".contains(byte))
    }

    /// The span of a value. `None` for a number with a plural name, because counts are not secret.
    fn chosen(&self, is_plural: bool, from: usize, until: usize) -> Option<(usize, usize)> {
        (!is_plural || !is_number(&self.text[from..until])).then_some((from, until))
    }

    /// The span of a list or an object, including its strings.
    fn bracketed(&mut self, is_plural: bool, from: usize) -> Option<(usize, usize)> {
        if is_plural && from < self.without_strings {
            return None;
        }
        let limit = if self.is_balanced {
            self.bytes.len()
        } else {
            self.line_end(from)
        };
        let (mut depth, mut at, mut has_letters) = (0_usize, from, false);
        while at < limit {
            match self.bytes[at] {
                b'{' | b'[' | b'(' => depth += 1,
                byte if byte.is_ascii_alphabetic() => has_letters |= self.bytes[from] == b'[',
                b'}' | b']' | b')' => {
                    depth -= 1;
                    if depth == 0 {
                        if is_plural && !has_letters {
                            self.without_strings = at;
                            return None;
                        }
                        return Some((from, at + 1));
                    }
                }
                mark @ (b'"' | b'\'') => {
                    let backslashes = self.backslashes_before(at, from);
                    let before = self.bytes[at - backslashes - 1];
                    // An apostrophe is no quote.
                    if mark == b'"' || !before.is_ascii_alphanumeric() {
                        let end = at + 1;
                        at = self.closing(Quote {
                            mark,
                            backslashes,
                            end,
                        });
                        // The key of a member is no value.
                        let colon = self
                            .quote(at)
                            .map(|quote| (self.skip_blanks(quote.end), quote.end));
                        if let Some((sign, after)) = colon {
                            has_letters |= self.bytes.get(sign) != Some(&b':')
                                && !is_number(&self.text[end..at]);
                            at = after;
                        } else {
                            has_letters = true;
                        }
                        continue;
                    }
                }
                _ => {}
            }
            at += 1;
        }
        self.is_balanced = false;
        Some((from, self.line_end(from)))
    }

    /// The beginning of an element's content, if the element's name ends here.
    fn content(&self, end: usize) -> Option<usize> {
        match self.bytes.get(end)? {
            b'>' => Some(end + 1),
            byte if byte.is_ascii_whitespace() => {
                let rest = &self.bytes[end..];
                let rest = &rest[..rest.len().min(MAX_ATTRIBUTES)];
                let close = end + memchr(b'>', rest)?;
                (self.bytes[close - 1] != b'/').then_some(close + 1)
            }
            _ => None,
        }
    }

    /// The beginning of the name that ends at `from`.
    fn name_start(&self, from: usize) -> usize {
        let least = from.saturating_sub(MAX_PREFIX);
        let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        let before = self.bytes[least..from].iter().rev();
        from - before.take_while(is_part).count()
    }

    fn quote(&self, at: usize) -> Option<Quote> {
        let rest = self.bytes.get(at..)?;
        let backslashes = rest.iter().take_while(|byte| **byte == b'\\').count();
        let mark = *rest.get(backslashes)?;
        matches!(mark, b'"' | b'\'').then_some(Quote {
            mark,
            backslashes,
            end: at + backslashes + 1,
        })
    }

    /// The quote that ends at `end`.
    fn quote_before(&self, end: usize) -> Option<Quote> {
        let at = end.checked_sub(1)?;
        Some(Quote {
            mark: self.bytes[at],
            backslashes: self.backslashes_before(at, at.saturating_sub(MAX_PREFIX)),
            end,
        })
    }

    fn backslashes_before(&self, at: usize, least: usize) -> usize {
        let before = self.bytes[least..at].iter().rev();
        before.take_while(|byte| **byte == b'\\').count()
    }

    /// The end of a quoted text: before its closing quote, or at the end of the line.
    fn closing(&self, open: Quote) -> usize {
        // A backslash in the text is written as this many backslashes. A quote in the text has one
        // less before it.
        let doubled = 2 * (open.backslashes + 1);
        let mut backslashes = 0;
        for (at, byte) in (open.end..).zip(&self.bytes[open.end..]) {
            match *byte {
                b'\\' => backslashes += 1,
                b'\n' | b'\r' => return at,
                byte if byte == open.mark && backslashes % doubled <= open.backslashes => {
                    return at - backslashes % doubled;
                }
                _ => backslashes = 0,
            }
        }
        self.bytes.len()
    }

    fn word_end(&self, from: usize) -> usize {
        let ends = |byte: &u8| byte.is_ascii_whitespace() || b"\"',;}".contains(byte);
        let length = self.bytes[from..].iter().position(ends);
        let end = length.map_or(self.bytes.len(), |length| from + length);
        // The backslashes belong to the quote.
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

    /// Skips `:`, `=`, `:=`, `==` or `=>`.
    fn skip_sign(&self, sign: usize) -> usize {
        let is_double = matches!(self.bytes.get(sign + 1), Some(b'=' | b'>'));
        self.skip_blanks(sign + 1 + usize::from(is_double))
    }

    /// Skips the scheme of credentials, if a value follows.
    fn skip_scheme(&self, from: usize, until: usize, is_header: bool) -> usize {
        let text = &self.bytes[from..until];
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
        if is_scheme && from + length < credentials && credentials < until {
            credentials
        } else {
            from
        }
    }
}

/// True if the values of this header have several words.
fn is_header(name: &str) -> bool {
    let ends = |word: &str| {
        let at = name.len().checked_sub(word.len());
        at.is_some_and(|at| name.as_bytes()[at..].eq_ignore_ascii_case(word.as_bytes()))
    };
    ends("authorization") || ends("cookie")
}
