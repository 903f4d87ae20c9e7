//! Translates the keys that limit a server: time limits, lists of tools, a sandbox.

use serde_json::{Map, Value, json};

use super::{Reading, UNKNOWN, is_off, whole};
use crate::{client::ClientKind, places::Section};

/// The unit of `timeout` in the files of a client.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Milliseconds,
}

/// Returns the unit of `timeout` in the files of a client.
pub(crate) fn unit(client: ClientKind) -> Unit {
    match client {
        ClientKind::Cline
        | ClientKind::Roo
        | ClientKind::Kilo
        | ClientKind::Goose
        | ClientKind::Zed
        | ClientKind::Crush => Unit::Seconds,
        _ => Unit::Milliseconds,
    }
}

/// The smallest plausible time limit in milliseconds. A smaller number must be in seconds, even in a file
/// with milliseconds, because nobody sets a limit below one second.
const LEAST_MILLISECONDS: f64 = 1000.0;

/// The largest number that counts as seconds if another entry of the file must be in seconds. An author
/// who writes 60 for a minute also writes 7200 for two hours.
const MOST_BESIDE_SECONDS: f64 = 10_000.0;

/// True if an entry of these servers has a `timeout` that must be in seconds.
pub(crate) fn counts_seconds(servers: &Value) -> bool {
    let members = servers.as_object().into_iter().flat_map(Map::values);
    let mut timeouts = members.filter_map(|entry| entry.get("timeout")?.as_f64());
    timeouts.any(|number| number > 0.0 && number < LEAST_MILLISECONDS)
}

impl Reading<'_> {
    /// Reads the time limit of a call.
    pub(super) fn timeout(&mut self, key: &str, value: &Value, unit: Unit) {
        if let Some(seconds) = self.seconds(key, value, unit) {
            self.set("timeout_s", whole(seconds));
        }
    }

    /// Reads the time limit of the start.
    pub(super) fn connect_timeout(&mut self, key: &str, value: &Value, unit: Unit) {
        if let Some(seconds) = self.seconds(key, value, unit) {
            self.set("connectTimeoutMs", whole((seconds * 1000.0).round()));
        }
    }

    /// Reads the time limit of opencode: a number for the start and for calls, or an object with a number
    /// for each.
    pub(super) fn request_timeout(&mut self, key: &str, value: &Value) {
        if let Value::Object(members) = value {
            for (inner, value) in members {
                let key = format!("{key}.{inner}");
                match inner.as_str() {
                    "startup" => self.connect_timeout(&key, value, Unit::Milliseconds),
                    "request" => self.timeout(&key, value, Unit::Milliseconds),
                    _ => self.keep_and_report(&key, value, UNKNOWN),
                }
            }
            return;
        }
        if let Some(seconds) = self.seconds(key, value, Unit::Milliseconds) {
            self.set("connectTimeoutMs", whole((seconds * 1000.0).round()));
            self.set("timeout_s", whole(seconds));
        }
    }

    /// Reads `mcp.timeout` of opencode. It applies to servers without a time limit of their own.
    pub(super) fn section_timeout(&mut self, whole: &Value, place: &Section) {
        let is_second = place.keys == ["mcp", "servers"];
        let times = whole.get("mcp").and_then(|mcp| mcp.get("timeout"));
        let Some(Value::Object(times)) = times.filter(|_| is_second) else {
            return;
        };
        let entry = self.read.entry.clone();
        for (key, ours) in [("startup", "connectTimeoutMs"), ("request", "timeout_s")] {
            if let Some(value) = times.get(key).filter(|_| !entry.contains_key(ours)) {
                self.request_timeout("mcp.timeout", &json!({ key: value }));
            }
        }
    }

    /// Reads a time in this unit. Returns it in seconds.
    fn seconds(&mut self, key: &str, value: &Value, unit: Unit) -> Option<f64> {
        let Some(number) = value.as_f64().filter(|number| *number > 0.0) else {
            let text = "expected a time above zero: the limit of Mainstay holds";
            self.keep_and_report(key, value, text);
            return None;
        };
        let is_seconds =
            number < LEAST_MILLISECONDS || self.counts_seconds && number <= MOST_BESIDE_SECONDS;
        if unit == Unit::Milliseconds && is_seconds {
            let text = if number < LEAST_MILLISECONDS {
                format!(
                    "taken as {number} seconds, for no server answers within {number} milliseconds"
                )
            } else {
                format!(
                    "taken as {number} seconds, as that of another server in this file has to be"
                )
            };
            self.report(key, text);
            return Some(number);
        }
        self.honoured(key);
        Some(match unit {
            Unit::Seconds => number,
            Unit::Milliseconds => number / 1000.0,
        })
    }

    pub(super) fn tools(&mut self, key: &str, our_key: &str, value: &Value) {
        let names: Option<Vec<String>> = match value {
            Value::Array(names) => names
                .iter()
                .map(|name| name.as_str().map(str::to_owned))
                .collect(),
            _ => None,
        };
        let Some(names) = names else {
            // Record the value as unread, because the restriction must not be lost.
            return self.unread(key, value, "a list of tools");
        };
        self.honoured(key);
        let is_all = names.iter().any(|name| name == "*");
        if is_all && our_key == "disabledTools" {
            self.report(key, "every tool is hidden, so the server is disabled here");
            return self.disable();
        }
        if is_all || names.is_empty() && our_key == "disabledTools" {
            return;
        }
        if names.iter().any(|name| name.contains(['*', '?'])) {
            let text = "Mainstay chooses tools by their names, without patterns";
            return self.unsupported_and_disabled(key, value, text);
        }
        let earlier = self
            .read
            .entry
            .get(our_key)
            .and_then(Value::as_array)
            .cloned();
        let names: Vec<Value> = names.into_iter().map(Value::from).collect();
        let names = match earlier {
            None => names,
            // Combine the lists: each of them restricts the tools.
            Some(earlier) if our_key == "allowedTools" => earlier
                .into_iter()
                .filter(|name| names.contains(name))
                .collect(),
            Some(mut earlier) => {
                earlier.extend(
                    names
                        .into_iter()
                        .filter(|name| !earlier.contains(name))
                        .collect::<Vec<_>>(),
                );
                earlier
            }
        };
        self.set(our_key, names);
    }

    pub(super) fn sandbox(&mut self, key: &str, value: &Value) {
        if is_off(value) {
            return self.honoured(key);
        }
        self.unsupported_and_disabled(key, value, "Mainstay has no sandbox for servers");
    }
}
