//! Tests of `journal`: the settings of recorded calls.

use std::time::Duration;

use insta::assert_snapshot;
use mainstay_core::config::{Durability, Journal, Payloads, Redact};

use crate::world::{findings, read};

fn text(journal: &str) -> String {
    format!("{{\"mcpServers\": {{}}, \"journal\":\n{journal}}}")
}

fn journal(written: &str) -> Journal {
    assert_eq!(findings(&text(written)), "", "{written}");
    read("c.json", &text(written)).unwrap().config.journal
}

#[test]
fn what_is_not_said_is_recorded_in_full_for_a_month() {
    let silent = read("c.json", r#"{"mcpServers": {}}"#).unwrap().config;
    assert_eq!(silent.journal, Journal::default());
    assert_eq!(journal("{}"), Journal::default());
    assert!(journal("{}").enabled);
    assert_eq!(journal("{}").retention, Duration::from_hours(30 * 24));
}

#[test]
fn all_of_it_can_be_said() {
    let found = journal(
        r#"{"enabled": false, "durability": "strict", "payloads": "digest", "retentionDays": 7,
            "maxBytes": 100000000, "redact": {"defaults": false, "keys": ["password"], "patterns": ["ghp_\\w+"]}}"#,
    );
    let expected = Journal {
        enabled: false,
        durability: Durability::Strict,
        payloads: Payloads::Digest,
        retention: Duration::from_hours(7 * 24),
        max_bytes: 100_000_000,
        redact: Redact {
            defaults: false,
            keys: vec!["password".to_owned()],
            patterns: vec![r"ghp_\w+".to_owned()],
        },
    };
    assert_eq!(found, expected);
}

#[test]
fn a_bad_word_fails_the_file() {
    assert_snapshot!(findings(&text(
        r#"{"enabled": "yes", "durability": "safe", "payloads": true, "retentionDays": 0,
 "maxBytes": 5, "redact": {"keys": [1], "patterns": ["(", "(?=x)", "ok"]}}"#
    )), @r#"
    error config.json:2:13: journal.enabled: expected true or false, found a string
    error config.json:2:34: journal.durability: expected "relaxed" or "strict", found "safe"
    error config.json:2:54: journal.payloads: expected "full", "digest" or "off", found a boolean
    error config.json:2:77: journal.retentionDays: expected a whole number from 1 to 36500
    error config.json:3:14: journal.maxBytes: expected a whole number of at least 16777216
    error config.json:3:37: journal.redact.keys[0]: expected a string, found a number
    error config.json:3:54: journal.redact.patterns[0]: not a regular expression (the syntax is that of Rust's regex crate: no look-around, no back-references)
    error config.json:3:59: journal.redact.patterns[1]: not a regular expression (the syntax is that of Rust's regex crate: no look-around, no back-references)
    "#);
}

#[test]
fn a_pattern_that_is_too_large_is_refused() {
    assert_snapshot!(
        findings(&text(r#"{"redact": {"patterns": ["(a{1000}){1000}"]}}"#)),
        @"error config.json:2:26: journal.redact.patterns[0]: a regular expression of more than 1048576 bytes, compiled: repeat less in it"
    );
}
