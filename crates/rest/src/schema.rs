//! Shapes of JSON that the operations of the REST API share, in the words of OpenAPI.

use serde_json::{Value, json};

/// What a point in time looks like.
pub const TIME: &str = "RFC 3339, or seconds since 1970";

pub fn text() -> Value {
    json!({"type": "string"})
}

/// One of the words of a closed set.
pub fn one_of(words: impl Iterator<Item = &'static str>) -> Value {
    json!({"type": "string", "enum": words.collect::<Vec<_>>()})
}

pub fn number() -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": u64::MAX})
}

pub fn time() -> Value {
    json!({
        "type": "string",
        "anyOf": [{"format": "date-time"}, {"pattern": "^[0-9]{1,11}([.][0-9]{1,9})?$"}],
    })
}

/// The number of a record, or of a place in a list.
pub fn digits() -> Value {
    json!({"type": "string", "pattern": "^[0-9]{1,18}$"})
}

pub fn boolean() -> Value {
    json!({"type": "boolean"})
}

/// An event's id.
pub fn place() -> Value {
    json!({"type": "string", "pattern": "^[0-9]{17}$"})
}

/// A server's entry in place of the one that has this digest.
pub fn replacing_entry() -> Value {
    let mut entry = entry(&[]);
    entry["properties"]["digest"] = json!({"type": ["string", "null"]});
    entry
}

/// A server's entry, as the file has it; `docs/configuration.md` says what may stand in it.
pub fn entry(required: &[&str]) -> Value {
    let scalars = json!({"type": ["string", "number", "boolean"]});
    let values = json!({"type": "object", "additionalProperties": scalars});
    json!({
        "type": "object",
        "required": required,
        "properties": {
            "name": {"type": "string", "pattern": "^[a-zA-Z0-9_-]+$"},
            "persist": boolean(),
            "replace": boolean(),
        },
        "anyOf": [
            {
                "required": ["command"],
                "properties": {
                    "command": text(),
                    "args": {"type": "array", "items": text()},
                    "env": values,
                },
            },
            {
                "required": ["url"],
                "properties": {
                    "url": {"type": "string", "pattern": "^(https?://.*)?$"},
                    "headers": values,
                },
            },
        ],
        "additionalProperties": true,
    })
}
