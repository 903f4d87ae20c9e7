//! Passes servers' notifications on to the clients that they concern.

use std::{collections::HashMap, sync::Arc, time::Duration};

use mainstay_core::{
    catalog::ListKind,
    era::LogLevel,
    ids::{ProfileName, ServerName},
    message::{self, Method},
};
use mainstay_gateway::{
    calls,
    registry::{Announcement, Profile},
};
use mainstay_transport::{Frame, Notice};
use tokio::{sync::broadcast::error::RecvError, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    clients::Clients,
    endpoint::isolation,
    sessions::session::{Backend, ClientSession},
};

/// How often idle sessions are looked for.
const SWEEP: Duration = Duration::from_secs(30);

/// Servers that start together change the lists together; clients are told once.
const CHANGE_DEBOUNCE: Duration = Duration::from_millis(200);

impl Clients {
    /// Tells sessions what servers announce, and ends idle ones, until told to stop.
    pub async fn run(&self, stop: CancellationToken) {
        let mut announcements = self.gateway().registry.listen();
        let mut changed: HashMap<(ProfileName, Method), Instant> = HashMap::new();
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
                    Ok(Announcement::ListChanged(profile, kind, at)) => {
                        // Resources and templates share one notification.
                        changed.insert((profile, kind.changed()), at);
                        tell_at.get_or_insert(Instant::now() + CHANGE_DEBOUNCE);
                    }
                    Ok(Announcement::ServerListChanged(server, kind)) => self.tell_sharers(&server, kind),
                    Ok(Announcement::ProfileGone(profile)) => self.end_profile(&profile),
                    Ok(Announcement::Switched(clients)) => self.tell_switched(&clients),
                    Ok(Announcement::ServersChanged) => {}
                    Ok(Announcement::Opened(server)) => self.shared.brief(&server),
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

    /// Tells every client that may have listed before the last change.
    fn tell_changes(&self, changed: &HashMap<(ProfileName, Method), Instant>) {
        let aggregates = self.aggregates();
        for ((name, method), at) in changed {
            let change = message::request(None, method.name(), None);
            for (session, profile) in &aggregates {
                if profile.name == *name && session.opened < *at {
                    session.outbox.push(change.clone());
                }
            }
            self.stateless
                .listen_streams
                .tell_change(*method, *at, |client| client.is_of_profile(name));
        }
    }

    /// Tells clients of these names that their lists have changed, because their switches have.
    fn tell_switched(&self, clients: &[String]) {
        let now = Instant::now();
        let aggregates = self.aggregates();
        for method in [
            Method::ToolsChanged,
            Method::PromptsChanged,
            Method::ResourcesChanged,
        ] {
            let change = message::request(None, method.name(), None);
            for (session, _) in &aggregates {
                if session.client.is_among(clients) {
                    session.outbox.push(change.clone());
                }
            }
            self.stateless
                .listen_streams
                .tell_change(method, now, |client| client.is_among(clients));
        }
    }

    /// Ends the sessions and streams of a profile that is there no more.
    fn end_profile(&self, name: &ProfileName) {
        for (session, profile) in self.aggregates() {
            if profile.name == *name {
                self.end(&session.id, "the profile has been removed");
            }
        }
        self.stateless.listen_streams.end(name);
    }

    /// Tells the clients of one server, where its own words do not reach them.
    fn tell_sharers(&self, server: &ServerName, kind: ListKind) {
        let changed = message::request(None, kind.changed().name(), None);
        for session in self.shared.sessions.all() {
            if let Backend::Shared(own) = &session.backend
                && own.name == *server
            {
                session.outbox.push(changed.clone());
            }
        }
        self.stateless
            .listen_streams
            .tell_change(kind.changed(), Instant::now(), |client| {
                client.is_of_server(server)
            });
    }

    /// The sessions on profiles.
    fn aggregates(&self) -> Vec<(Arc<ClientSession>, Arc<Profile>)> {
        let sessions = self.shared.sessions.all().into_iter();
        let of_profile = sessions.filter_map(|session| match &session.backend {
            Backend::Aggregate(profile) => {
                let profile = Arc::clone(profile);
                Some((session, profile))
            }
            Backend::Transparent(_) | Backend::Shared(_) => None,
        });
        of_profile.collect()
    }

    fn relay(&self, server: &ServerName, notice: &Notice) {
        match notice.method {
            Method::LogMessage => self.relay_log(server, &notice.frame),
            Method::ResourceUpdated => self.relay_update(server, &notice.frame),
            _ => {}
        }
    }

    /// Sends a log message to every client that it may concern, if its call is unknown.
    fn relay_log(&self, server: &ServerName, frame: &Frame) {
        let level = calls::log_level(frame);
        let is_wanted = |wanted: LogLevel| level.is_none_or(|level| level >= wanted);
        let speaker = self.gateway().registry.named(server);
        // Clients with sessions of their own hear those.
        let is_apart = |session: &ClientSession| {
            let speaker = speaker.as_ref();
            speaker.is_some_and(|server| isolation::is_apart(session, server))
        };
        for session in self.shared.sessions.all() {
            let hears = match &session.backend {
                // Without a wish a client sees all (specification, logging: then the server decides).
                Backend::Aggregate(profile) => {
                    !is_apart(&session)
                        && profile.has_server(server)
                        && self.allows(&session, server)
                        && session.log_level().is_none_or(is_wanted)
                }
                Backend::Shared(own) => {
                    // Such a server says only what it was asked for (2026-07-28, "Logging").
                    let without_a_wish = !own.opens_no_sessions();
                    own.name == *server && session.log_level().map_or(without_a_wish, is_wanted)
                }
                Backend::Transparent(_) => false,
            };
            if hears {
                session.outbox.push(frame.one_line());
            }
        }
    }

    /// Whether a session's client may know of this server. A switch hides names only: what a server says
    /// to all its clients is passed on.
    fn allows(&self, session: &ClientSession, server: &ServerName) -> bool {
        let principal = &session.client.principal;
        self.gateway().allows_server(principal, server)
    }

    fn relay_update(&self, server: &ServerName, frame: &Frame) {
        let Some(uri) = frame.text_param("uri") else {
            return;
        };
        for (name, used) in self.shared.subscriptions.listeners(server, &uri) {
            if let Some(session) = self.session(&name) {
                // A reload may have taken the server out of its profile.
                let may_hear = match &session.backend {
                    Backend::Aggregate(profile) => profile.has_server(server),
                    Backend::Transparent(_) | Backend::Shared(_) => true,
                } && self.allows(&session, server);
                if !may_hear {
                    continue;
                }
                session
                    .outbox
                    .push(frame.with_param("uri", &message::quote(&used)));
            } else {
                self.stateless
                    .listen_streams
                    .tell_update(server, &name, frame, &used);
            }
        }
    }
}
