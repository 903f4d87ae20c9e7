//! What a client's file restricts: times, tools, a sandbox.

use serde_json::{Map, Value, json};

use super::{Reading, UNKNOWN, is_off, whole};
use crate::{client::Client, places::Section};

/// In what a client counts the `timeout` of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Milliseconds,
}

/// The unit of `timeout` in the files of a client.
pub(crate) fn unit(client: Client) -> Unit {
    match client {
        Client::Cline
        | Client::Roo
        | Client::Kilo
        | Client::Goose
        | Client::Zed
        | Client::Crush => Unit::Seconds,
        _ => Unit::Milliseconds,
    }
}

/// A lower number in a file of milliseconds comes from a client that counts seconds: no server answers
/// in so few milliseconds.
const LEAST_MILLISECONDS: f64 = 1000.0;

/// Up to this number the same holds where another entry of the file has such a number: who writes 60 means
/// hours by 7200.
const MOST_BESIDE_SECONDS: f64 = 10_000.0;

/// Whether an entry of these servers has a `timeout` that can only be seconds.
pub(crate) fn counts_seconds(servers: &Value) -> bool {
    let members = servers.as_object().into_iter().flat_map(Map::values);
    let mut timeouts = members.filter_map(|entry| entry.get("timeout")?.as_f64());
    timeouts.any(|number| number > 0.0 && number < LEAST_MILLISECONDS)
}

impl Reading<'_> {
    /// The time for a call.
    pub(super) fn timeout(&mut self, key: &str, value: &Value, unit: Unit) {
        if let Some(seconds) = self.seconds(key, value, unit) {
            self.set("timeout_s", whole(seconds));
        }
    }

    /// The time for the start.
    pub(super) fn connect_timeout(&mut self, key: &str, value: &Value, unit: Unit) {
        if let Some(seconds) = self.seconds(key, value, unit) {
            self.set("connectTimeoutMs", whole((seconds * 1000.0).round()));
        }
    }

    /// The time of opencode: for the start and for calls, or an object with a time for each.
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

    /// `mcp.timeout` of opencode, for servers that have no times of their own.
    pub(super) fn section_timeout(&mut self, whole: &Value, place: &Section) {
        let is_second = place.keys == ["mcp", "servers"];
        let times = whole.get("mcp").and_then(|mcp| mcp.get("timeout"));
        let Some(Value::Object(times)) = times.filter(|_| is_second) else {
            return;
        };
        let own = self.read.entry.clone();
        for (key, ours) in [("startup", "connectTimeoutMs"), ("request", "timeout_s")] {
            if let Some(value) = times.get(key).filter(|_| !own.contains_key(ours)) {
                self.request_timeout("mcp.timeout", &json!({ key: value }));
            }
        }
    }

    /// A time that is stated in this unit, in seconds.
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

    pub(super) fn tools(&mut self, key: &str, own: &str, value: &Value) {
        let names: Option<Vec<String>> = match value {
            Value::Array(names) => names
                .iter()
                .map(|name| name.as_str().map(str::to_owned))
                .collect(),
            _ => None,
        };
        let Some(names) = names else {
            // A restriction that cannot be read must not become none.
            return self.unread(key, value, "a list of tools");
        };
        self.honoured(key);
        let is_all = names.iter().any(|name| name == "*");
        if is_all && own == "disabledTools" {
            self.report(key, "every tool is hidden, so the server is disabled here");
            return self.disable();
        }
        if is_all || names.is_empty() && own == "disabledTools" {
            return;
        }
        if names.iter().any(|name| name.contains(['*', '?'])) {
            let text = "Mainstay chooses tools by their names, without patterns";
            return self.unsupported_and_disabled(key, value, text);
        }
        let known = self.read.entry.get(own).and_then(Value::as_array).cloned();
        let names: Vec<Value> = names.into_iter().map(Value::from).collect();
        let names = match known {
            None => names,
            // Each list restricts.
            Some(known) if own == "allowedTools" => known
                .into_iter()
                .filter(|name| names.contains(name))
                .collect(),
            Some(mut known) => {
                known.extend(
                    names
                        .into_iter()
                        .filter(|name| !known.contains(name))
                        .collect::<Vec<_>>(),
                );
                known
            }
        };
        self.set(own, names);
    }

    pub(super) fn sandbox(&mut self, key: &str, value: &Value) {
        if is_off(value) {
            return self.honoured(key);
        }
        self.unsupported_and_disabled(key, value, "Mainstay has no sandbox for servers");
    }
}
