//! Turns the events of servers into alerts (`alerts` in the configuration).
//!
//! Each configured alert has one [`AlertWatch`]. It gets every event, and a call at its deadline.
//! Each alarm is sent once, and so is its end.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    time::{Duration, Instant},
};

use serde::{Serialize, Serializer};

use crate::{
    config::{Alert, AlertKind},
    event::EventKind,
    ids::ServerName,
};

/// A message for the receiver of an alert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// The server that it is about. `None` if it is about Mainstay itself.
    pub server: Option<ServerName>,
    pub content: AlarmContent,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(
    tag = "alert",
    content = "data",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub enum AlarmContent {
    ServerDown {
        #[serde(rename = "downMs", serialize_with = "millis")]
        down: Duration,
        reason: Option<String>,
    },
    Flapping {
        losses: u32,
        #[serde(rename = "withinMs", serialize_with = "millis")]
        within: Duration,
        reason: Option<String>,
    },
    ToolsVanished {
        /// Names of some of the removed tools.
        removed: Vec<String>,
    },
    /// The listener's certificate needs a person.
    Certificate { path: String, problem: String },
    /// The problem of an earlier alarm ended after this time.
    Recovered {
        from: AlertKind,
        #[serde(rename = "afterMs", serialize_with = "millis")]
        after: Duration,
    },
}

fn millis<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

impl AlarmContent {
    pub const fn kind(&self) -> AlertKind {
        match self {
            Self::ServerDown { .. } => AlertKind::ServerDown,
            Self::Flapping { .. } => AlertKind::Flapping,
            Self::ToolsVanished { .. } => AlertKind::ToolsVanished,
            Self::Certificate { .. } => AlertKind::Certificate,
            Self::Recovered { .. } => AlertKind::Recovered,
        }
    }
}

/// Writes the alarm as a sentence.
impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = self.server.as_ref().map_or("", ServerName::as_str);
        let because = |reason: &Option<String>| {
            let reason = reason.as_deref();
            reason.map_or_else(String::new, |reason| format!(": {reason}"))
        };
        match &self.content {
            AlarmContent::ServerDown { down, reason } => {
                let (secs, reason) = (down.as_secs(), because(reason));
                write!(f, "server {server} has been down for {secs} s{reason}")
            }
            AlarmContent::Flapping {
                losses,
                within,
                reason,
            } => {
                let (secs, reason) = (within.as_secs(), because(reason));
                write!(
                    f,
                    "server {server} was lost {losses} times within {secs} s{reason}"
                )
            }
            AlarmContent::ToolsVanished { .. } => {
                write!(
                    f,
                    "server {server} is connected, but lists no tools any more"
                )
            }
            AlarmContent::Certificate { path, problem } => {
                write!(f, "the certificate {path} {problem}")
            }
            AlarmContent::Recovered {
                from: AlertKind::Certificate,
                after,
            } => {
                write!(
                    f,
                    "the certificate is in order again, after {} s",
                    after.as_secs()
                )
            }
            AlarmContent::Recovered { from, after } => {
                let recovery = match from {
                    AlertKind::ServerDown => "is connected again",
                    AlertKind::Flapping => "is steady again",
                    AlertKind::ToolsVanished | AlertKind::Certificate | AlertKind::Recovered => {
                        "lists tools again"
                    }
                };
                write!(f, "server {server} {recovery}, after {} s", after.as_secs())
            }
        }
    }
}

/// The state of one configured alert, for all servers.
#[derive(Debug)]
pub struct AlertWatch {
    alert: Alert,
    servers: BTreeMap<ServerName, ServerTrouble>,
    /// Time of the first alarm about the certificate in use.
    certificate: Option<Instant>,
}

/// The current problems of one server.
#[derive(Debug, Default)]
struct ServerTrouble {
    up: bool,
    down: Option<Down>,
    /// The last losses, oldest first. At most the number that counts as flapping.
    losses: VecDeque<Instant>,
    /// Time of the first loss of the reported flapping.
    flapping: Option<Instant>,
    /// Time at which the loss of all tools was reported.
    vanished: Option<Instant>,
}

#[derive(Debug)]
struct Down {
    since: Instant,
    reason: Option<String>,
    is_reported: bool,
}

impl AlertWatch {
    pub fn new(alert: Alert) -> Self {
        Self {
            alert,
            servers: BTreeMap::new(),
            certificate: None,
        }
    }

    /// Returns the alarm that follows from an event of Mainstay itself at `now`.
    pub fn see_own(&mut self, event: &EventKind, now: Instant) -> Option<Alarm> {
        let (path, problem) = match event {
            EventKind::CertificateExpiring {
                path,
                expires_at,
                days_left,
            } => {
                let days = match days_left {
                    0 => "less than a day".to_owned(),
                    1 => "1 day".to_owned(),
                    days => format!("{days} days"),
                };
                (path, format!("expires in {days}, at {expires_at}"))
            }
            EventKind::CertificateExpired { path, expires_at } => {
                (path, format!("has expired, at {expires_at}"))
            }
            EventKind::CertificateRejected { path, reason } => {
                let problem = format!("cannot be used, so the old one stays in use: {reason}");
                (path, problem)
            }
            EventKind::CertificateReplaced { .. } => {
                let since = self.certificate.take()?;
                let content = recovered_content(AlertKind::Certificate, since, now);
                return self.own_alarm(content);
            }
            EventKind::ServerAdded {}
            | EventKind::ServerRemoved {}
            | EventKind::ServerStarting {}
            | EventKind::ServerConnected {}
            | EventKind::ServerDisconnected { .. }
            | EventKind::ServerReconnecting { .. }
            | EventKind::ServerReconnected { .. }
            | EventKind::ServerHealthDegraded { .. }
            | EventKind::ServerHealthRestored {}
            | EventKind::ServerFailed { .. }
            | EventKind::CallRefused { .. }
            | EventKind::CallAllowed { .. }
            | EventKind::ServerRequestWaiting { .. }
            | EventKind::ServerRequestSettled { .. }
            | EventKind::ToolsChanged { .. }
            | EventKind::ConfigReloaded { .. }
            | EventKind::ConfigRejected { .. } => return None,
        };
        let content = AlarmContent::Certificate {
            path: path.clone(),
            problem,
        };
        let alarm = self.own_alarm(content)?;
        self.certificate.get_or_insert(now);
        Some(alarm)
    }

    fn own_alarm(&self, content: AlarmContent) -> Option<Alarm> {
        self.alert.is_about_itself(content.kind()).then_some(Alarm {
            server: None,
            content,
        })
    }

    /// Returns the alarms that follow from an event of `server` at `now`.
    pub fn see(&mut self, server: &ServerName, event: &EventKind, now: Instant) -> Vec<Alarm> {
        let about = |kind| self.alert.is_about(kind, server);
        let server_problems = self.servers.entry(server.clone()).or_default();
        let mut notices = Vec::new();
        match event {
            EventKind::ServerDisconnected {
                was_intentional: true,
                ..
            } => {
                // The operator stopped the server, so no alarm is due.
                server_problems.up = false;
                server_problems.down = None;
            }
            EventKind::ServerDisconnected {
                was_intentional: false,
                reason,
            } => {
                server_problems.is_down(reason.as_ref(), now);
                if about(AlertKind::Flapping) {
                    notices.extend(server_problems.record_loss(&self.alert, now));
                }
            }
            EventKind::ServerReconnecting { last_error, .. }
            | EventKind::ServerFailed { last_error, .. } => {
                server_problems.is_down(last_error.as_ref(), now);
            }
            EventKind::ServerConnected {} | EventKind::ServerReconnected { .. } => {
                server_problems.up = true;
                let down_period = server_problems
                    .down
                    .take()
                    .filter(|down_period| down_period.is_reported);
                notices.extend(down_period.map(|down_period| {
                    recovered_content(AlertKind::ServerDown, down_period.since, now)
                }));
            }
            EventKind::ToolsChanged { removed, count, .. } => {
                if *count > 0 {
                    let vanished_at = server_problems.vanished.take();
                    notices.extend(vanished_at.map(|vanished_at| {
                        recovered_content(AlertKind::ToolsVanished, vanished_at, now)
                    }));
                } else if !removed.is_empty() && about(AlertKind::ToolsVanished) {
                    server_problems.vanished = Some(now);
                    notices.push(AlarmContent::ToolsVanished {
                        removed: removed.clone(),
                    });
                }
            }
            EventKind::ServerRemoved {} => {
                self.servers.remove(server);
            }
            EventKind::ServerAdded {}
            | EventKind::ServerStarting {}
            | EventKind::ServerHealthDegraded { .. }
            | EventKind::ServerHealthRestored {}
            | EventKind::CallRefused { .. }
            | EventKind::CallAllowed { .. }
            | EventKind::ServerRequestWaiting { .. }
            | EventKind::ServerRequestSettled { .. }
            | EventKind::ConfigReloaded { .. }
            | EventKind::ConfigRejected { .. }
            | EventKind::CertificateReplaced { .. }
            | EventKind::CertificateExpiring { .. }
            | EventKind::CertificateExpired { .. }
            | EventKind::CertificateRejected { .. } => {}
        }
        let mut alarms = self.alarms(server, notices);
        alarms.extend(self.tick(now));
        alarms
    }

    /// Returns the alarms that are due at `now`.
    pub fn tick(&mut self, now: Instant) -> Vec<Alarm> {
        let mut due_alarms = Vec::new();
        for (server, server_problems) in &mut self.servers {
            let notices = server_problems.due_notices(&self.alert, server, now);
            if !notices.is_empty() {
                due_alarms.push((server.clone(), notices));
            }
        }
        due_alarms
            .into_iter()
            .flat_map(|(server, notices)| self.alarms(&server, notices))
            .collect()
    }

    /// Time at which [`AlertWatch::tick`] is due, if no event comes first.
    pub fn deadline(&self) -> Option<Instant> {
        let deadlines = self.servers.iter().flat_map(|(server, server_problems)| {
            [
                server_problems.down_due(&self.alert, server),
                server_problems.steady_due(&self.alert),
            ]
        });
        deadlines.flatten().min()
    }

    fn alarms(&self, server: &ServerName, notices: Vec<AlarmContent>) -> Vec<Alarm> {
        notices
            .into_iter()
            .filter(|notice| self.alert.is_about(notice.kind(), server))
            .map(|notice| Alarm {
                server: Some(server.clone()),
                content: notice,
            })
            .collect()
    }
}

fn recovered_content(from: AlertKind, since: Instant, now: Instant) -> AlarmContent {
    AlarmContent::Recovered {
        from,
        after: now.duration_since(since),
    }
}

impl ServerTrouble {
    fn is_down(&mut self, reason: Option<&String>, now: Instant) {
        self.up = false;
        let down = self.down.get_or_insert(Down {
            since: now,
            reason: None,
            is_reported: false,
        });
        if let Some(reason) = reason {
            down.reason = Some(reason.clone());
        }
    }

    /// Records a loss. Returns an alarm if the server is flapping now.
    fn record_loss(&mut self, alert: &Alert, now: Instant) -> Option<AlarmContent> {
        let (losses, within) = (alert.flapping.losses, alert.flapping.within);
        self.losses.push_back(now);
        if self.losses.len() > losses as usize {
            self.losses.pop_front();
        }
        let first_loss = *self.losses.front()?;
        let is_flapping =
            self.losses.len() == losses as usize && now.duration_since(first_loss) <= within;
        if !is_flapping || self.flapping.is_some() {
            return None;
        }
        self.flapping = Some(first_loss);
        Some(AlarmContent::Flapping {
            losses,
            within,
            reason: self.down.as_ref().and_then(|down| down.reason.clone()),
        })
    }

    /// Time at which a server that is down must be reported.
    fn down_due(&self, alert: &Alert, server: &ServerName) -> Option<Instant> {
        let down = self.down.as_ref().filter(|down| !down.is_reported)?;
        alert
            .is_about(AlertKind::ServerDown, server)
            .then_some(down.since + alert.after)
    }

    /// Time at which a flapping server has recovered, if it stays up.
    fn steady_due(&self, alert: &Alert) -> Option<Instant> {
        self.flapping.filter(|_| self.up)?;
        self.losses
            .back()
            .map(|last_loss| *last_loss + alert.flapping.within)
    }

    fn due_notices(
        &mut self,
        alert: &Alert,
        server: &ServerName,
        now: Instant,
    ) -> Vec<AlarmContent> {
        let mut notices = Vec::new();
        if self.down_due(alert, server).is_some_and(|due| due <= now)
            && let Some(down) = &mut self.down
        {
            down.is_reported = true;
            notices.push(AlarmContent::ServerDown {
                down: now.duration_since(down.since),
                reason: down.reason.clone(),
            });
        }
        if self.steady_due(alert).is_some_and(|due| due <= now) {
            self.losses.clear();
            let flapping_since = self.flapping.take();
            notices.extend(
                flapping_since.map(|flapping_since| {
                    recovered_content(AlertKind::Flapping, flapping_since, now)
                }),
            );
        }
        notices
    }
}

#[cfg(test)]
mod tests;
