//! Follows the daemon in the background. Reports events of its servers, and updates the names for completion
//! when they may have changed. The prompt never waits for this.

use std::{collections::HashSet, sync::Arc, time::Duration};

use mainstay_api::{self as api, Client, Told};
use mainstay_command_line::{
    CommandError, completion_names::CompletionNames, connect::DaemonArgs, happened, trouble,
};
use mainstay_core::event::EventKind;
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::notices::Notices;

/// The interval between two searches for a daemon that has gone.
const RETRY: Duration = Duration::from_secs(1);

/// The delay before a new read of the names, so that several changes cause one read.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// The time limit of reading the lists. If it passes, the old lists stay.
const LIMIT: Duration = Duration::from_secs(30);

/// The names for completion.
pub type Names = Arc<Mutex<Arc<CompletionNames>>>;

/// The background tasks.
pub struct WatchTasks(JoinSet<()>);

impl WatchTasks {
    pub fn start(daemon: &DaemonArgs, names: &Names, notices: &Notices) -> Self {
        let mut tasks = JoinSet::new();
        let changed = Arc::new(Notify::new());
        let watcher = Watcher {
            daemon: daemon.clone(),
            notices: notices.clone(),
            changed: Arc::clone(&changed),
            place: None,
            was_there: false,
            is_gone: false,
            outages: Outages::default(),
        };
        tasks.spawn(watcher.run());
        tasks.spawn(notices.clone().hand_over());
        tasks.spawn(read_names(daemon.clone(), Arc::clone(names), changed));
        Self(tasks)
    }

    pub async fn end(mut self) {
        self.0.shutdown().await;
    }
}

/// Reads the names now, and again when they may have changed.
async fn read_names(daemon: DaemonArgs, names: Names, changed: Arc<Notify>) {
    loop {
        if let Ok(Ok(current)) = timeout(LIMIT, read(&daemon)).await {
            *names.lock() = Arc::new(current);
        }
        changed.notified().await;
        sleep(DEBOUNCE).await;
    }
}

async fn read(daemon: &DaemonArgs) -> Result<CompletionNames, CommandError> {
    let client = daemon.find()?;
    let (servers, tools) = (client.servers().await?, client.tools().await?);
    let (prompts, resources) = (client.prompts().await?, client.resources().await?);
    Ok(CompletionNames::new(&servers, &tools, &prompts, &resources))
}

struct Watcher {
    daemon: DaemonArgs,
    notices: Notices,
    changed: Arc<Notify>,
    place: Option<String>,
    was_there: bool,
    is_gone: bool,
    outages: Outages,
}

impl Watcher {
    async fn run(mut self) {
        loop {
            // Ignore the error, because commands report the reason.
            let followed = match self.daemon.find() {
                Ok(client) => self.follow(&client).await,
                Err(error) => Err(error),
            };
            if self.was_there && !self.is_gone {
                self.is_gone = true;
                self.notices.tell("the daemon is gone; waiting for it");
            }
            tracing::debug!(?followed, "the daemon is followed again");
            sleep(RETRY).await;
        }
    }

    /// Follows one stream of events, and returns when the stream ends.
    async fn follow(&mut self, client: &Client) -> Result<(), CommandError> {
        let mut stream = client.follow_events(self.place.as_deref()).await?;
        let is_back = std::mem::take(&mut self.is_gone);
        self.was_there = true;
        if is_back {
            self.notices.tell("the daemon is back");
        }
        self.changed.notify_one();
        while let Some(message) = stream.next().await? {
            match message {
                Told::Missed => {}
                Told::Snapshot(servers) => {
                    for notice in self.outages.begin(&servers) {
                        self.notices.tell(&notice);
                    }
                }
                Told::Event(event) => {
                    if let Some(notice) =
                        self.outages.notice_about(&event, self.notices.is_typing())
                    {
                        self.notices.tell(&notice);
                    }
                }
            }
            self.changed.notify_one();
            self.place = stream.place().map(str::to_owned);
        }
        Ok(())
    }
}

/// The servers that are down as far as the shell knows.
#[derive(Debug, Default)]
struct Outages(HashSet<String>);

impl Outages {
    /// Replaces the outages by the current state of the servers. Returns the notices about it.
    fn begin(&mut self, servers: &api::Servers) -> Vec<String> {
        self.0.clear();
        let mut notices = Vec::new();
        for server in &servers.servers {
            let is_down = matches!(
                &*server.status,
                "reconnecting" | "error" | "failed" | "crashed"
            );
            if is_down && let Some(reason) = trouble::trouble(server) {
                self.0.insert(server.name.clone());
                notices.push(format!("{} {}: {reason}", server.name, server.status));
            }
        }
        notices
    }

    /// Returns the notice about an event. `None` for events that are normal or were already reported. While a
    /// command runs, connections are not reported, because the command prints its own result.
    fn notice_about(&mut self, event: &api::Event, is_typing: bool) -> Option<String> {
        let (word, detail) = happened::words(event);
        let server = event.server.as_deref().unwrap_or("configuration");
        let kind = serde_json::json!({"type": event.kind, "data": event.data});
        // Show an event of a later version unchanged.
        let kind = serde_json::from_value(kind).ok();
        let is_news = match &kind {
            Some(EventKind::ServerConnected {}) => {
                self.0.remove(server);
                is_typing
            }
            Some(EventKind::ServerReconnected { .. }) => {
                // Do not report a session that was replaced on request.
                self.0.remove(server) || is_typing
            }
            Some(
                EventKind::ServerDisconnected {
                    was_intentional: true,
                    ..
                }
                | EventKind::ServerAdded {}
                | EventKind::ServerRemoved {}
                | EventKind::ServerStarting {}
                | EventKind::ServerRequestSettled { .. }
                | EventKind::ToolsChanged { .. },
            ) => false,
            Some(EventKind::ServerDisconnected { .. } | EventKind::ServerFailed { .. }) => {
                self.0.insert(server.to_owned());
                true
            }
            // Report the first attempt of each outage, unless the outage was already reported.
            Some(EventKind::ServerReconnecting { .. }) => self.0.insert(server.to_owned()),
            Some(
                EventKind::ServerHealthDegraded { .. }
                | EventKind::ServerHealthRestored {}
                | EventKind::CallRefused { .. }
                | EventKind::CallAllowed { .. }
                | EventKind::ServerRequestWaiting { .. }
                | EventKind::ConfigReloaded { .. }
                | EventKind::ConfigRejected { .. }
                | EventKind::CertificateReplaced { .. }
                | EventKind::CertificateExpiring { .. }
                | EventKind::CertificateExpired { .. }
                | EventKind::CertificateRejected { .. },
            )
            | None => true,
        };
        let notice = match &kind {
            Some(EventKind::ConfigReloaded { .. }) => {
                format!("the configuration was read again; {detail}")
            }
            Some(EventKind::ConfigRejected { reason }) => {
                format!("the configuration was refused: {reason}")
            }
            Some(
                EventKind::CertificateReplaced { .. }
                | EventKind::CertificateExpiring { .. }
                | EventKind::CertificateExpired { .. }
                | EventKind::CertificateRejected { .. },
            ) => format!("{word}: {detail}"),
            _ if detail.is_empty() => format!("{server} {word}"),
            _ => format!("{server} {word}: {detail}"),
        };
        is_news.then_some(notice)
    }
}

#[cfg(test)]
mod tests {
    use mainstay_core::{ids::ServerName, lifecycle::SessionState};
    use serde_json::Value;

    use super::*;

    fn event(kind: &EventKind) -> api::Event {
        let json = serde_json::to_value(kind).expect("JSON");
        api::Event {
            id: String::new(),
            kind: json["type"].as_str().expect("a type").to_owned(),
            server: Some("fs".to_owned()),
            created_at: String::new(),
            data: json["data"].as_object().expect("an object").clone(),
        }
    }

    #[test]
    fn losses_and_returns_are_told_once() {
        let lost = EventKind::ServerDisconnected {
            was_intentional: false,
            reason: Some("process exited unexpectedly (signal 9)".to_owned()),
        };
        let stopped = EventKind::ServerDisconnected {
            was_intentional: true,
            reason: None,
        };
        let reconnecting = |attempt| EventKind::ServerReconnecting {
            attempt,
            next_retry_ms: 1000,
            last_error: Some("refused".to_owned()),
        };
        let back = EventKind::ServerReconnected {
            capabilities: Value::Null,
            attempts_taken: 1,
        };
        let given_up = EventKind::ServerFailed {
            status: SessionState::Failed,
            last_error: Some("refused".to_owned()),
        };
        let mut outages = Outages::default();
        let mut notice =
            |kind: &EventKind, is_typing| outages.notice_about(&event(kind), is_typing);
        assert_eq!(
            notice(&lost, true).as_deref(),
            Some("fs lost: process exited unexpectedly (signal 9)")
        );
        assert_eq!(notice(&reconnecting(1), true), None);
        assert_eq!(
            notice(&back, false).as_deref(),
            Some("fs reconnected: after 1 attempt")
        );
        assert_eq!(notice(&stopped, true), None);
        assert_eq!(
            notice(&EventKind::ServerConnected {}, true).as_deref(),
            Some("fs connected")
        );
        assert_eq!(notice(&EventKind::ServerConnected {}, false), None);
        let changed = EventKind::ConfigReloaded {
            added: Vec::new(),
            removed: Vec::new(),
            changed: vec![ServerName::new("off").expect("a legal name")],
        };
        assert_eq!(
            notice(&changed, false).as_deref(),
            Some("the configuration was read again; changed: off")
        );
        let refused = EventKind::ConfigRejected {
            reason: "no JSON".to_owned(),
        };
        assert_eq!(
            notice(&refused, false).as_deref(),
            Some("the configuration was refused: no JSON")
        );
        // The server was never connected.
        assert_eq!(
            notice(&reconnecting(1), true).as_deref(),
            Some("fs reconnecting: refused; attempt 1 in 1.0 s")
        );
        assert_eq!(notice(&reconnecting(2), true), None);
        assert_eq!(
            notice(&given_up, false).as_deref(),
            Some("fs failed: refused")
        );
    }
}
