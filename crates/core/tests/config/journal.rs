//! `journal`: what is recorded of calls.

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
    let said = journal(
        r#"{"enabled": false, "durability": "strict", "payloads": "digest", "retentionDays": 7,
            "maxBytes": 100000000, "redact": {"keys": ["password"], "patterns": ["ghp_\\w+"]}}"#,
    );
    let expected = Journal {
        enabled: false,
        durability: Durability::Strict,
        payloads: Payloads::Digest,
        retention: Duration::from_hours(7 * 24),
        max_bytes: 100_000_000,
        redact: Redact {
            keys: vec!["password".to_owned()],
            patterns: vec![r"ghp_\w+".to_owned()],
        },
    };
    assert_eq!(said, expected);
}

#[test]
fn a_bad_word_fails_the_file() {
    assert_snapshot!(findings(&text(
        r#"{"enabled": "yes", "durability": "safe", "payloads": true, "retentionDays": 0,
 "maxBytes": 5, "redact": {"keys": [1], "patterns": ["(", "(?=x)", "ok"], "key": []}, "retention": 5}"#
    )), @"");
}
