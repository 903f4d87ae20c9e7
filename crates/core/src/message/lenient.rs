//! Accepts messages of servers that depart from the specification.
//!
//! This module handles only unreadable messages, and responses that match no request. It accepts a
//! deviation only if it has a single possible meaning.

use std::{borrow::Cow, ops::Range};

use super::{JsonObjectEditor, scan::Scanner};
use crate::display::escapes;

/// Maximum length of a number to evaluate, in bytes.
const MAX_NUMBER: usize = 40;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The whole number in an id (JSON text), in any notation: `7`, `"7"`, `7.0` or `7e0`.
pub fn whole_number(id: &str) -> Option<u64> {
    let inner = id
        .strip_prefix('"')
        .and_then(|inner| inner.strip_suffix('"'));
    let number = inner.unwrap_or(id);
    if number.is_empty() || number.len() > MAX_NUMBER {
        return None;
    }
    let (mantissa, exponent) = match number.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i16>().ok()?),
        None => (number, 0),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
        Some(_) => return None,
        None => (mantissa, ""),
    };
    let is_canonical = whole == "0" || !whole.starts_with('0');
    let has_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_canonical || !has_digits(whole) || !has_digits(fraction) {
        return None;
    }
    let digits = format!("{whole}{fraction}");
    // The position of the decimal point among the digits.
    let point = i32::try_from(whole.len()).ok()? + i32::from(exponent);
    let is_zero = |digits: &str| digits.bytes().all(|byte| byte == b'0');
    let Ok(point) = usize::try_from(point) else {
        return is_zero(&digits).then_some(0);
    };
    match digits.get(..point) {
        Some(whole) if is_zero(&digits[point..]) => {
            if whole.is_empty() {
                Some(0)
            } else {
                whole.parse().ok()
            }
        }
        Some(_) => None,
        None if point > MAX_NUMBER => None,
        None => format!("{digits:0<point$}").parse().ok(),
    }
}

/// Number of bytes before a message at the beginning of a line: blanks, carriage returns, byte
/// order marks, NULs, and terminal escape sequences. `None` if the line ends inside one of them.
pub fn margin(line: &[u8]) -> Option<usize> {
    let mut index = 0;
    while let Some(byte) = line.get(index) {
        let rest = &line[index..];
        index += match byte {
            b' ' | b'\t' | b'\r' | 0 => 1,
            0xEF if rest.starts_with(BYTE_ORDER_MARK) => BYTE_ORDER_MARK.len(),
            0xEF if BYTE_ORDER_MARK.starts_with(rest) => return None,
            0x1B => match escapes::length(rest) {
                escapes::Length::Whole(length) => length,
                escapes::Length::Unfinished => return None,
                escapes::Length::None => break,
            },
            _ => break,
        };
    }
    Some(index)
}

/// Like [`margin`], but also skips line breaks.
fn margins(text: &[u8]) -> Option<usize> {
    let mut index = margin(text)?;
    while text.get(index) == Some(&b'\n') {
        index += 1 + margin(&text[index + 1..])?;
    }
    Some(index)
}

/// The range of the message in `text`, without the margins around it.
pub fn bare(text: &[u8]) -> Range<usize> {
    let start = margins(text).unwrap_or_default();
    // A terminal escape sequence contains no closing bracket.
    let last_bracket = memchr::memrchr2(b'}', b']', &text[start..]);
    let Some(end) = last_bracket.map(|last_bracket| start + last_bracket + 1) else {
        return start..text.len();
    };
    match margins(&text[end..]) {
        Some(length) if end + length == text.len() => start..end,
        _ => start..text.len(),
    }
}

/// Rewrites a server's response as JSON-RPC 2.0. Accepts two deviations: both `result` and `error`
/// are present and one is `null`, or `jsonrpc` is missing or names version 1.
pub fn mended_response(text: &str) -> Option<String> {
    const NULL: Option<&str> = Some("null");
    let mut message = JsonObjectEditor::read(text)?;
    let has_id = message.has("id") && !message.has("method");
    let is_mendable = ["id", "result", "error", "jsonrpc"]
        .iter()
        .all(|name| message.count(name) < 2);
    if !has_id || !is_mendable {
        return None;
    }
    match (message.get("result"), message.get("error")) {
        (Some(_), NULL) => drop(message.remove("error")),
        (NULL, Some(_)) => drop(message.remove("result")),
        (Some(_), None) | (None, Some(_)) => {}
        _ => return None,
    }
    match message.get("jsonrpc") {
        Some(r#""2.0""#) => {}
        None | Some(r#""1.0""# | r#""1.1""# | r#""2""# | "2.0" | "2" | "null") => {
            message.set("jsonrpc", r#""2.0""#);
        }
        Some(_) => return None,
    }
    Some(message.to_string())
}

/// The ranges of consecutive JSON values in one text. `None` if there are fewer than two or more
/// than `max_values` values, or if other text separates them.
pub fn values(text: &[u8], max_values: usize) -> Option<Vec<Range<usize>>> {
    let text = std::str::from_utf8(text).ok()?;
    let mut ranges = Vec::new();
    let mut index = 0;
    while index < text.len() {
        index += margins(&text.as_bytes()[index..])?;
        if index == text.len() {
            break;
        }
        if ranges.len() == max_values {
            return None;
        }
        let length = value_length(&text[index..])?;
        ranges.push(index..index + length);
        index += length;
    }
    (ranges.len() > 1).then_some(ranges)
}

/// The length in bytes of the value at the beginning of a text.
pub(super) fn value_length(text: &str) -> Option<usize> {
    let mut scanner = Scanner::new(text);
    scanner.value().ok()?;
    Some(scanner.position())
}

/// An id (JSON text) for display, shortened if it is long.
pub fn shown_id(id: &str) -> Cow<'_, str> {
    const MAX_SHOWN: usize = 40;
    if id.len() <= MAX_SHOWN {
        return id.into();
    }
    super::shortened(id.to_owned(), MAX_SHOWN).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_is_recognised_in_every_spelling() {
        for id in [
            "7", r#""7""#, "7.0", "7e0", "7E+0", "70e-1", "0.7e1", r#""7.0""#, "7.000",
        ] {
            assert_eq!(whole_number(id), Some(7), "{id}");
        }
        for (id, expected) in [
            ("0", Some(0)),
            ("0.0e-5", Some(0)),
            ("1e3", Some(1000)),
            ("1.5e1", Some(15)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("1e39", None),
            ("1e30000", None),
            ("7.5", None),
            ("-7", None),
            ("", None),
            (r#""""#, None),
            (r#""07""#, None),
            (r#"" 7""#, None),
            (r#""7x""#, None),
            ("7.", None),
            (".7", None),
            ("null", None),
            ("true", None),
            (r#""+7""#, None),
            ("0000000000000000000000000000000000000000007", None),
        ] {
            assert_eq!(whole_number(id), expected, "{id}");
        }
    }

    #[test]
    fn a_message_is_found_between_margins() {
        let message = r#"{"a":[1]}"#;
        for (before, after) in [
            ("", ""),
            (" \t", "  "),
            ("\u{feff}", ""),
            ("\u{feff}\u{feff} ", "\0\0"),
            ("\u{1b}[0m", "\u{1b}[0m\r"),
            ("\r\u{1b}[2K\r", "\u{1b}[?25h"),
            ("\u{1b}]0;title\u{7}", "\u{1b}(B"),
            ("\u{1b}]8;;x\u{1b}\\", "\r\n"),
            ("\0", ""),
        ] {
            let text = format!("{before}{message}{after}");
            assert_eq!(&text[bare(text.as_bytes())], message, "{text:?}");
        }
        // Other text around a message is not removed, so that it is reported.
        for text in ["{} x", "{}\u{1b}[0mx", "x {}"] {
            assert_eq!(&text[bare(text.as_bytes())], text);
        }
        assert_eq!(margin(b"\x1b[3"), None);
        assert_eq!(margin(b"\xEF\xBB"), None);
        assert_eq!(margin(b"\xEF\xBC\x80"), Some(0));
    }

    #[test]
    fn messages_on_one_line_are_separated() {
        let read_values = |text: &str| {
            let ranges = values(text.as_bytes(), 10)?;
            Some(
                ranges
                    .into_iter()
                    .map(|range| text[range].to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        let two_values = Some(vec![r#"{"a":"}{"}"#.to_owned(), "{}".to_owned()]);
        assert_eq!(read_values(r#"{"a":"}{"}{}"#), two_values);
        assert_eq!(read_values("{\"a\":\"}{\"} \r\u{1b}[0m{}\r"), two_values);
        for text in ["{}", "{} x", "{}{", "x{}{}", "{}\u{1b}[0"] {
            assert_eq!(read_values(text), None, "{text}");
        }
        assert_eq!(values(b"{}{}{}", 2), None);
    }

    #[test]
    fn responses_of_other_versions_are_rewritten() {
        for (text, expected) in [
            (
                r#"{"jsonrpc":"2.0","id":7,"result":{"a": 1},"error":null}"#,
                Some(r#"{"jsonrpc":"2.0","id":7,"result":{"a": 1}}"#),
            ),
            (
                r#"{"jsonrpc":"2.0","id":7,"result":null,"error":{"code":1}}"#,
                Some(r#"{"jsonrpc":"2.0","id":7,"error":{"code":1}}"#),
            ),
            (
                r#"{"id":7,"result":{}}"#,
                Some(r#"{"id":7,"result":{},"jsonrpc":"2.0"}"#),
            ),
            (
                r#"{"jsonrpc":2.0,"id":7,"result":{}}"#,
                Some(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#),
            ),
            (r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{}}"#, None),
            (r#"{"jsonrpc":"3.0","id":7,"result":{}}"#, None),
            (r#"{"id":7,"method":"ping"}"#, None),
            (r#"{"result":{}}"#, None),
            (r#"{"id":7,"id":8,"result":{}}"#, None),
            (r#"{"a":1}"#, None),
        ] {
            assert_eq!(mended_response(text).as_deref(), expected, "{text}");
        }
    }
}
