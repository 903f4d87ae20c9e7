//! `mainstay events`: shows what happened to the servers, or what happens.

use std::time::Duration;

use chrono::{DateTime, Local};
use clap::Args;
use mainstay_api::{self as api, Client, ClientError, Told};
use mainstay_core::{
    event::{EventId, EventKind},
    suspects::Arguments,
};
use serde_json::{Value, json};

use super::{
    CommandError, Exit,
    connect::DaemonArgs,
    host::Host,
    output,
    shape::{Found, Shape},
    stderr::complain,
    time,
    trouble::{trouble, word},
};

/// A daemon that is gone is looked for so often.
const RETRY: Duration = Duration::from_secs(1);

/// Names of tools shown in one line.
const SHOWN_NAMES: usize = 5;

#[derive(Debug, Args)]
pub struct Events {
    /// Show how the servers are, then what happens, until Ctrl-C; a daemon that is started anew is
    /// found again
    #[arg(short, long)]
    follow: bool,
    /// Only what came after the event with this id
    #[arg(long, value_name = "ID")]
    after: Option<EventId>,
    /// Only what happened to this server
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    #[command(flatten)]
    pub daemon: DaemonArgs,
    #[command(flatten)]
    pub shape: Shape,
}

impl Events {
    pub async fn run(self, host: &dyn Host) -> Result<Exit, CommandError> {
        if self.follow {
            self.shape.followed()?;
            return self.follow(host).await;
        }
        let after = self.after.map(|id| id.to_string());
        let mut recent = self
            .daemon
            .with(host, async |client| {
                Ok(client.recent_events(after.as_deref()).await?)
            })
            .await?;
        if recent.missed {
            complain("some events are no longer known");
        }
        if let Some(server) = &self.server {
            let is_about = |event: &api::Event| event.server.as_ref() == Some(server);
            recent.events.retain(is_about);
        }
        let found = Found::list::<api::Event>(&recent, &["events"], &["id"]);
        // Events are a line of JSON each.
        if self.is_json() || self.shape.print(false, &found)?.is_some() {
            recent
                .events
                .iter()
                .try_for_each(|event| self.tell(event))?;
        }
        Ok(Exit::DONE)
    }

    fn is_json(&self) -> bool {
        self.daemon.json || self.shape.is_json()
    }

    async fn follow(&self, host: &dyn Host) -> Result<Exit, CommandError> {
        let mut place = self.after.map(|id| id.to_string());
        let mut was_there = false;
        let mut gone = false;
        loop {
            let told = async |client: &Client| {
                let mut stream = client.follow_events(place.as_deref()).await?;
                (was_there, gone) = (true, false);
                while let Some(told) = stream.next().await? {
                    self.show(told)?;
                    place = stream.place().map(str::to_owned);
                }
                Ok(())
            };
            match self.daemon.with(host, told).await {
                Ok(()) => {}
                Err(CommandError::Client(
                    ClientError::NotRunning { .. } | ClientError::Unreachable { .. },
                )) if was_there => {}
                Err(error) => return Err(error),
            }
            if self.daemon.starts_servers() {
                return Ok(Exit::DONE);
            }
            if !std::mem::replace(&mut gone, true) {
                complain("the daemon is gone; waiting for it");
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    fn show(&self, told: Told) -> Result<(), CommandError> {
        match told {
            Told::Event(event) => self.tell(&event),
            Told::Missed => {
                complain("some events were missed; this is how the servers are now");
                Ok(())
            }
            Told::Snapshot(servers) if self.is_json() => {
                let servers = servers.servers.into_iter();
                let chosen: Vec<_> = servers
                    .filter(|server| self.is_about(&server.name))
                    .collect();
                output::json(&json!({"type": api::SNAPSHOT, "servers": chosen}))
            }
            // How the servers are is no event.
            Told::Snapshot(_) if self.shape.is_of_items() => Ok(()),
            Told::Snapshot(servers) => {
                let now = Local::now();
                let chosen = servers.servers.iter();
                for server in chosen.filter(|server| self.is_about(&server.name)) {
                    let why = trouble(server).unwrap_or_default();
                    line(now, &server.name, word(server), &why)?;
                }
                Ok(())
            }
        }
    }

    fn is_about(&self, server: &str) -> bool {
        self.server.as_deref().is_none_or(|chosen| chosen == server)
    }

    fn tell(&self, event: &api::Event) -> Result<(), CommandError> {
        if self.server.is_some() && self.server != event.server {
            return Ok(());
        }
        let found = Found::one(event, &["id"]);
        if self.shape.print(self.daemon.json, &found)?.is_none() {
            return Ok(());
        }
        let (word, detail) = words(event);
        let at = DateTime::parse_from_rfc3339(&event.created_at);
        let at = at.map_or_else(|_| Local::now(), |at| at.with_timezone(&Local));
        line(at, event.server.as_deref().unwrap_or("-"), word, &detail)
    }
}

/// `2026-11-21 08:30:12  files  reconnecting  process exited unexpectedly (code 3); attempt 1 in 1.0 s`
fn line(at: DateTime<Local>, server: &str, word: &str, detail: &str) -> Result<(), CommandError> {
    let at = time::with_day(at);
    let line = format!("{at}  {server:12}  {word:12}  {detail}");
    output::line(line.trim_end())
}

/// What happened, as a word and what there is to say of it.
pub fn words(event: &api::Event) -> (&str, String) {
    let kind = json!({"type": event.kind, "data": event.data});
    let Ok(kind) = serde_json::from_value(kind) else {
        // A later version's.
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
    let shown = names.get(..SHOWN_NAMES).unwrap_or(names).join(", ");
    match names.len() {
        0 => None,
        1..=SHOWN_NAMES => Some(format!("{word}: {shown}")),
        all => Some(format!("{word}: {shown} and {} more", all - SHOWN_NAMES)),
    }
}

#[cfg(test)]
mod tests {
    use mainstay_core::{event::Settled, lifecycle::State};

    use super::*;

    fn said(kind: &EventKind) -> String {
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
                status: State::Failed,
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
        ]
        .iter()
        .map(said)
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
