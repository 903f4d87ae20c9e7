//! Reads `journal`: the durability, contents and retention of the records of calls.
//!
//! ```json
//! {"durability": "strict", "payloads": "digest", "retentionDays": 90, "redact": {"keys": ["password"]}}
//! ```

use std::time::Duration;

use mainstay_core::config::redact_pattern;
use serde_json::Value;

use crate::{
    read::{node::Node, report::FindingReport},
    words::settings::SettingValue,
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Minimum of `maxBytes`. A smaller limit would leave no room for records, because the database itself needs
/// some pages.
pub(crate) const LEAST_BYTES: u32 = 16 * 1024 * 1024;
/// Maximum of `retentionDays`: a century. No log of calls is kept for longer.
pub(crate) const MOST_DAYS: u32 = 36_500;

pub(crate) fn days(node: &Node<'_>, report: &mut FindingReport<'_>) -> Option<Duration> {
    u32::read(node, report).map(|days| days * DAY)
}

pub(crate) fn file_days(retention: &Duration) -> Value {
    (retention.as_secs() / DAY.as_secs()).into()
}

/// Reads patterns of secrets. A bad pattern makes the file unusable. If it were ignored, secrets would be
/// recorded until someone notices.
#[expect(clippy::unnecessary_wraps, reason = "readers of rows may read nothing")]
pub(crate) fn patterns(node: &Node<'_>, report: &mut FindingReport<'_>) -> Option<Vec<String>> {
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
