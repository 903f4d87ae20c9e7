//! JSON schemas that several operations use, in the form of OpenAPI 3.1.

use serde_json::{Value, json};

/// The description of a time parameter.
pub const TIME: &str = "RFC 3339, or seconds since 1970";

pub fn text() -> Value {
    json!({"type": "string"})
}

/// The schema of one word of a closed set.
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

/// The schema of a record's id, or of a position in a list.
pub fn digits() -> Value {
    json!({"type": "string", "pattern": "^[0-9]{1,18}$"})
}

pub fn boolean() -> Value {
    json!({"type": "boolean"})
}

/// The schema of an event's id.
pub fn place() -> Value {
    json!({"type": "string", "pattern": "^[0-9]{17}$"})
}

/// The schema of a server's entry, with the digest of the entry that it replaces.
pub fn replacing_entry() -> Value {
    let mut entry = entry(&[]);
    entry["properties"]["digest"] = json!({"type": ["string", "null"]});
    entry
}

/// The schema of a server's entry. `docs/configuration.md` describes its members.
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
