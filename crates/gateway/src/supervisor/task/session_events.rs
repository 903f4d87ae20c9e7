//! Opens a session, probes it, and handles its end.

use std::{sync::Arc, time::SystemTime};

use mainstay_core::{
    catalog::ListKind,
    config::Launch,
    ids::Epoch,
    lifecycle::{Event, Loss, Report as LifeReport, State},
    start::Rank,
};
use mainstay_transport::{self as transport, HealthUrl, Opening, Session};
use tokio::time::Instant;
use tracing::Instrument as _;

use super::{Task, history::Exit};
use crate::supervisor::{
    attempt::{Attempt, Ending, connect},
    declared::steps_down,
    entries::Known,
    fleet::Report,
    pace::Wish,
    probe,
    server_view::Crash,
    session_key::SessionKey,
};

impl Task {
    pub(super) fn open(&mut self, which: SessionKey, epoch: Epoch) {
        let hang_after = self.shared.policy.health.hang_after;
        let silence = self.shared.policy.connect_timeout;
        let wish = self.wish(which);
        let Some(managed) = self.managed(which) else {
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
            tag: match which {
                SessionKey::Shared => format!("{}:{epoch}", self.config.name),
                SessionKey::Isolated(id) => {
                    format!("{}:p{}.{epoch}", self.config.name, id.0)
                }
            },
            launch: self.config.launch.clone(),
            credentials: None,
            approach: self.approach(which),
            initialize,
            steps_down: matches!(which, SessionKey::Isolated(_)) || steps_down(&self.config),
            max_message_bytes: self.config.max_message_bytes,
            hang_after,
            listener,
            log: Arc::clone(&self.log),
            signs: Arc::default(),
            attempt_limiter: Arc::clone(&self.fleet.pace.turns),
            stop,
        };
        let (fleet, progress) = (Arc::clone(&self.fleet), self.progress.0.clone());
        let known = Known {
            config: Arc::clone(&self.config),
            entries: self.fleet.entries.clone(),
        };
        let attempt = Attempt {
            known,
            opening,
            wish,
            silence,
        };
        let connecting = connect(fleet, attempt, which, epoch, progress);
        let connection = self.connections.spawn(connecting.in_current_span());
        self.carries.insert(connection.id(), (which, epoch));
    }

    /// How urgent the session is.
    fn wish(&self, which: SessionKey) -> Wish {
        match which {
            SessionKey::Shared => Wish {
                rank: match self.view.borrow().catalog {
                    Some(_) => Rank::Known,
                    None => Rank::New,
                },
                asked: Some(self.asked.subscribe()),
            },
            // Its client waits for it.
            SessionKey::Isolated(_) => Wish {
                rank: Rank::Asked,
                asked: None,
            },
        }
    }

    pub(super) fn probe(&mut self, which: SessionKey, epoch: Epoch) {
        let policy = self.shared.policy.health.clone();
        let http = match &self.config.launch {
            Launch::Http(launch) => Some(launch),
            Launch::Stdio(_) | Launch::Broken(_) | Launch::Unapproved => None,
        };
        let url = self
            .config
            .health_check_url
            .as_ref()
            .and_then(|url| HealthUrl::new(url, http));
        let session = self
            .managed(which)
            .and_then(|managed| managed.session.clone());
        let Some(session) = session else { return };
        let server = self.config.name.clone();
        self.probes
            .start(server, which, epoch, probe::probe(session, policy, url));
    }

    pub(super) async fn opened(&mut self, which: SessionKey, epoch: Epoch, session: Arc<Session>) {
        let Some(managed) = self.managed(which) else {
            return;
        };
        // One that is over already is about to be reported, or has been.
        if epoch != managed.epoch() || session.is_over() {
            return;
        }
        let (eras, transport) = (session.eras, session.transport());
        let avoids_probe = session.avoids_probe;
        managed.session = Some(session);
        self.learn(eras);
        if which == SessionKey::Shared {
            if avoids_probe {
                self.avoid_probe(true);
            }
            self.first = self.view.borrow().eras.first();
            self.asked.send_replace(false);
            let begun = self.shared.status().begun;
            let now = Instant::now().into_std();
            self.view.send_modify(|view| {
                view.connected_at = Some(SystemTime::now());
                view.handshake = begun.map(|begun| now.saturating_duration_since(begun));
                view.spoken = Some(transport);
                view.sessions += 1;
            });
        }
        self.step(which, Event::Io(epoch, LifeReport::Opened));
        if which == SessionKey::Shared {
            self.renew();
        }
        if which == SessionKey::Shared && self.shared.status().state == State::Connected {
            self.report(Report::Opened).await;
            self.listings.reset();
            self.list(ListKind::ALL.to_vec(), Vec::new());
        }
    }

    /// The server accepts the credentials of its session no more. Where they stand in a file, there may be others by
    /// now: it is not waited long for, but not each time.
    fn try_other_credentials(&mut self) {
        let spacing = self.shared.policy.reconnect.unauthorized_spacing;
        let is_recent = self
            .other_credentials
            .is_some_and(|tried| tried.elapsed() < spacing);
        if self.config.reads_files && self.view.borrow().wanted && !is_recent {
            self.other_credentials = Some(Instant::now());
            self.step(SessionKey::Shared, Event::Reconnect);
        }
    }

    pub(super) fn ended(&mut self, which: SessionKey, epoch: Epoch, ending: Ending) {
        let Ending { loss, eras } = ending;
        // It may quote the server, which may quote our request's headers.
        let loss = loss.reworded(|text| self.log.shown(&text).into_owned());
        tracing::info!(server = %self.config.name, ?which, %epoch, %loss, "session ended");
        if let Loss::Crashed { code, signal } = loss {
            if which == SessionKey::Shared {
                self.last_exit = Some(Exit { code, signal });
            }
            let at = SystemTime::now();
            self.view.send_modify(|view| {
                view.crashes.count += 1;
                view.crashes.last = Some(Crash {
                    at,
                    code,
                    signal,
                    is_shared: which == SessionKey::Shared,
                });
            });
        }
        let Some(managed) = self.managed(which) else {
            return;
        };
        let session = (epoch == managed.epoch())
            .then(|| managed.session.take())
            .flatten();
        let was_up = session.is_some();
        if !was_up {
            self.refused(which, &loss, eras);
        }
        let report = match (which, session) {
            (SessionKey::Shared, Some(session)) if matches!(loss, Loss::Crashed { .. }) => {
                self.record_crash(&session, loss)
            }
            _ => LifeReport::Ended(loss),
        };
        let event = Event::Io(epoch, report);
        match which {
            SessionKey::Shared => {
                self.step(which, event);
                if was_up && self.shared.status().unauthorized {
                    self.try_other_credentials();
                }
                // One that is opened again at once is still in its first attempt.
                if !self.shared.status().attempting {
                    self.view.send_modify(|view| view.attempted = true);
                }
            }
            SessionKey::Isolated(id) => {
                self.step(which, event);
                self.isolated_ended(id, was_up);
            }
        }
    }
}
