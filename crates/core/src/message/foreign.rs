//! Reads JSON from clients and servers, even if Rust's types cannot hold all of its values.
//!
//! Valid JSON may contain strings with half of a surrogate pair (`"\ud800"`), numbers beyond a
//! double (`1e400`), and more levels than a recursive parser accepts. On the wire, messages keep
//! their bytes. For display, U+FFFD replaces half a surrogate pair, and the rest stays readable.

use std::borrow::Cow;

use serde::{Serialize, Serializer, de::DeserializeOwned, ser::Error as _};
use serde_json::{Value, value::RawValue};

use super::{
    lenient::value_length,
    surrogates::{self, HALF_LENGTH, REPLACEMENT},
};

/// Maximum depth that is read. Deeper values are replaced. `serde_json` stops at 128 levels.
const MAX_LEVELS: usize = 100;

/// The replacement of a value that is too deep (JSON text).
const DEEP_VALUE: &str = r#""…""#;

/// Number of significant digits that a double always keeps.
const EXACT_DIGITS: usize = 15;

/// The prefix of a number that is stored as a string, so that no digit is lost. It begins with a
/// private-use character.
const NUMBER_MARK: &str = "\u{F8FF}#";

/// The treatment of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbers {
    /// Convert numbers beyond a double to strings.
    AsRead,
    /// Convert numbers that would lose a digit to marked strings.
    Exact,
}

/// Deserializes JSON. Values that Rust's types cannot hold are replaced.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    let error = match serde_json::from_str(text) {
        Ok(typed_value) => return Ok(typed_value),
        Err(error) => error,
    };
    let mended = mend(text, Numbers::AsRead);
    if let Ok(typed_value) = serde_json::from_str(&mended) {
        return Ok(typed_value);
    }
    // `Value` accepts a member that occurs twice. A struct does not.
    let value: Result<Value, _> = serde_json::from_str(&mended);
    let typed_value = value
        .ok()
        .and_then(|value| serde_json::from_value(value).ok());
    typed_value.ok_or(error)
}

/// Reads JSON as a value that keeps every digit. [`Exact`] writes its numbers.
pub fn exact(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(&mend(text, Numbers::Exact))
}

/// Serializes a value from [`exact`] with every digit of its numbers.
#[derive(Clone, Copy, Debug)]
pub struct Exact<'v>(pub &'v Value);

impl Exact<'_> {
    /// The string. `None` if the value is another type, or a number that is stored as a string.
    pub fn as_str(&self) -> Option<&str> {
        let text = self.0.as_str()?;
        number(text).is_none().then_some(text)
    }
}

impl Serialize for Exact<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::String(text) => match number(text) {
                Some(number) => RawValue::from_string(number.to_owned())
                    .map_err(S::Error::custom)?
                    .serialize(serializer),
                None => serializer.serialize_str(text),
            },
            Value::Array(items) => serializer.collect_seq(items.iter().map(Exact)),
            Value::Object(members) => {
                serializer.collect_map(members.iter().map(|(name, value)| (name, Exact(value))))
            }
            value => value.serialize(serializer),
        }
    }
}

/// The number in a marked string, or `None`.
fn number(text: &str) -> Option<&str> {
    text.strip_prefix(NUMBER_MARK)
        .filter(|number| is_number(number))
}

/// Formats JSON with line breaks and indents. Returns any other text unchanged.
pub fn pretty(text: &str) -> Cow<'_, str> {
    let value = exact(text);
    let pretty = value.and_then(|value| serde_json::to_string_pretty(&Exact(&value)));
    pretty.map_or_else(|_| text.into(), Cow::Owned)
}

/// Replaces the parts of a JSON text that Rust's types cannot hold. Invalid JSON stays invalid.
fn mend(text: &str, numbers: Numbers) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut edits: Vec<(usize, usize, Cow<'_, str>)> = Vec::new();
    let (mut index, mut depth) = (0, 0);
    while let Some(byte) = bytes.get(index) {
        match byte {
            b'"' => {
                index = surrogates::halves(bytes, index, |half| {
                    edits.push((half, half + HALF_LENGTH, REPLACEMENT.into()));
                });
            }
            b'{' | b'[' if depth == MAX_LEVELS => match value_length(&text[index..]) {
                Some(length) => {
                    edits.push((index, index + length, DEEP_VALUE.into()));
                    index += length;
                }
                None => return text.into(),
            },
            b'{' | b'[' => {
                depth += 1;
                index += 1;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                index += 1;
            }
            b'-' | b'0'..=b'9' => {
                let is_part =
                    |byte: &u8| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
                let length = bytes[index..]
                    .iter()
                    .take_while(|byte| is_part(byte))
                    .count();
                let number = &text[index..index + length];
                match numbers {
                    Numbers::AsRead if is_infinite(number) => {
                        edits.push((index, index + length, format!("\"{number}\"").into()));
                    }
                    Numbers::Exact if is_number(number) && !is_exact(number) => {
                        edits.push((
                            index,
                            index + length,
                            format!("\"{NUMBER_MARK}{number}\"").into(),
                        ));
                    }
                    Numbers::AsRead | Numbers::Exact => {}
                }
                index += length;
            }
            _ => index += 1,
        }
    }
    if edits.is_empty() {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for (start, end, replacement) in edits {
        out.push_str(&text[from..start]);
        out.push_str(&replacement);
        from = end;
    }
    out.push_str(&text[from..]);
    out.into()
}

/// True if a double cannot hold the number.
fn is_infinite(number: &str) -> bool {
    number.parse().is_ok_and(f64::is_infinite)
}

fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c == '-' || c.is_ascii_digit())
        && value_length(text) == Some(text.len())
}

/// True if a number keeps its value when `serde_json` reads it.
fn is_exact(number: &str) -> bool {
    if number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok() {
        return true;
    }
    let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
    let digits = mantissa.bytes().filter(u8::is_ascii_digit);
    let significant_digits = digits.skip_while(|digit| *digit == b'0').count();
    let value = number.parse::<f64>().unwrap_or_default();
    let is_in_range = value.is_normal() || significant_digits == 0;
    significant_digits <= EXACT_DIGITS && is_in_range
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::message::{shown_member, shown_text};

    #[test]
    fn half_a_surrogate_pair_does_not_affect_other_members() {
        for (text, expected) in [
            (r#""\ud800""#, "\u{fffd}"),
            (r#""a\udc00b\uD83D\uDE00c\ud83d""#, "a\u{fffd}b😀c\u{fffd}"),
            (r#""\ud800\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""\\ud800""#, "\\ud800"),
            (r#""é\u0041""#, "éA"),
        ] {
            assert_eq!(shown_text(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["7", r#""\ud80""#, r#""x"#, "", r#""\u+800""#] {
            assert_eq!(shown_text(text), None, "{text}");
        }
        let object = r#"{"\udfff":1,"a":"\ud800","b":"well"}"#;
        assert_eq!(shown_member(object, "b").as_deref(), Some("well"));
        let value: Value = read(object).expect("JSON");
        assert_eq!(value, json!({"\u{fffd}": 1, "a": "\u{fffd}", "b": "well"}));
    }

    #[test]
    fn a_huge_number_does_not_affect_other_members() {
        let text = r#"{"big":1e400,"small":-1e400,"id":7,"name":"x"}"#;
        let value: Value = read(text).expect("JSON");
        let expected = json!({"big": "1e400", "small": "-1e400", "id": 7, "name": "x"});
        assert_eq!(value, expected);
    }

    #[test]
    fn all_digits_are_retained() {
        for text in [
            "[1,18446744073709551615,-9223372036854775808,0.5,100,-7]",
            "[12345678901234567890123,0.1234567890123456789,1e400,-1e-400,1E+309]",
            r#"{"a":123456789012345678901234567890,"b":"\u{F8FF}#x"}"#,
        ] {
            let text = text.replace("\\u{F8FF}", "\u{F8FF}");
            let value = exact(&text).expect("JSON");
            let rewritten = serde_json::to_string(&Exact(&value)).expect("JSON");
            assert_eq!(rewritten, text);
        }
        assert_eq!(pretty("[1e400]"), "[\n  1e400\n]");
        assert_eq!(pretty("[1e400"), "[1e400");
    }

    #[test]
    fn values_that_are_too_deep_are_left_out() {
        let deep_json = format!(r#"{{"a":1,"b":{}{}}}"#, "[".repeat(500), "]".repeat(500));
        let value: Value = read(&deep_json).expect("JSON");
        assert_eq!(value["a"], 1);
        assert!(exact(&deep_json).is_ok());
        let brackets = "[".repeat(500);
        assert!(read::<Value>(&brackets).is_err());
    }

    /// A duplicate member or a value beyond Rust's types does not prevent reading.
    #[test]
    fn types_are_read() {
        #[derive(Debug, serde::Deserialize, PartialEq)]
        struct Text {
            text: String,
        }
        for text in [
            r#"{"text":"a","text":"\ud800"}"#,
            r#"{"x":1e400,"text":"\ud800"}"#,
        ] {
            let text: Text = read(text).expect("JSON");
            assert_eq!(text.text, "\u{fffd}");
        }
        assert!(read::<Text>("{}").is_err());
    }

    proptest! {
        /// No text causes a panic. A text that `serde_json` accepts gives the same value.
        #[test]
        fn texts_of_all_kinds_are_read(text in r#"[\[\]{}",:0-2eE+.\-\\uDdCc8é \n]{0,24}"#) {
            let _ = (exact(&text), pretty(&text), shown_text(&text));
            if let Ok(value) = serde_json::from_str::<Value>(&text) {
                prop_assert_eq!(read::<Value>(&text).ok(), Some(value));
            }
        }
    }
}
