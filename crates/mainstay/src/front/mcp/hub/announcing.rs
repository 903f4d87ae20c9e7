//! What servers say of themselves, to the clients whom it concerns.

use std::{collections::HashMap, sync::Arc, time::Duration};

use mainstay_core::{
    catalog::ListKind,
    era::LogLevel,
    ids::ServerName,
    message::{self, Method},
};
use tokio::{sync::broadcast::error::RecvError, time::Instant};
use tokio_util::sync::CancellationToken;

use super::Hub;
use crate::{
    calls,
    front::mcp::session::{Backend, ClientSession},
    registry::Announcement,
    transport::{Frame, Notice},
};

/// How often idle sessions are looked for.
const SWEEP: Duration = Duration::from_secs(30);

/// Servers that start together change the lists together; clients are told once (Y7).
const CHANGE_DEBOUNCE: Duration = Duration::from_millis(200);

impl Hub {
    /// Tells sessions what servers announce, and ends idle ones, until told to stop.
    pub async fn run(&self, stop: CancellationToken) {
        let mut announcements = self.registry.listen();
        let mut changed: HashMap<Method, Instant> = HashMap::new();
        let mut tell_at = None::<Instant>;
        let mut sweep = tokio::time::interval(SWEEP);
        loop {
            let telling = async {
                match tell_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                announcement = announcements.recv() => match announcement {
                    Ok(Announcement::ListChanged(kind, at)) => {
                        // Resources and templates share one notification.
                        changed.insert(kind.changed(), at);
                        tell_at.get_or_insert(Instant::now() + CHANGE_DEBOUNCE);
                    }
                    Ok(Announcement::ServerListChanged(server, kind)) => self.tell_translated(&server, kind),
                    Ok(Announcement::ServersChanged) => {}
                    Ok(Announcement::Opened(server)) => self.brief(&server),
                    Ok(Announcement::Notice(server, notice)) => self.relay(&server, &notice),
                    Err(RecvError::Lagged(missed)) => tracing::warn!(missed, "announcements were missed"),
                    Err(RecvError::Closed) => return,
                },
                () = telling => {
                    tell_at = None;
                    self.tell_changes(&std::mem::take(&mut changed));
                }
                _ = sweep.tick() => self.sweep(),
            }
        }
    }

    /// Tells everyone who may have listed before the last change.
    fn tell_changes(&self, changed: &HashMap<Method, Instant>) {
        for session in self.aggregates() {
            for (method, _) in changed.iter().filter(|(_, at)| session.opened < **at) {
                session
                    .outbox
                    .push(message::request(None, method.name(), None));
            }
        }
        for (method, at) in changed {
            self.listens.tell_change(*method, *at);
        }
    }

    /// Tells the clients of one server, where its own words do not reach them.
    fn tell_translated(&self, server: &ServerName, kind: ListKind) {
        let changed = message::request(None, kind.changed().name(), None);
        for session in self.all() {
            if let Backend::Translated(own) = &session.backend
                && own.name == *server
            {
                session.outbox.push(changed.clone());
            }
        }
    }

    fn aggregates(&self) -> impl Iterator<Item = Arc<ClientSession>> {
        self.all()
            .into_iter()
            .filter(|session| matches!(session.backend, Backend::Aggregate))
    }

    fn relay(&self, server: &ServerName, notice: &Notice) {
        match notice.method {
            Method::LogMessage => self.relay_log(server, &notice.frame),
            Method::ResourceUpdated => self.relay_update(server, &notice.frame),
            _ => {}
        }
    }

    /// Tells everyone whom a log message may concern, when nobody knows whose call it is about.
    fn relay_log(&self, server: &ServerName, frame: &Frame) {
        let level = calls::log_level(frame);
        let is_wanted = |wanted: LogLevel| level.is_none_or(|level| level >= wanted);
        for session in self.all() {
            let hears = match &session.backend {
                // Without a wish a client sees all (specification, logging: then the server decides).
                Backend::Aggregate => session.log_level().is_none_or(is_wanted),
                // This server says only what it was asked for (2026-07-28, "Logging").
                Backend::Translated(own) => {
                    own.name == *server && session.log_level().is_some_and(is_wanted)
                }
                Backend::Transparent(_) => false,
            };
            if hears {
                session.outbox.push(frame.one_line());
            }
        }
    }

    fn relay_update(&self, server: &ServerName, frame: &Frame) {
        let Some(uri) = frame.text_param("uri") else {
            return;
        };
        for (name, used) in self.subscriptions.listeners(server, &uri) {
            if let Some(session) = self.session(&name) {
                session
                    .outbox
                    .push(frame.with_param("uri", &message::quote(&used)));
            } else {
                self.listens.tell_update(&name, frame, &used);
            }
        }
    }
}
