//! Describes events, in the same words for every command.

use std::time::Duration;

use mainstay_api as api;
use mainstay_core::{event::EventKind, suspects::Arguments};
use serde_json::{Value, json};

use super::output;

/// Names of tools in one line.
const SHOWN_NAMES: usize = 5;

/// An event as a word and a description.
pub fn words(event: &api::Event) -> (&str, String) {
    let kind = json!({"type": event.kind, "data": event.data});
    let Ok(kind) = serde_json::from_value(kind) else {
        // An event of a later version.
        return (&event.kind, Value::Object(event.data.clone()).to_string());
    };
    let because = |reason: Option<String>| reason.unwrap_or_else(|| "no reason known".to_owned());
    match kind {
        EventKind::ServerAdded {} => ("added", String::new()),
        EventKind::ServerRemoved {} => ("removed", String::new()),
        EventKind::ServerStarting {} => ("starting", String::new()),
        EventKind::ServerConnected {} => ("connected", String::new()),
        EventKind::ServerDisconnected {
            was_intentional: true,
            ..
        } => ("disconnected", "as its operator wanted".to_owned()),
        EventKind::ServerDisconnected { reason, .. } => ("lost", because(reason)),
        EventKind::ServerReconnecting {
            attempt,
            next_retry_ms,
            last_error,
        } => {
            let next = Some(Duration::from_millis(next_retry_ms));
            let detail = output::trouble(&because(last_error), attempt, next);
            ("reconnecting", detail)
        }
        EventKind::ServerReconnected { attempts_taken, .. } => {
            let attempts = usize::try_from(attempts_taken).unwrap_or(usize::MAX);
            let detail = format!("after {}", output::count(attempts, "attempt"));
            ("reconnected", detail)
        }
        EventKind::ServerHealthDegraded {
            consecutive_failures,
            last_error,
        } => {
            let checks = output::count(consecutive_failures as usize, "check");
            (
                "degraded",
                format!("{checks} failed: {}", because(last_error)),
            )
        }
        EventKind::ServerHealthRestored {} => ("healthy", String::new()),
        EventKind::ServerFailed { status, last_error } => (status.as_str(), because(last_error)),
        EventKind::CallRefused {
            method,
            tool,
            arguments,
            crashes,
            retry_after_ms,
        } => {
            let call = called(&method, tool, arguments);
            let wait = output::span(Duration::from_millis(retry_after_ms));
            let detail = format!("{call}, for {wait}: in flight at {crashes} crashes");
            ("refused", detail)
        }
        EventKind::CallAllowed {
            method,
            tool,
            arguments,
        } => ("allowed", called(&method, tool, arguments)),
        EventKind::ServerRequestWaiting { id, method } => (
            "asks",
            format!("{method}; answer it by `mainstay requests answer {id}`"),
        ),
        EventKind::ServerRequestSettled {
            id,
            method,
            outcome,
        } => (
            "settled",
            format!("{method}, request {id}: {}", outcome.as_str()),
        ),
        EventKind::ToolsChanged {
            added,
            removed,
            count,
        } => {
            let mut changes = Vec::new();
            changes.extend(names("new", &added));
            changes.extend(names("gone", &removed));
            let detail = format!("{count}; {}", changes.join("; "));
            ("tools", detail)
        }
        EventKind::ConfigReloaded {
            added,
            removed,
            changed,
        } => {
            let names_of = |word, servers: &[_]| {
                let servers: Vec<String> = servers.iter().map(ToString::to_string).collect();
                names(word, &servers)
            };
            let changes: Vec<String> = [
                names_of("added", added.as_slice()),
                names_of("removed", &removed),
                names_of("changed", &changed),
            ]
            .into_iter()
            .flatten()
            .collect();
            let detail = if changes.is_empty() {
                "no server changed".to_owned()
            } else {
                changes.join("; ")
            };
            ("configured", detail)
        }
        EventKind::ConfigRejected { reason } => {
            ("rejected", format!("the configuration: {reason}"))
        }
        EventKind::CertificateReplaced { path, expires_at } => (
            "renewed",
            format!("the certificate {path}: valid until {expires_at}"),
        ),
        EventKind::CertificateExpiring {
            path,
            expires_at,
            days_left,
        } => (
            "expiring",
            format!(
                "the certificate {path}: in {}, at {expires_at}",
                output::count(usize::try_from(days_left).unwrap_or(usize::MAX), "day")
            ),
        ),
        EventKind::CertificateExpired { path, expires_at } => (
            "expired",
            format!("the certificate {path}, at {expires_at}"),
        ),
        EventKind::CertificateRejected { path, reason } => (
            "rejected",
            format!("the certificate {path}: {reason}; the old one stays in use"),
        ),
    }
}

/// `tools/call of search, with the same arguments`
fn called(method: &str, tool: Option<String>, arguments: Arguments) -> String {
    let of_tool = tool.map_or_else(String::new, |tool| format!(" of {tool}"));
    let with = match arguments {
        Arguments::Same => "the same arguments",
        Arguments::Any => "any arguments",
    };
    format!("{method}{of_tool}, with {with}")
}

/// `new: a, b, c, d, e and 3 more`
fn names(word: &str, names: &[String]) -> Option<String> {
    let names_shown = names.get(..SHOWN_NAMES).unwrap_or(names).join(", ");
    match names.len() {
        0 => None,
        1..=SHOWN_NAMES => Some(format!("{word}: {names_shown}")),
        all => Some(format!(
            "{word}: {names_shown} and {} more",
            all - SHOWN_NAMES
        )),
    }
}

#[cfg(test)]
mod tests {
    use mainstay_core::{event::Settled, lifecycle::SessionState};

    use super::*;

    fn text_of(kind: &EventKind) -> String {
        let json = serde_json::to_value(kind).expect("JSON");
        let event = api::Event {
            id: String::new(),
            kind: json["type"].as_str().expect("a type").to_owned(),
            server: Some("fs".to_owned()),
            created_at: String::new(),
            data: json["data"].as_object().expect("an object").clone(),
        };
        let (word, detail) = words(&event);
        format!("{word}  {detail}")
    }

    #[test]
    fn every_event_is_a_line_for_people() {
        let names: Vec<String> = ('a'..='g').map(String::from).collect();
        let lines: Vec<String> = [
            EventKind::ServerDisconnected {
                was_intentional: false,
                reason: Some("gone".to_owned()),
            },
            EventKind::ServerDisconnected {
                was_intentional: true,
                reason: None,
            },
            EventKind::ServerReconnecting {
                attempt: 2,
                next_retry_ms: 2000,
                last_error: Some("refused".to_owned()),
            },
            EventKind::ServerReconnected {
                capabilities: Value::Null,
                attempts_taken: 1,
            },
            EventKind::ServerHealthDegraded {
                consecutive_failures: 3,
                last_error: None,
            },
            EventKind::ServerFailed {
                status: SessionState::Failed,
                last_error: Some("gave up".to_owned()),
            },
            EventKind::CallRefused {
                method: "tools/call".to_owned(),
                tool: Some("search".to_owned()),
                arguments: Arguments::Same,
                crashes: 3,
                retry_after_ms: 600_000,
            },
            EventKind::CallAllowed {
                method: "resources/read".to_owned(),
                tool: None,
                arguments: Arguments::Any,
            },
            EventKind::ServerRequestWaiting {
                id: 3,
                method: "elicitation/create".to_owned(),
            },
            EventKind::ServerRequestSettled {
                id: 3,
                method: "elicitation/create".to_owned(),
                outcome: Settled::Expired,
            },
            EventKind::ToolsChanged {
                added: names,
                removed: vec!["x".to_owned()],
                count: 9,
            },
            EventKind::ConfigReloaded {
                added: Vec::new(),
                removed: Vec::new(),
                changed: Vec::new(),
            },
            EventKind::ConfigRejected {
                reason: "no".to_owned(),
            },
            EventKind::CertificateReplaced {
                path: "/c.pem".to_owned(),
                expires_at: "2027-01-01T00:00:00.000Z".to_owned(),
            },
            EventKind::CertificateExpiring {
                path: "/c.pem".to_owned(),
                expires_at: "2027-01-01T00:00:00.000Z".to_owned(),
                days_left: 1,
            },
            EventKind::CertificateExpired {
                path: "/c.pem".to_owned(),
                expires_at: "2027-01-01T00:00:00.000Z".to_owned(),
            },
            EventKind::CertificateRejected {
                path: "/c.pem".to_owned(),
                reason: "it is empty".to_owned(),
            },
        ]
        .iter()
        .map(text_of)
        .collect();
        insta::assert_snapshot!(lines.join("\n"), @"
        lost  gone
        disconnected  as its operator wanted
        reconnecting  refused; attempt 2 in 2.0 s
        reconnected  after 1 attempt
        degraded  3 checks failed: no reason known
        failed  gave up
        refused  tools/call of search, with the same arguments, for 10 min: in flight at 3 crashes
        allowed  resources/read, with any arguments
        asks  elicitation/create; answer it by `mainstay requests answer 3`
        settled  elicitation/create, request 3: expired
        tools  9; new: a, b, c, d, e and 2 more; gone: x
        configured  no server changed
        rejected  the configuration: no
        renewed  the certificate /c.pem: valid until 2027-01-01T00:00:00.000Z
        expiring  the certificate /c.pem: in 1 day, at 2027-01-01T00:00:00.000Z
        expired  the certificate /c.pem, at 2027-01-01T00:00:00.000Z
        rejected  the certificate /c.pem: it is empty; the old one stays in use
        ");
    }

    #[test]
    fn an_event_of_a_later_version_is_shown_as_it_is() {
        let event: api::Event = serde_json::from_value(json!({
            "id": "1", "type": "server_slept", "server": "fs", "createdAt": "x", "data": {"a": 1},
        }))
        .expect("an event");
        assert_eq!(words(&event), ("server_slept", r#"{"a":1}"#.to_owned()));
    }
}
