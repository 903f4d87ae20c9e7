//! `journal`: what is recorded of calls, how surely, and how long it is kept.
//!
//! ```json
//! {"durability": "strict", "payloads": "digest", "retentionDays": 90, "redact": {"keys": ["password"]}}
//! ```

use std::time::Duration;

use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::{
    node::Node,
    report::Report,
    settings::{SettingValue, words},
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const RETENTION_DAYS: u32 = 30;
/// A year of one client, or a day at a few hundred calls per second.
const MAX_BYTES: u64 = 2 * 1024 * 1024 * 1024;
/// Below this the database's own pages would push out every record.
pub(super) const LEAST_BYTES: u32 = 16 * 1024 * 1024;
/// Bytes of a pattern of `redact`, compiled.
const MAX_PATTERN: usize = 1 << 20;
/// No log of calls is kept for longer than a century.
pub(super) const MOST_DAYS: u32 = 36_500;

/// How calls are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    /// `enabled` (default true).
    pub enabled: bool,
    pub durability: Durability,
    pub payloads: Payloads,
    /// What is older goes (`retentionDays`, default 30).
    pub retention: Duration,
    /// Beyond this the oldest go (`maxBytes`, default 2 GiB), objects in files included.
    pub max_bytes: u64,
    pub redact: Redact,
}

impl Default for Journal {
    fn default() -> Self {
        Self {
            enabled: true,
            durability: Durability::default(),
            payloads: Payloads::default(),
            retention: RETENTION_DAYS * DAY,
            max_bytes: MAX_BYTES,
            redact: Redact::default(),
        }
    }
}

/// What a call waits for (`durability`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// Nothing: records are written behind it, and under a flood dropped and counted.
    #[default]
    Relaxed,
    /// That it is on record is on the disk before it is sent, and how it ended before it is answered.
    Strict,
}

/// What is kept of arguments and results (`payloads`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Payloads {
    /// Their bytes.
    #[default]
    Full,
    /// Their content identifiers only: content can be compared with a known one, and not be read.
    Digest,
    /// Their sizes alone.
    Off,
}

/// What is taken out of arguments and results before they are hashed or stored (`redact`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redact {
    /// `defaults` (default true): values whose names say that they are secret, and texts that look it
    /// (see [`crate::redact`]).
    pub defaults: bool,
    /// Names of members whose values go, wherever they stand and however they are capitalised.
    pub keys: Vec<String>,
    /// Regular expressions, each checked; what they match in strings goes.
    pub patterns: Vec<String>,
}

impl Default for Redact {
    fn default() -> Self {
        Self {
            defaults: true,
            keys: Vec::new(),
            patterns: Vec::new(),
        }
    }
}

words!(Durability { "relaxed" => Relaxed, "strict" => Strict });
words!(Payloads { "full" => Full, "digest" => Digest, "off" => Off });

pub(super) fn days(node: &Node<'_>, report: &mut Report<'_>) -> Option<Duration> {
    u32::read(node, report).map(|days| days * DAY)
}

pub(super) fn shown_days(retention: &Duration) -> Value {
    (retention.as_secs() / DAY.as_secs()).into()
}

/// A pattern of `redact`.
pub fn redact_pattern(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).size_limit(MAX_PATTERN).build()
}

/// A pattern that hides nothing would be noticed too late, so a bad one fails the file.
#[expect(clippy::unnecessary_wraps, reason = "readers of rows may read nothing")]
pub(super) fn patterns(node: &Node<'_>, report: &mut Report<'_>) -> Option<Vec<String>> {
    let mut patterns = Vec::new();
    for node in node.array(report) {
        let Some(pattern) = node.string(report) else {
            continue;
        };
        match redact_pattern(pattern) {
            Ok(_) => patterns.push(pattern.to_owned()),
            Err(regex::Error::CompiledTooBig(most)) => report.error(
                &node.place,
                format!(
                    "a regular expression of more than {most} bytes, compiled: repeat less in it"
                ),
            ),
            Err(_) => report.error_with_hint(
                &node.place,
                "not a regular expression",
                "the syntax is that of Rust's regex crate: no look-around, no back-references",
            ),
        }
    }
    Some(patterns)
}
