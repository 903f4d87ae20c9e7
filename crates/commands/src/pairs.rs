//! Arguments in the form `key=value`.

use mainstay_api::Raw;
use mainstay_command_line::CommandError;
use mainstay_core::message;
use serde_json::{Value, value::RawValue};

/// A key and a value, as a person typed them.
pub type Pair<'a> = (&'a str, &'a str);

pub fn split(pairs: &[String]) -> Result<Vec<Pair<'_>>, CommandError> {
    let mut found: Vec<Pair<'_>> = Vec::with_capacity(pairs.len());
    for pair in pairs {
        let usage = |message: String| CommandError::Usage {
            message,
            hint: Some("arguments are KEY=VALUE, or all of them as --args JSON".to_owned()),
        };
        let (key, value) = pair
            .split_once('=')
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| usage(format!("{pair:?} is no KEY=VALUE")))?;
        if found.iter().any(|(other, _)| *other == key) {
            return Err(usage(format!("{key:?} is given twice")));
        }
        found.push((key, value));
    }
    Ok(found)
}

/// Converts the pairs to an object of strings, as prompts require.
pub fn strings(pairs: &[Pair<'_>]) -> Raw {
    object(
        pairs
            .iter()
            .map(|(key, value)| (*key, message::quote(value))),
    )
}

/// Converts the pairs to an object. A value becomes JSON if the schema has its JSON type for the key,
/// and otherwise a string.
pub fn typed(pairs: &[Pair<'_>], schema: Option<&str>) -> Raw {
    let schema: Value = schema
        .and_then(|schema| message::foreign::read(schema).ok())
        .unwrap_or_default();
    object(pairs.iter().map(|(key, value)| {
        let json = serde_json::from_str::<Value>(value).ok();
        let is_json = json.is_some_and(|json| accepts(&schema["properties"][key], &json));
        (
            *key,
            if is_json {
                value.trim().to_owned()
            } else {
                message::quote(value)
            },
        )
    }))
}

/// Makes an object from the texts of JSON values. Numbers keep their digits this way.
fn object<'a>(members: impl Iterator<Item = (&'a str, String)>) -> Raw {
    let members: Vec<String> = members
        .map(|(key, value)| format!("{}:{value}", message::quote(key)))
        .collect();
    RawValue::from_string(format!("{{{}}}", members.join(","))).expect("it is made of valid JSON")
}

/// True if a property of this schema accepts the type of this value. A string in quotes is not accepted
/// as JSON, because strings need no quotes on a command line. Without a schema any value is accepted.
fn accepts(property: &Value, json: &Value) -> bool {
    let types = types(property);
    if types.is_empty() {
        return true;
    }
    types.iter().any(|kind| match *kind {
        "integer" => {
            json.is_i64()
                || json.is_u64()
                || json.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        "number" => json.is_number(),
        "boolean" => json.is_boolean(),
        "null" => json.is_null(),
        "array" => json.is_array(),
        "object" => json.is_object(),
        _ => false,
    })
}

/// The types in a schema. Empty if the schema does not limit the type.
pub fn types(schema: &Value) -> Vec<&str> {
    let type_of = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    match &schema["type"] {
        Value::String(kind) => return vec![kind],
        Value::Array(kinds) => return kinds.iter().filter_map(Value::as_str).collect(),
        _ => {}
    }
    if let Some(constant) = schema.get("const") {
        return vec![type_of(constant)];
    }
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(type_of).collect();
    }
    let Some(choices) = schema["anyOf"]
        .as_array()
        .or_else(|| schema["oneOf"].as_array())
    else {
        return Vec::new();
    };
    let each: Vec<_> = choices.iter().map(types).collect();
    // A choice without a type allows every type.
    if each.iter().any(Vec::is_empty) {
        Vec::new()
    } else {
        each.concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_get_the_type_that_the_schema_has() {
        let schema = r#"{"type": "object", "properties": {
            "text": {"type": "string"},
            "count": {"type": "integer"},
            "ratio": {"type": "number"},
            "flag": {"type": "boolean"},
            "list": {"type": "array"},
            "maybe": {"type": ["string", "null"]},
            "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "mode": {"enum": ["1", "2"]},
            "free": {}
        }}"#;
        for (pair, expected) in [
            ("text=5", r#"{"text":"5"}"#),
            ("text=true", r#"{"text":"true"}"#),
            ("text=\"quoted\"", r#"{"text":"\"quoted\""}"#),
            ("text=a=b", r#"{"text":"a=b"}"#),
            ("text=", r#"{"text":""}"#),
            ("text=Grüße 🦀", r#"{"text":"Grüße 🦀"}"#),
            ("count=5", r#"{"count":5}"#),
            (
                "count=12345678901234567890123",
                r#"{"count":12345678901234567890123}"#,
            ),
            ("count=5.5", r#"{"count":"5.5"}"#),
            ("count=five", r#"{"count":"five"}"#),
            ("ratio=1e3", r#"{"ratio":1e3}"#),
            ("flag=true", r#"{"flag":true}"#),
            ("flag=1", r#"{"flag":"1"}"#),
            ("list=[1, 2]", r#"{"list":[1, 2]}"#),
            ("maybe=null", r#"{"maybe":null}"#),
            ("maybe=7", r#"{"maybe":"7"}"#),
            ("either=7", r#"{"either":7}"#),
            ("either=x", r#"{"either":"x"}"#),
            ("mode=1", r#"{"mode":"1"}"#),
            ("free={\"a\":1}", r#"{"free":{"a":1}}"#),
            ("unknown=1.0", r#"{"unknown":1.0}"#),
            ("unknown=word", r#"{"unknown":"word"}"#),
        ] {
            let pairs = [pair.to_owned()];
            let split = split(&pairs).expect("a pair");
            assert_eq!(typed(&split, Some(schema)).get(), expected, "{pair}");
        }
    }

    #[test]
    fn without_a_schema_json_is_json() {
        let pairs = ["a=1".to_owned(), "b=x".to_owned()];
        assert_eq!(
            typed(&split(&pairs).expect("pairs"), None).get(),
            r#"{"a":1,"b":"x"}"#
        );
        assert_eq!(
            strings(&split(&pairs).expect("pairs")).get(),
            r#"{"a":"1","b":"x"}"#
        );
    }

    #[test]
    fn what_is_no_pair_is_refused() {
        for pairs in [&["text"][..], &["=x"], &["a=1", "a=2"]] {
            let pairs: Vec<String> = pairs.iter().map(ToString::to_string).collect();
            split(&pairs).expect_err("refused");
        }
    }
}
