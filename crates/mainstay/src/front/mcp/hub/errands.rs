//! State at servers that clients share: subscriptions, log levels, and owners of resources.

use std::{
    sync::{Arc, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::join_all;
use mainstay_core::{
    catalog::{Owner, Target},
    era::LogLevel,
    ids::{ProfileName, ServerName},
    switches::ClientKey,
};
use tokio::sync::oneshot;

use super::Hub;
use crate::{
    front::mcp::{
        subscriptions::{Resource, subscribe},
        view::View,
    },
    registry::Profile,
    supervisor::Server,
    transport::Session,
};

/// Owners of unlisted resources that are remembered.
const MAX_FOUND: usize = 1000;

/// How long a request waits for servers to hear which log messages it wants.
const LOG_LEVEL_WAIT: Duration = Duration::from_millis(500);

/// What setting a level may take in the background.
const LOG_LEVEL_LIMIT: Duration = Duration::from_secs(10);

/// Under which the owner of a resource is remembered: each profile has servers of its own.
pub(super) type FoundKey = (Option<ProfileName>, Box<str>);

fn found_key(profile: Option<&Profile>, uri: &str) -> FoundKey {
    (profile.map(|profile| profile.name.clone()), uri.into())
}

/// The owner of a resource, or the server that was found to have it where no list names it.
fn or_found(owner: Owner, found: impl FnOnce() -> Option<Target>) -> Owner {
    match owner {
        Owner::Unlisted => found().map_or(Owner::Unlisted, Owner::Server),
        owner => owner,
    }
}

impl Hub {
    /// What a client sees of a profile. The key is asked for only where there are switches.
    pub fn view(&self, profile: &Arc<Profile>, key: impl FnOnce() -> ClientKey) -> View {
        View::new(Arc::clone(profile), self.switches.of(key))
    }

    /// Whose resource this is, as far as is known, among those that a client sees.
    pub fn owner(&self, view: &View, uri: &str) -> Owner {
        let found = || {
            let found = self.found_owner(Some(&view.profile), uri);
            found.filter(|target| view.has_server(&target.server))
        };
        or_found(view.resource(uri), found)
    }

    /// The owner of a resource among all servers.
    pub fn owner_of_all(&self, uri: &str) -> Owner {
        let owner = self.registry.catalog().resource(uri);
        or_found(owner, || self.found_owner(None, uri))
    }

    fn found_owner(&self, profile: Option<&Profile>, uri: &str) -> Option<Target> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.get(&found_key(profile, uri)).cloned()
    }

    fn remember_owner(&self, profile: Option<&Profile>, uri: &str, owner: Target) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        // Full: what matters will be found again.
        if found.len() >= MAX_FOUND {
            found.clear();
        }
        found.insert(found_key(profile, uri), owner);
    }

    /// Asks these servers which of them has a resource that no list names, and remembers the answer.
    /// `profile` is where it is looked for; `None` is everywhere.
    pub async fn find_owner(
        &self,
        profile: Option<&Profile>,
        servers: Vec<Arc<Server>>,
        uri: &str,
    ) -> Option<Target> {
        let server = self.calls.find_owner(servers, uri).await?;
        let owner = Target {
            server: server.name.clone(),
            original: uri.into(),
        };
        self.remember_owner(profile, uri, owner.clone());
        Some(owner)
    }

    /// Whose this resource is, among those that a client sees; the servers are asked where no list names
    /// it.
    pub async fn whose(&self, view: &View, uri: &str) -> Option<Target> {
        self.registry.profile_settled(&view.profile).await;
        match self.owner(view, uri) {
            Owner::Server(owner) => return Some(owner),
            Owner::Absent(_) => return None,
            Owner::Unlisted => {}
        }
        let mut servers = self.registry.servers_of(&view.profile);
        servers.retain(|server| view.has_server(&server.name));
        self.find_owner(Some(&view.profile), servers, uri).await
    }

    /// Subscribes a stream to a resource; the first does so upstream. Says whether its server keeps it.
    pub async fn subscribe(&self, target: Target, stream: &str, uri: &str) -> bool {
        let Some(server) = self.registry.named(&target.server) else {
            return false;
        };
        let original = Arc::clone(&target.original);
        let ask = async || {
            let Some(session) = server.view().session else {
                return false;
            };
            session.greeting.capabilities.subscribe && subscribe(&session, &original).await
        };
        self.subscriptions
            .join(target.into(), stream, uri, ask)
            .await
    }

    /// Ends every subscription of a stream.
    pub fn leave_all(&self, stream: &str) {
        for resource in self.subscriptions.remove_session(stream) {
            self.release(resource);
        }
    }

    /// Ends one session's subscription, upstream too if it was the last.
    pub fn leave(&self, resource: Resource, session: &str) {
        if self.subscriptions.remove(&resource, session) {
            self.release(resource);
        }
    }

    /// Tells a new shared session what the one before knew.
    pub(super) fn brief(&self, server: &ServerName) {
        if let Ok(server) = self.registry.server(server.as_str()) {
            self.set_log_level(&server);
        }
        let Some(session) = self.shared_session(server) else {
            return;
        };
        for resource in self.subscriptions.of_server(server) {
            let (subscriptions, session) = (Arc::clone(&self.subscriptions), Arc::clone(&session));
            self.calls
                .in_background(async move { subscriptions.renew(&resource, &session).await });
        }
    }

    /// Tells a server that is up that no session is subscribed to a resource any more.
    fn release(&self, resource: Resource) {
        let Some(session) = self.shared_session(&resource.server) else {
            return;
        };
        let subscriptions = Arc::clone(&self.subscriptions);
        self.calls
            .in_background(async move { subscriptions.release(&resource, &session).await });
    }

    fn shared_session(&self, server: &ServerName) -> Option<Arc<Session>> {
        self.registry.server(server.as_str()).ok()?.view().session
    }

    fn logs_for_requests(&self) -> MutexGuard<'_, Option<LogLevel>> {
        // Held for a copy, never across an await.
        self.logs_for_requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A request wants log messages of this level, and all that are more severe.
    pub async fn want_logs(&self, level: LogLevel) {
        {
            let mut wanted = self.logs_for_requests();
            if wanted.is_some_and(|wanted| wanted <= level) {
                return;
            }
            *wanted = Some(level);
        }
        let sessions = self.registry.servers().into_iter();
        let sessions = sessions.filter_map(|server| server.view().session);
        let told = sessions
            .filter(|session| session.takes_log_level())
            .map(async |session| session.set_log_level(level).await);
        // A server that does not answer holds up no request.
        tokio::time::timeout(LOG_LEVEL_WAIT, join_all(told))
            .await
            .ok();
    }

    /// Asks the servers for the most verbose level that any client wants. A slow server delays no
    /// client, and is still asked.
    pub async fn set_log_levels(&self) {
        let servers = self.registry.servers();
        let told = servers
            .iter()
            .filter_map(|server| self.set_log_level(server));
        tokio::time::timeout(LOG_LEVEL_WAIT, join_all(told))
            .await
            .ok();
    }

    /// Returns what ends when the server has been told.
    fn set_log_level(&self, server: &Arc<Server>) -> Option<oneshot::Receiver<()>> {
        let for_requests = *self.logs_for_requests();
        let level: LogLevel = self
            .all()
            .iter()
            .filter_map(|session| session.log_level())
            .chain(for_requests)
            .min()?;
        let session = server.view().session?;
        if !session.takes_log_level() {
            return None;
        }
        let (telling, told) = oneshot::channel();
        let server = server.name.clone();
        self.calls.in_background(async move {
            let _telling = telling;
            let set = tokio::time::timeout(LOG_LEVEL_LIMIT, session.set_log_level(level)).await;
            if !matches!(set, Ok(Ok(()))) {
                tracing::debug!(%server, ?level, ?set, "a log level was not set");
            }
        });
        Some(told)
    }
}
