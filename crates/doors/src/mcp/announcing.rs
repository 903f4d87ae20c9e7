//! Forwards notifications of servers to clients, and ends idle client sessions.

use std::{collections::HashMap, sync::Arc, time::Duration};

use mainstay_core::{
    access::{ItemQuestion, ToolEffect},
    catalog::ListKind,
    era::LogLevel,
    ids::{ProfileName, ServerName},
    message::{self, Method},
    principal::Principal,
};
use mainstay_gateway::{
    calls,
    registry::{Announcement, PublishedProfile},
};
use mainstay_transport::{Frame, Notice};
use tokio::{sync::broadcast::error::RecvError, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    clients::McpClients,
    endpoint::isolation,
    sessions::session::{Backend, ClientSession, EndpointScope},
};

/// Time between two searches for idle sessions.
const SWEEP: Duration = Duration::from_secs(30);

/// Delay before clients are notified of changed lists. It merges the changes of servers that start
/// together.
const CHANGE_DEBOUNCE: Duration = Duration::from_millis(200);

impl McpClients {
    /// Forwards notifications of servers to sessions and ends idle sessions, until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        let mut announcements = self.gateway().registry.listen();
        let mut changed: HashMap<(ProfileName, Method), Instant> = HashMap::new();
        let mut notify_at = None::<Instant>;
        let mut sweep = tokio::time::interval(SWEEP);
        loop {
            let delay = async {
                match notify_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                announcement = announcements.recv() => match announcement {
                    Ok(Announcement::ListChanged(profile, kind, at)) => {
                        // Resources and templates have the same notification.
                        changed.insert((profile, kind.changed()), at);
                        notify_at.get_or_insert(Instant::now() + CHANGE_DEBOUNCE);
                    }
                    Ok(Announcement::ServerListChanged(server, kind)) => self.notify_shared_sessions(&server, kind),
                    Ok(Announcement::ProfileGone(profile)) => self.end_profile(&profile),
                    Ok(Announcement::Switched(clients)) => self.notify_switched(&clients),
                    Ok(Announcement::AccessChanged) => self.apply_access(),
                    Ok(Announcement::ServersChanged) => {}
                    Ok(Announcement::Opened(server)) => self.shared.restore_settings(&server),
                    Ok(Announcement::Notice(server, notice)) => self.relay(&server, &notice),
                    Err(RecvError::Lagged(missed)) => tracing::warn!(missed, "announcements were missed"),
                    Err(RecvError::Closed) => return,
                },
                () = delay => {
                    notify_at = None;
                    self.notify_list_changes(&std::mem::take(&mut changed));
                }
                _ = sweep.tick() => self.sweep(),
            }
        }
    }

    /// Notifies each client whose list may be older than the change.
    fn notify_list_changes(&self, list_changes: &HashMap<(ProfileName, Method), Instant>) {
        let aggregates = self.aggregates();
        for ((name, method), time) in list_changes {
            let change = message::request(None, method.name(), None);
            for (session, profile) in &aggregates {
                if profile.name == *name && session.opened < *time {
                    session.outbox.push(change.clone());
                }
            }
            self.stateless
                .listen_streams
                .notify_change(*method, *time, |client| client.is_of_profile(name));
        }
    }

    /// Notifies clients that their lists have changed because their switches have.
    fn notify_switched(&self, clients: &[String]) {
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
                .notify_change(method, now, |client| client.is_among(clients));
        }
    }

    /// Applies new rules of access. Ends each session whose client may no longer use its endpoint.
    /// Notifies all other sessions that their lists may have changed. Closes all listen streams,
    /// because a stream may have subscriptions that are no longer allowed. Clients then open new
    /// streams.
    fn apply_access(&self) {
        let access = &self.gateway().access;
        let is_open = |principal: &Principal, scope: &EndpointScope| match scope {
            EndpointScope::Profile(profile) => access.opens(principal, Some(&profile.name)),
            EndpointScope::One(server) => access.allows_server(principal, None, &server.name),
        };
        let changes = [
            Method::ToolsChanged,
            Method::PromptsChanged,
            Method::ResourcesChanged,
        ];
        for session in self.shared.sessions.all() {
            if is_open(&session.client.principal, &session.scope) {
                for method in changes {
                    session
                        .outbox
                        .push(message::request(None, method.name(), None));
                }
            } else {
                self.end(&session.id, "the client may not use this endpoint any more");
            }
        }
        self.stateless.listen_streams.close();
    }

    /// Ends the sessions and streams of a removed profile.
    fn end_profile(&self, name: &ProfileName) {
        for (session, profile) in self.aggregates() {
            if profile.name == *name {
                self.end(&session.id, "the profile has been removed");
            }
        }
        self.stateless.listen_streams.end(name);
    }

    /// Notifies the clients that share the session of this server.
    fn notify_shared_sessions(&self, server: &ServerName, kind: ListKind) {
        let change_message = message::request(None, kind.changed().name(), None);
        for session in self.shared.sessions.all() {
            if let Backend::Shared(shared_server) = &session.backend
                && shared_server.name == *server
            {
                session.outbox.push(change_message.clone());
            }
        }
        self.stateless
            .listen_streams
            .notify_change(kind.changed(), Instant::now(), |client| {
                client.is_of_server(server)
            });
    }

    /// The sessions on aggregate endpoints, each with its profile.
    fn aggregates(&self) -> Vec<(Arc<ClientSession>, Arc<PublishedProfile>)> {
        self.shared
            .sessions
            .all()
            .into_iter()
            .filter_map(|session| match &session.backend {
                Backend::Aggregate(profile) => {
                    let profile = Arc::clone(profile);
                    Some((session, profile))
                }
                Backend::Transparent(_) | Backend::Shared(_) => None,
            })
            .collect()
    }

    fn relay(&self, server: &ServerName, notice: &Notice) {
        match notice.method {
            Method::LogMessage => self.relay_log(server, &notice.frame),
            Method::ResourceUpdated => self.relay_update(server, &notice.frame),
            _ => {}
        }
    }

    /// Sends a log message of a shared session to every client that can use the server. The message
    /// does not name its call.
    fn relay_log(&self, server: &ServerName, frame: &Frame) {
        let level = calls::log_level(frame);
        let is_requested =
            |session_level: LogLevel| level.is_none_or(|level| level >= session_level);
        let sender = self.gateway().registry.named(server);
        // A client with an isolated session gets the messages of that session.
        let has_isolated_session = |session: &ClientSession| {
            let sender = sender.as_ref();
            sender.is_some_and(|server| isolation::has_isolated_session(session, server))
        };
        for session in self.shared.sessions.all() {
            let receives = match &session.backend {
                // A client that has set no level gets all messages (specification, "Logging": the
                // server decides).
                Backend::Aggregate(profile) => {
                    !has_isolated_session(&session)
                        && profile.has_server(server)
                        && self.allows(&session, server)
                        && session.log_level().is_none_or(is_requested)
                }
                Backend::Shared(shared_server) => {
                    // With a modern server, a client that has set no level gets no messages
                    // (2026-07-28, "Logging").
                    let sends_all_levels = !shared_server.opens_no_sessions();
                    shared_server.name == *server
                        && session.log_level().map_or(sends_all_levels, is_requested)
                }
                Backend::Transparent(_) => false,
            };
            if receives {
                session.outbox.push(frame.one_line());
            }
        }
    }

    /// True if the client of a session may see this server. Switches do not count: they hide names,
    /// not messages.
    fn allows(&self, session: &ClientSession, server: &ServerName) -> bool {
        let (principal, profile) = (&session.client.principal, session.scope.profile_name());
        self.gateway()
            .access
            .allows_server(principal, profile, server)
    }

    /// True if the client of a session may see this resource of a server.
    fn allows_resource(&self, session: &ClientSession, server: &ServerName, uri: &str) -> bool {
        let (principal, profile) = (&session.client.principal, session.scope.profile_name());
        let access = self.gateway().access.access_of(principal, profile);
        access.is_none_or(|access| {
            access.allows_item(&ItemQuestion {
                kind: ListKind::Resources,
                server: server.as_str(),
                original: uri,
                effect: ToolEffect::default(),
            })
        })
    }

    fn relay_update(&self, server: &ServerName, frame: &Frame) {
        let Some(uri) = frame.text_param("uri") else {
            return;
        };
        for (name, client_uri) in self.shared.subscriptions.listeners(server, &uri) {
            if let Some(session) = self.session(&name) {
                // A reload may have removed the server from the profile since the subscription.
                let may_receive = match &session.backend {
                    Backend::Aggregate(profile) => profile.has_server(server),
                    Backend::Transparent(_) | Backend::Shared(_) => true,
                } && self.allows_resource(&session, server, &uri);
                if !may_receive {
                    continue;
                }
                session
                    .outbox
                    .push(frame.with_param("uri", &message::quote(&client_uri)));
            } else {
                self.stateless
                    .listen_streams
                    .notify_update(server, &name, frame, &client_uri);
            }
        }
    }
}
