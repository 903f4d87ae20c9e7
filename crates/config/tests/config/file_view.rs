//! Tests of the view of a configuration as Mainstay understands it.

use std::path::Path;

use insta::assert_snapshot;
use mainstay_config::{
    ConfigSource, Defaults, References, Syntax, edit::Document, file_view, parse, parse_as,
};
use mainstay_core::config::Config;
use serde_json::Value;

use crate::world::ConfigWorld;

const PATH: &str = "/etc/mainstay/config.jsonc";

fn config_of(text: &str) -> Config {
    let source = ConfigSource::file(Path::new(PATH));
    let parsed = parse_as(text, &source, &ConfigWorld::default(), References::Kept);
    let mut config = parsed.unwrap().config;
    // The view states the default.
    for server in &mut config.servers {
        server.health_interval_stated = false;
    }
    config
}

fn show(text: &str, defaults: Defaults) -> Value {
    let document = Document::read(text, Syntax::Jsonc).unwrap();
    file_view(&config_of(text), &document, defaults)
}

const RICH: &str = r#"{
  // kept out of what is shown
  "$schema": "./mainstay.schema.json",
  "mcpServers": {
    "files": {"command": "npx", "args": ["-y", "server-files", "${HOME}/docs"], "env": {"KEY": "${KEY}", "OFF": null}, "cwd": "work", "timeout": 30000},
    "web": {"serverUrl": "https://example.com/mcp", "type": "streamable-http", "headers": {"X-Key": "${TOKEN}"}, "disabled": true, "isolation": "session",
            "proxy": "${env:P}", "caFile": "ca.pem", "clientCert": "/c.pem", "clientKey": "k.pem"},
    "old": {"url": "http://127.0.0.1:9/sse", "type": "sse", "allowedTools": ["b", "a"], "health": "off", "protocol": "legacy"},
    "desk": {"command": "x", "preset": "desktop", "restart": {"maxAttempts": 3}},
    "many": {"command": "x", "envFile": "keys.env", "inputParams": {"who": "${env:USER}"}, "roots": ["file:///a", {"uri": "file:///b", "name": "b"}],
             "result": {"maxInlineBytes": 65536}, "serverRequests": "queue", "autoStart": false, "maxRetries": 4, "healthCheckIntervalMs": 1500.5}
  },
  "inputs": [{"id": "who", "default": "${USER}"}],
  "preset": "persistent",
  "naming": "slash",
  "pageSize": 10,
  "startup": {"waitMs": 0, "maxConcurrent": 2},
  "http": {"allowedHosts": ["gateway.lan"], "requireToken": true, "bodyTimeoutMs": 1000},
  "alerts": [{"on": ["recovered"], "servers": ["w*"], "webhook": {"url": "${HOOK}"}}, {"command": ["notify", "down"], "flapping": {"losses": 5}}],
  "journal": {"durability": "strict", "retentionDays": 90, "redact": {"keys": ["pin"]}},
  "telemetry": {"endpoint": "http://127.0.0.1:4318", "sampleRatio": 0.1},
  "ownTools": ["meta"],
  "profiles": {"review": {"servers": ["files"], "tools": {"deny": ["files/rm"]}, "rename": {"files/ls": "dir"}, "descriptions": {"files/ls": "lists"}},
               "search": {"expose": "meta", "ownTools": []}, "all": {}, "meta": {"ownTools": ["records"]}}
}"#;

#[test]
fn what_is_shown_means_the_same() {
    for text in [
        RICH,
        r#"{"mcpServers": {}}"#,
        r#"{"servers": [{"name": "a", "command": "x"}, {"name": "b", "url": "http://h", "preset": "desktop"}]}"#,
        r#"{"mcp": {"excluded": ["a"]}, "mcpServers": {"a": {"command": "x", "tools": ["*"]}}, "health": false, "reconnect": {"mode": "manual", "jitter": 0.3}}"#,
    ] {
        for defaults in [Defaults::LeftOut, Defaults::Shown] {
            let view = show(text, defaults).to_string();
            assert_eq!(config_of(&view), config_of(text), "{view}");
            let source = ConfigSource::file(Path::new(PATH));
            let findings = parse_as(&view, &source, &ConfigWorld::default(), References::Kept);
            assert_eq!(findings.unwrap().warnings, [], "{view}");
        }
    }
}

#[test]
fn defaults_are_left_out_unless_they_are_asked_for() {
    assert_snapshot!(format!("{:#}", show(RICH, Defaults::LeftOut)));
    let text = r#"{"mcpServers": {"a": {"command": "x"}}}"#;
    assert_snapshot!(format!("{:#}", show(text, Defaults::Shown)));
}

#[test]
fn secrets_are_not_shown_and_bad_entries_say_what_is_wrong() {
    let text = r#"{"mcpServers": {
        "files": {"command": "x", "args": ["--api-key", "s3cret-a"], "env": {"KEY": "s3cret-b"}},
        "web": {"url": "https://h/mcp?key=s3cret-c", "bearerToken": "s3cret-d"},
        "params": {"command": "x", "inputParams": {"key": "s3cret-e"}},
        "broken": {"args": ["--token=s3cret-f"], "env": {"KEY": "s3cret-g"}}},
        "alerts": [{"webhook": {"url": "https://hooks/s3cret-h"}}],
        "telemetry": {"endpoint": "http://h", "headers": {"authorization": "s3cret-i"}}}"#;
    assert!(
        parse(
            text,
            &ConfigSource::file(Path::new(PATH)),
            &ConfigWorld::default()
        )
        .is_ok()
    );
    for defaults in [Defaults::LeftOut, Defaults::Shown] {
        let view = format!("{:#}", show(text, defaults));
        assert!(!view.contains("s3cret"), "{view}");
    }
    assert_snapshot!(format!("{:#}", show(text, Defaults::LeftOut)));
}
