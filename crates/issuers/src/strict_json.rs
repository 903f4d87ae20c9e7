//! Reads JSON whose members must be unambiguous: an object with a member twice is refused, at any depth. Two readers
//! of such an object may see different values (RFC 7519, 4; RFC 8725, 2.8).

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Number, Value};

/// Bytes that are not a JSON object with unique members. Has the place and the reason, and none of the bytes' values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotAnObject(String);

/// Reads an object. Objects and arrays are nested 127 levels at most, which is the limit of `serde_json`.
pub fn read_object(bytes: &[u8]) -> Result<Map<String, Value>, NotAnObject> {
    match serde_json::from_slice(bytes) {
        Ok(StrictValue(Value::Object(members))) => Ok(members),
        Ok(_) => Err(NotAnObject("it is no object".to_owned())),
        Err(error) => {
            // The text of the error may quote a value.
            let reason = match error.classify() {
                serde_json::error::Category::Data => "it has a member twice",
                serde_json::error::Category::Eof => "it is cut off",
                serde_json::error::Category::Syntax | serde_json::error::Category::Io => {
                    "it is no JSON"
                }
            };
            let (line, column) = (error.line(), error.column());
            Err(NotAnObject(format!(
                "{reason} (line {line}, column {column})"
            )))
        }
    }
}

/// True for the text of an object. A derived reader of a structure takes an array for it, too.
pub fn begins_object(json: &[u8]) -> bool {
    json.trim_ascii_start().starts_with(b"{")
}

struct StrictValue(Value);

impl<'de> Deserialize<'de> for StrictValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Strict.deserialize(deserializer).map(Self)
    }
}

/// Builds a value, and refuses members that come twice.
#[derive(Clone, Copy)]
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = seq.next_element_seed(self)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = map.next_value_seed(self)?;
            if members.insert(name, value).is_some() {
                return Err(A::Error::custom("a member twice"));
            }
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_with_a_member_twice_is_refused() {
        for (text, reason) in [
            (r#"{"a":1,"a":1}"#, "it has a member twice"),
            (r#"{"a":1,"\u0061":2}"#, "it has a member twice"),
            (r#"{"x":[{"a":{"b":1,"b":2}}]}"#, "it has a member twice"),
            (r#"{"a":1"#, "it is cut off"),
            (r#"{"a":1}}"#, "it is no JSON"),
            (r#"{"a":1e400}"#, "it is no JSON"),
            ("[]", "it is no object"),
            ("\"secret\"", "it is no object"),
            ("\u{feff}{}", "it is no JSON"),
        ] {
            let error = read_object(text.as_bytes()).expect_err(text).to_string();
            assert!(error.starts_with(reason), "{text}: {error}");
        }
        let nested = format!("{{\"a\":{}{}}}", "[".repeat(2000), "]".repeat(2000));
        read_object(nested.as_bytes()).expect_err("too deep");
        read_object(b"{\"a\":\"\xff\"}").expect_err("not UTF-8");
    }

    #[test]
    fn an_object_is_read_like_any_other_json() {
        let text = r#"{"a":[1,-2,1.5,true,null,"x\n"],"b":{"c":{}}}"#;
        let members = read_object(text.as_bytes()).expect("an object");
        let expected: Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(Value::Object(members), expected);
    }
}
