//! `mainstay history`: shows the status changes of servers in the last 30 days, with reasons. Without a
//! daemon it reads the journal of the last one.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

use chrono::{DateTime, Local};
use clap::{Args, builder::RangedU64ValueParser as AtLeast};
use mainstay_api::{self as api, Client, ClientError, Transition};
use mainstay_command_line::{
    CommandError, Exit,
    connect::DaemonArgs,
    output,
    run_command::{CommandFacts, RunCommand},
    shape::{ItemList, OutputShape},
    stderr::complain,
    when::{self, TypedTime, when},
};
use mainstay_core::{
    failure::{Failure, FailureKind},
    lifecycle::SessionState,
    trouble,
};
use mainstay_doorway::json_views;
use mainstay_journal::Period;
use mainstay_platform::utc;
use serde::Serialize;

use super::{events, store::StoreHost};

/// The default period.
const DEFAULT_PERIOD: Duration = Duration::from_hours(24);

/// The default number of changes of each server.
const DEFAULT_CHANGES: usize = 200;

const EXAMPLES: &str = "\
Examples:
  mainstay history                                 the last 24 hours
  mainstay history files --since 7d                why it was down, and how long
  mainstay history --since 'yesterday 22:00' --until 06:00
  mainstay history --since 2026-11-27 --json";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct HistoryCommand {
    /// Only this server
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Since then: 14:03, "yesterday 23:50", 2026-11-25, 10m (ago), or 2026-11-25T14:03:00Z
    /// [default: 24h]
    #[arg(long, value_name = "TIME", value_parser = when, allow_hyphen_values = true)]
    since: Option<TypedTime>,
    /// Only changes before this time
    #[arg(long, value_name = "TIME", value_parser = when, allow_hyphen_values = true)]
    until: Option<TypedTime>,
    /// Show at most this many changes of each server, the newest; at most 1000
    #[arg(long, value_name = "N", default_value_t = DEFAULT_CHANGES, value_parser = AtLeast::<usize>::new().range(1..))]
    limit: usize,
    #[command(flatten)]
    pub daemon: DaemonArgs,
    #[command(flatten)]
    pub shape: OutputShape,
}

/// A change of a server, or of Mainstay itself, which has no name.
#[derive(Debug, Serialize)]
struct ServerChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    #[serde(flatten)]
    transition: api::Transition,
    /// The duration of an outage in milliseconds. A change that ends an outage has its whole duration. The
    /// last change of a server that is still down has the duration until now.
    #[serde(rename = "downMs", skip_serializing_if = "Option::is_none")]
    down_ms: Option<u64>,
    /// True if the outage began before the first known change.
    #[serde(rename = "downForLonger", skip_serializing_if = "std::ops::Not::not")]
    is_longer: bool,
}

#[derive(Debug, Serialize)]
struct Changes {
    /// Oldest first.
    changes: Vec<ServerChange>,
    /// True if older changes were left out.
    truncated: bool,
}

/// The status of a period in which calls were not recorded.
const UNRECORDED: &str = "unrecorded";

/// The availability of a server in a status.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Up,
    Down,
    /// The server is starting, and no earlier change says that it was up.
    Coming,
    /// The server is down on purpose.
    Off,
}

/// An outage that has not ended.
#[derive(Clone, Copy)]
struct Outage {
    started_at: DateTime<Local>,
    /// True if the outage may have begun earlier.
    is_longer: bool,
}

impl RunCommand for HistoryCommand {
    type Host<'h> = dyn StoreHost + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts::rest_client(&self.daemon).shaped(&self.shape)
    }

    async fn run(self, host: &dyn StoreHost) -> Result<Exit, CommandError> {
        let until = when::end(self.since, self.until)?.map(TypedTime::at);
        let answer = self
            .daemon
            .with(host, async |client| self.ask(client, until).await)
            .await;
        let history = match answer {
            Err(CommandError::Client(ClientError::NotRunning { dir })) => {
                let Some(mut journal) = host.journal(&dir)? else {
                    return Err(ClientError::NotRunning { dir }.into());
                };
                let history = json_views::history::wire(journal.history(&self.period(until))?);
                if let Some(name) = self.name.as_ref().filter(|_| history.servers.is_empty()) {
                    let message = format!("the history has no server '{name}'");
                    return Err(Failure::new(FailureKind::ServerNotFound, message).into());
                }
                history
            }
            answer => answer?,
        };
        let end = until.unwrap_or_else(SystemTime::now).min(SystemTime::now());
        self.print(&Changes::with_outages(history, end.into()))?;
        Ok(Exit::DONE)
    }
}

impl HistoryCommand {
    async fn ask(
        &self,
        client: &Client,
        until: Option<SystemTime>,
    ) -> Result<api::History, CommandError> {
        let period = self.period(until);
        let query = [
            ("since", utc::rfc3339(period.since)),
            ("until", utc::rfc3339(period.until)),
            ("limit", period.limit.to_string()),
        ];
        Ok(client.history(self.name.as_deref(), &query).await?)
    }

    fn period(&self, until: Option<SystemTime>) -> Period {
        let until = until.unwrap_or_else(SystemTime::now);
        let since = self.since.map(TypedTime::at);
        let since = since.unwrap_or_else(|| until.checked_sub(DEFAULT_PERIOD).unwrap_or(until));
        Period {
            server: self.name.clone(),
            since,
            until,
            limit: self.limit,
        }
    }

    fn print(&self, changes: &Changes) -> Result<(), CommandError> {
        let mut found = ItemList::list::<api::Transition>(changes, &["changes"], &["server"]);
        let own_fields = ["server", "downMs", "downForLonger"].map(str::to_owned);
        found.fields.extend(own_fields);
        if self.shape.print(self.daemon.json, &found)?.is_none() {
            return Ok(());
        }
        for change in &changes.changes {
            let at = local(&change.transition.at);
            let server = change.server.as_deref().unwrap_or("-");
            events::line(at, server, change.word(), &change.detail())?;
        }
        if changes.changes.is_empty() {
            complain("nothing is known of this time; --since goes back 30 days");
        }
        if changes.truncated {
            complain("older ones were left out; --until and --limit show them");
        }
        Ok(())
    }
}

impl Changes {
    /// All changes in order. Sets the outage duration of each change that ends an outage.
    fn with_outages(history: api::History, end: DateTime<Local>) -> Self {
        let marks = history.daemon.into_iter().map(|mark| ServerChange {
            server: None,
            transition: transition_of_mark(mark.at, mark.event),
            down_ms: None,
            is_longer: false,
        });
        let unrecorded = history.gaps.into_iter().map(|gap| ServerChange {
            server: None,
            transition: Transition {
                reason: Some(missing(&gap)),
                ..transition_of_mark(gap.since, UNRECORDED.to_owned())
            },
            down_ms: None,
            is_longer: false,
        });
        let changes_of_servers = history.servers.into_iter().flat_map(|history| {
            let server = history.server;
            history
                .transitions
                .into_iter()
                .map(move |transition| ServerChange {
                    server: Some(server.clone()),
                    transition,
                    down_ms: None,
                    is_longer: false,
                })
        });
        let mut changes: Vec<ServerChange> =
            marks.chain(unrecorded).chain(changes_of_servers).collect();
        changes.sort_by_cached_key(|change| local(&change.transition.at));
        let mut last_changes: HashMap<String, (usize, Option<Outage>)> = HashMap::new();
        for (place, change) in changes.iter_mut().enumerate() {
            let at = local(&change.transition.at);
            let Some(server) = change.server.clone() else {
                // The status of servers while Mainstay did not run is unknown.
                if change.transition.status != UNRECORDED {
                    last_changes.clear();
                }
                continue;
            };
            let before = last_changes.get(&server).copied();
            let outage = before.and_then(|(_, outage)| outage);
            let now = match change.condition() {
                Condition::Down => outage.or(Some(Outage {
                    started_at: at,
                    is_longer: before.is_none(),
                })),
                Condition::Coming => outage,
                Condition::Up | Condition::Off => {
                    change.set_outage(outage, at);
                    None
                }
            };
            last_changes.insert(server, (place, now));
        }
        for (place, outage) in last_changes.into_values() {
            changes[place].set_outage(outage, end);
        }
        Self {
            changes,
            truncated: history.truncated,
        }
    }
}

impl ServerChange {
    fn set_outage(&mut self, outage: Option<Outage>, at: DateTime<Local>) {
        let Some(outage) = outage else { return };
        let span = (at - outage.started_at).num_milliseconds();
        self.down_ms = Some(u64::try_from(span).unwrap_or_default());
        self.is_longer = outage.is_longer;
    }

    fn condition(&self) -> Condition {
        let status = self.transition.status.as_str();
        match SessionState::ALL
            .into_iter()
            .find(|state| state.as_str() == status)
        {
            Some(SessionState::Connected) => Condition::Up,
            Some(SessionState::Connecting) => Condition::Coming,
            Some(
                SessionState::Reconnecting
                | SessionState::Error
                | SessionState::Failed
                | SessionState::Crashed,
            ) => Condition::Down,
            Some(SessionState::Disconnected | SessionState::Stopping) | None => Condition::Off,
        }
    }

    /// The status word, as in the output of [`mainstay events`](events).
    fn word(&self) -> &str {
        if self.transition.degraded {
            "degraded"
        } else {
            &self.transition.status
        }
    }

    fn detail(&self) -> String {
        let Transition {
            reason,
            exit_code,
            exit_signal,
            stderr,
            attempt,
            next_retry_ms,
            ..
        } = &self.transition;
        if self.server.is_none() {
            let itself = || "Mainstay itself".to_owned();
            return reason.clone().unwrap_or_else(itself);
        }
        let mut parts = Vec::new();
        if let Some(reason) = reason {
            let next = next_retry_ms.map(Duration::from_millis);
            let explained =
                trouble::explained(&with_exit(reason, *exit_code, *exit_signal), stderr, None);
            parts.push(output::trouble(
                &explained,
                attempt.unwrap_or_default(),
                next,
            ));
        }
        if let Some(down) = self.down_ms {
            let span = output::span(Duration::from_millis(down));
            let longer = if self.is_longer { "more than " } else { "" };
            let is_down = matches!(self.condition(), Condition::Down | Condition::Coming);
            let tense = if is_down { "down for" } else { "was down for" };
            parts.push(format!("{tense} {longer}{span}"));
        }
        parts.join("; ")
    }
}

/// Adds the exit code or the signal of the process to a reason that does not name it.
fn with_exit(reason: &str, code: Option<i32>, signal: Option<i32>) -> String {
    let end = match (code, signal) {
        (Some(code), _) => format!("code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => return reason.to_owned(),
    };
    if reason.contains(&end) {
        reason.to_owned()
    } else {
        format!("{reason} (its process ended with {end})")
    }
}

/// A sentence about calls that are missing from the records of a period.
pub(super) fn missing(gap: &api::RecordGap) -> String {
    let clock = mainstay_command_line::time::local_with_day;
    let calls = output::count(usize::try_from(gap.calls).unwrap_or(usize::MAX), "call");
    let are = if gap.calls == 1 { "is" } else { "are" };
    let until = match &gap.until {
        Some(until) => format!("to {}", clock(until)),
        None => "until now".to_owned(),
    };
    let since = clock(&gap.since);
    format!(
        "{calls} of {since} {until} {are} not on record: {}",
        gap.reason
    )
}

/// A transition for an event of Mainstay itself.
fn transition_of_mark(at: String, event: String) -> Transition {
    Transition {
        at,
        status: event,
        degraded: false,
        reason: None,
        unauthorized: false,
        exit_code: None,
        exit_signal: None,
        attempt: None,
        next_retry_ms: None,
        stderr: Vec::new(),
    }
}

/// Parses a time of the daemon. An invalid time becomes the earliest one.
fn local(time: &str) -> DateTime<Local> {
    DateTime::parse_from_rfc3339(time).map_or(DateTime::UNIX_EPOCH.into(), Into::into)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lines_of(history: serde_json::Value) -> Vec<String> {
        let history = serde_json::from_value(history).expect("a history");
        let changes = Changes::with_outages(history, local("2026-11-28T02:00:00Z"));
        let line = |change: &ServerChange| {
            let server = change.server.as_deref().unwrap_or("-");
            let line = format!("{server} {} {}", change.word(), change.detail());
            line.trim_end().to_owned()
        };
        changes.changes.iter().map(line).collect()
    }

    #[test]
    fn an_outage_says_why_and_how_long() {
        let lines = lines_of(json!({"truncated": false,
        "daemon": [{"at": "2026-11-27T23:00:00Z", "event": "started"}],
        "servers": [
            {"server": "db", "truncated": false, "transitions": [
                {"at": "2026-11-27T23:00:01Z", "status": "connected"},
                {"at": "2026-11-28T00:00:00Z", "status": "reconnecting",
                    "reason": "process exited unexpectedly (code 7)", "exitCode": 7,
                    "attempt": 1, "nextRetryMs": 1000, "stderr": ["fatal: database is locked"]},
                {"at": "2026-11-28T00:10:00Z", "status": "connecting"},
                {"at": "2026-11-28T00:20:00Z", "status": "connected"},
                {"at": "2026-11-28T01:00:00Z", "status": "connected", "degraded": true,
                    "reason": "no answer"},
                {"at": "2026-11-28T01:30:00Z", "status": "failed", "reason": "gave up",
                    "exitSignal": 9},
            ]},
            {"server": "web", "truncated": false, "transitions": [
                {"at": "2026-11-27T22:00:00Z", "status": "failed", "reason": "refused"},
                {"at": "2026-11-28T01:59:00Z", "status": "disconnected"},
            ]},
        ]}));
        insta::assert_snapshot!(lines.join("\n"), @"
        web failed refused
        - started Mainstay itself
        db connected
        db reconnecting process exited unexpectedly (code 7): fatal: database is locked; attempt 1 in 1.0 s
        db connecting
        db connected was down for 20 min
        db degraded no answer
        db failed gave up (its process ended with signal 9); down for 30 min
        web disconnected
        ");
    }

    #[test]
    fn an_outage_that_began_before_lasted_longer() {
        let lines = lines_of(json!({"truncated": false, "daemon": [], "servers": [
            {"server": "db", "truncated": true, "transitions": [
                {"at": "2026-11-28T00:00:00Z", "status": "reconnecting", "reason": "refused"},
                {"at": "2026-11-28T01:00:00Z", "status": "connected"},
            ]},
        ]}));
        assert_eq!(lines[1], "db connected was down for more than 1 h");
    }
}
