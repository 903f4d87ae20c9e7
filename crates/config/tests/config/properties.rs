//! Property tests with arbitrary texts.

use std::path::Path;

use mainstay_config::{ConfigSource, Syntax, parse};
use proptest::prelude::*;
use serde_json::{Map, Value};

use crate::world::ConfigWorld;

fn parse_both(text: &str) {
    for syntax in [Syntax::Json, Syntax::Jsonc] {
        let source = ConfigSource {
            syntax,
            path: Path::new("/etc/mainstay/config.json"),
            is_of_clients: false,
        };
        if let Err(errors) = parse(text, &source, &ConfigWorld::usual()) {
            assert!(!errors.0.is_empty());
            assert!(
                errors.0.iter().all(|error| error.position.is_some()),
                "{errors}"
            );
        }
    }
}

/// Any value, with strings that look like those of a configuration.
fn value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        ".{0,12}",
        "[$]{0,2}[{](env:|file:|input:|keyring:)?[A-Z]{0,3}(:-)?[}]?",
        "https?://[a-z@:\\[\\]]{0,6}",
        Just("stdio".to_owned()),
        Just("sse".to_owned()),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            object(inner),
        ]
    })
}

fn object(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let key = prop_oneof![4 => prop::sample::select(KEYS).prop_map(str::to_owned), 1 => ".{0,8}"];
    prop::collection::vec((key, value), 0..8)
        .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>()))
}

const KEYS: &[&str] = &[
    "alerts",
    "args",
    "autoReconnect",
    "auto_reconnect",
    "bearerToken",
    "command",
    "cwd",
    "disabled",
    "enabled",
    "env",
    "headers",
    "health",
    "healthCheckIntervalMs",
    "healthCheckUrl",
    "http",
    "inheritEnv",
    "inputParams",
    "inputs",
    "intervalMs",
    "maxAttempts",
    "maxDelayMs",
    "maxRetries",
    "maxTimeoutMs",
    "mcpServers",
    "name",
    "preset",
    "reconnect",
    "restart",
    "roots",
    "serverType",
    "servers",
    "startup",
    "timeout",
    "timeout_s",
    "transport",
    "type",
    "url",
    "webhook",
];

proptest! {
    #[test]
    fn any_text_is_survived(text in "\\PC*") {
        parse_both(&text);
    }

    #[test]
    fn any_text_of_jsons_characters_is_survived(text in "[\\[\\]{}:,\"'\\\\/*a0-9.eE+\n\r\t \u{e9}-]{0,64}") {
        parse_both(&text);
    }

    #[test]
    fn any_json_is_survived(value in value()) {
        parse_both(&value.to_string());
    }

    #[test]
    fn any_entry_is_survived(entry in object(value()), name in ".{0,8}") {
        let servers: Map<_, _> = [(name, entry)].into_iter().collect();
        parse_both(&serde_json::json!({ "mcpServers": servers }).to_string());
    }

    #[test]
    fn a_secret_is_never_shown(secret in "s3cret[a-z0-9]{8}", place in 0..6_usize) {
        let entry = match place {
            0 => serde_json::json!({"command": "x", "env": {"KEY": secret}}),
            1 => serde_json::json!({"url": "http://h", "headers": {"x-key": secret}}),
            2 => serde_json::json!({"url": "http://h", "bearerToken": secret}),
            3 => serde_json::json!({"url": format!("http://h/?key={secret}")}),
            4 => serde_json::json!({"command": "x", "args": [secret]}),
            _ => serde_json::json!({"command": "x", "env": {"KEY": secret}, "args": ["${KEY}", "${NOPE}"]}),
        };
        let text = serde_json::json!({"mcpServers": {"s": entry}}).to_string();
        let parsed = parse(&text, &ConfigSource::file(Path::new("c.json")), &ConfigWorld::default()).unwrap();
        let debug = format!("{parsed:?}");
        prop_assert!(!debug.contains(&*secret));
    }
}
