//! Opens a session, probes the session, and handles its end.

use std::{sync::Arc, time::SystemTime};

use mainstay_core::{
    catalog::ListKind,
    config::Launch,
    ids::Epoch,
    lifecycle::{Event, Loss, SessionReport as LifeReport, SessionState},
    principal::Principal,
    start::Rank,
};
use mainstay_transport::{self as transport, HealthUrl, Opening, UpstreamSession};
use tokio::time::Instant;
use tracing::Instrument as _;

use super::{Task, history::Exit};
use crate::supervisor::{
    attempt::{Ending, SessionAttempt, connect},
    declared::steps_down,
    entries::CurrentEntry,
    fleet::SupervisorReport,
    pace::Urgency,
    probe,
    server_view::Crash,
    session_key::SessionKey,
};

impl Task {
    pub(super) fn open(&mut self, key: SessionKey, epoch: Epoch) {
        let hang_after = self.shared.policy.health.hang_after;
        let silence = self.shared.policy.connect_timeout;
        let urgency = self.urgency(key);
        let principal = self.principal(key);
        let Some(managed) = self.managed(key) else {
            return;
        };
        let stop = transport::Stop::default();
        managed.stop = stop.clone();
        let (initialize, listener) = (
            Arc::clone(&managed.initialize),
            Arc::clone(&managed.listener),
        );
        managed.begun_with = Arc::clone(&initialize);
        let opening = Opening {
            server: self.config.name.clone(),
            lineage: self.fleet.lineage.clone(),
            tag: match key {
                SessionKey::Shared => format!("{}:{epoch}", self.config.name),
                SessionKey::Isolated(id) => {
                    format!("{}:p{}.{epoch}", self.config.name, id.0)
                }
            },
            launch: self.config.launch.clone(),
            credentials: self.fleet.credentials(&self.config, &principal, &self.log),
            approach: self.approach(key),
            initialize,
            steps_down: matches!(key, SessionKey::Isolated(_)) || steps_down(&self.config),
            max_message_bytes: self.config.max_message_bytes,
            hang_after,
            listener,
            log: Arc::clone(&self.log),
            signs: Arc::default(),
            attempt_limiter: Arc::clone(&self.fleet.pace.turns),
            stop,
        };
        let (fleet, progress) = (Arc::clone(&self.fleet), self.connections.progress.0.clone());
        let entry = CurrentEntry {
            config: Arc::clone(&self.config),
            entries: self.fleet.entries.clone(),
        };
        let attempt = SessionAttempt {
            entry,
            opening,
            urgency,
            silence,
        };
        let connecting = connect(fleet, attempt, key, epoch, progress);
        let connection = self.connections.tasks.spawn(connecting.in_current_span());
        self.connections.keys.insert(connection.id(), (key, epoch));
    }

    /// The principal whose credentials a session uses. For the shared session, the anonymous
    /// principal.
    fn principal(&self, key: SessionKey) -> Principal {
        let principal = match key {
            SessionKey::Shared => None,
            SessionKey::Isolated(id) => self.isolated_sessions.principal(id),
        };
        principal.cloned().unwrap_or_default()
    }

    /// The urgency of opening a session.
    fn urgency(&self, key: SessionKey) -> Urgency {
        match key {
            SessionKey::Shared => Urgency {
                rank: match self.view.borrow().catalog {
                    Some(_) => Rank::Known,
                    None => Rank::New,
                },
                requested: Some(self.handles.requested.subscribe()),
            },
            // A client waits for its isolated session.
            SessionKey::Isolated(_) => Urgency {
                rank: Rank::Requested,
                requested: None,
            },
        }
    }

    pub(super) fn probe(&mut self, key: SessionKey, epoch: Epoch) {
        let policy = self.shared.policy.health.clone();
        let http = match &self.config.launch {
            Launch::Http(launch) => Some(launch),
            Launch::Stdio(_) | Launch::Broken(_) | Launch::Unapproved => None,
        };
        let url = self.config.health_check_url.as_ref().and_then(|url| {
            let principal = Principal::Anonymous;
            let credentials = self.fleet.credentials(&self.config, &principal, &self.log);
            HealthUrl::new(url, http, credentials)
        });
        let session = self
            .managed(key)
            .and_then(|managed| managed.session.clone());
        let Some(session) = session else { return };
        let server = self.config.name.clone();
        self.probes
            .start(server, key, epoch, probe::probe(session, policy, url));
    }

    pub(super) async fn handle_opened(
        &mut self,
        key: SessionKey,
        epoch: Epoch,
        session: Arc<UpstreamSession>,
    ) {
        let Some(managed) = self.managed(key) else {
            return;
        };
        // Ignore a session that is over. Its end is reported separately.
        if epoch != managed.epoch() || session.is_over() {
            return;
        }
        let (eras, transport) = (session.eras, session.transport());
        let avoids_probe = session.avoids_probe;
        managed.session = Some(session);
        self.record_eras(eras);
        if key == SessionKey::Shared {
            if avoids_probe {
                self.avoid_probe(true);
            }
            self.eras.first = self.view.borrow().eras.first();
            self.handles.requested.send_replace(false);
            let started_at = self.shared.status().begun_at;
            let now = Instant::now().into_std();
            self.view.send_modify(|view| {
                view.connected_at = Some(SystemTime::now());
                view.handshake = started_at.map(|time| now.saturating_duration_since(time));
                view.last_transport = Some(transport);
                view.sessions += 1;
            });
        }
        self.step(key, Event::Io(epoch, LifeReport::Opened));
        if key == SessionKey::Shared {
            self.reopen_if_redeclared();
        }
        if key == SessionKey::Shared && self.shared.status().state == SessionState::Connected {
            self.report(SupervisorReport::Opened).await;
            self.lists.listings.reset();
            self.list(ListKind::ALL.to_vec(), Vec::new());
        }
    }

    /// Reconnects after the server has refused the credentials of an open session. Only for an entry
    /// that refers to files, because a file may have newer credentials. At most once per
    /// `unauthorized_spacing`.
    fn try_other_credentials(&mut self) {
        let spacing = self.shared.policy.reconnect.unauthorized_spacing;
        let is_recent = self
            .other_credentials
            .is_some_and(|tried| tried.elapsed() < spacing);
        if self.config.reads_files && self.view.borrow().is_desired_up && !is_recent {
            self.other_credentials = Some(Instant::now());
            self.step(SessionKey::Shared, Event::Reconnect);
        }
    }

    pub(super) fn handle_ended(&mut self, key: SessionKey, epoch: Epoch, ending: Ending) {
        let Ending { loss, eras } = ending;
        // Redact secrets. The loss may quote the server, and the server may quote the headers of
        // our requests.
        let loss = loss.reworded(|text| self.log.redacted(&text).into_owned());
        tracing::info!(server = %self.config.name, which = ?key, %epoch, %loss, "session ended");
        if let Loss::Crashed { code, signal } = loss {
            if key == SessionKey::Shared {
                self.recorder.last_exit = Some(Exit { code, signal });
            }
            let at = SystemTime::now();
            self.view.send_modify(|view| {
                view.crashes.count += 1;
                view.crashes.last = Some(Crash {
                    at,
                    code,
                    signal,
                    is_shared: key == SessionKey::Shared,
                });
            });
        }
        let Some(managed) = self.managed(key) else {
            return;
        };
        let session = (epoch == managed.epoch())
            .then(|| managed.session.take())
            .flatten();
        let was_up = session.is_some();
        if !was_up {
            self.learn_from_refusal(key, &loss, eras);
        }
        let report = match (key, session) {
            (SessionKey::Shared, Some(session)) if matches!(loss, Loss::Crashed { .. }) => {
                self.record_crash(&session, loss)
            }
            _ => LifeReport::Ended(loss),
        };
        let event = Event::Io(epoch, report);
        match key {
            SessionKey::Shared => {
                self.step(key, event);
                if was_up && self.shared.status().unauthorized {
                    self.try_other_credentials();
                }
                // If the lifecycle has begun another attempt at once, that attempt counts as the first.
                if !self.shared.status().attempting {
                    self.view.send_modify(|view| view.attempted = true);
                }
            }
            SessionKey::Isolated(id) => {
                self.step(key, event);
                self.isolated_ended(id, was_up);
            }
        }
    }
}
