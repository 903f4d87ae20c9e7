//! Settings for the records of calls: content, durability and retention.

use std::time::Duration;

use regex::{Regex, RegexBuilder};

use crate::words::words;

const RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Default of `maxBytes`: enough space for a year of one client, or for a day at a few hundred
/// calls per second.
const MAX_BYTES: u64 = 2 * 1024 * 1024 * 1024;
/// Maximum size of a compiled pattern of `redact`, in bytes.
const MAX_PATTERN: usize = 1 << 20;

/// The settings for records of calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    /// `enabled` (default true).
    pub enabled: bool,
    pub durability: Durability,
    pub payloads: Payloads,
    /// Age after which records are deleted (`retentionDays`, default 30).
    pub retention: Duration,
    /// Size of the journal above which the oldest records are deleted (`maxBytes`, default 2 GiB).
    /// Objects in separate files count.
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

/// The writes that a call waits for (`durability`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// No writes. Records are written in the background. Under overload, records are dropped and
    /// counted.
    #[default]
    Relaxed,
    /// The record of a call is on disk before the call is sent, and its end is on disk before the
    /// answer.
    Strict,
}

/// The parts of arguments and results that are stored (`payloads`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Payloads {
    /// All bytes.
    #[default]
    Full,
    /// Only the CIDs (content hashes), which show whether two payloads are equal.
    Digest,
    /// Only the sizes.
    Off,
}

/// The secrets to remove from arguments and results before they are hashed or stored (`redact`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redact {
    /// True to remove the values of members with a secret's name, and text that looks like a secret
    /// (`defaults`, default true; see [`crate::redact`]).
    pub defaults: bool,
    /// Names of members whose values are removed, at any depth and in any case.
    pub keys: Vec<String>,
    /// Valid regular expressions. Their matches in strings are removed.
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

/// Compiles a pattern of `redact`, with a limit for the size of the compiled pattern.
pub fn redact_pattern(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).size_limit(MAX_PATTERN).build()
}
