//! What is recorded of calls, how surely, and how long it is kept.

use std::time::Duration;

use regex::{Regex, RegexBuilder};

use crate::words::words;

const RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// A year of one client, or a day at a few hundred calls per second.
const MAX_BYTES: u64 = 2 * 1024 * 1024 * 1024;
/// Bytes of a pattern of `redact`, compiled.
const MAX_PATTERN: usize = 1 << 20;

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
            retention: RETENTION,
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

/// A pattern of `redact`.
pub fn redact_pattern(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).size_limit(MAX_PATTERN).build()
}
