//! What the hub does at servers for all clients that share them: subscriptions, log levels, and whose
//! a resource is.

use std::{
    sync::{Arc, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::join_all;
use mainstay_core::{catalog::Target, era::LogLevel, ids::ServerName};

use super::Hub;
use crate::{front::mcp::subscriptions::Resource, supervisor::Server, transport::Session};

/// Owners of unlisted resources that are remembered.
const MAX_FOUND: usize = 1000;

/// How long a request waits for servers to hear which log messages it wants.
const LOG_LEVEL_WAIT: Duration = Duration::from_millis(500);

/// What a shared session's own requests may take.
const HOUSEKEEPING: Duration = Duration::from_secs(10);

/// What is asked of a server on behalf of all its clients.
#[derive(Debug)]
enum Chore {
    Subscribe(Box<str>),
    Unsubscribe(Box<str>),
    LogLevel(LogLevel),
}

impl Hub {
    /// Whose resource this is, as far as is known.
    pub fn owner(&self, uri: &str) -> Option<Target> {
        let found = || {
            self.found
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get(uri)
                .cloned()
        };
        self.registry.catalog().resource(uri).or_else(found)
    }

    pub fn remember_owner(&self, uri: &str, owner: Target) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        // Full: what matters will be found again.
        if found.len() >= MAX_FOUND {
            found.clear();
        }
        found.insert(uri.into(), owner);
    }

    /// Subscribes a stream to a resource; the first does so upstream. The servers are asked in
    /// configuration order where nobody lists it. Says whether one keeps it.
    pub async fn subscribe(&self, stream: &str, uri: &str) -> bool {
        self.registry.settled().await;
        if let Some(target) = self.owner(uri) {
            let Some(server) = self.registry.named(&target.server) else {
                return false;
            };
            return self.subscribe_to(&server, target, stream, uri).await;
        }
        for server in self.registry.servers() {
            let target = Target {
                server: server.name.clone(),
                original: uri.into(),
            };
            if self
                .subscribe_to(&server, target.clone(), stream, uri)
                .await
            {
                self.remember_owner(uri, target);
                return true;
            }
        }
        false
    }

    async fn subscribe_to(&self, server: &Server, target: Target, stream: &str, uri: &str) -> bool {
        let resource = Resource::from(target);
        if !self.subscriptions.has_any(&resource) {
            let Some(session) = server.view().session else {
                return false;
            };
            if !session.greeting.capabilities.subscribe || !subscribe(&session, &resource.uri).await
            {
                return false;
            }
        }
        self.subscriptions.add(resource, stream, uri);
        true
    }

    /// Ends every subscription of a stream.
    pub fn leave_all(&self, stream: &str) {
        for resource in self.subscriptions.remove_session(stream) {
            self.unsubscribe(&resource);
        }
    }

    /// Ends one session's subscription, upstream too if it was the last.
    pub fn leave(&self, resource: &Resource, session: &str) {
        if self.subscriptions.remove(resource, session) {
            self.unsubscribe(resource);
        }
    }

    /// Tells a new shared session what the one before knew.
    pub(super) fn brief(&self, server: &ServerName) {
        if let Ok(server) = self.registry.server(server.as_str()) {
            self.set_log_level(&server);
        }
        for resource in self.subscriptions.of_server(server) {
            self.housekeep(server, Chore::Subscribe(resource.uri));
        }
    }

    /// Tells a server that nobody wants to hear of a resource any more.
    fn unsubscribe(&self, resource: &Resource) {
        self.housekeep(&resource.server, Chore::Unsubscribe(resource.uri.clone()));
    }

    /// Asks something of a server's shared session by ourselves, if it is up; the answer matters to
    /// nobody.
    fn housekeep(&self, server: &ServerName, chore: Chore) {
        let Some(session) = self
            .registry
            .server(server.as_str())
            .ok()
            .and_then(|server| server.view().session)
        else {
            return;
        };
        let server = server.clone();
        self.calls.in_background(async move {
            let doing = async {
                match &chore {
                    Chore::Subscribe(uri) => session.subscribe(uri).await,
                    Chore::Unsubscribe(uri) => session.unsubscribe(uri).await,
                    Chore::LogLevel(level) => session.set_log_level(*level).await,
                }
            };
            let done = tokio::time::timeout(HOUSEKEEPING, doing).await;
            if !matches!(done, Ok(Ok(()))) {
                tracing::debug!(%server, ?chore, ?done, "the server does not do so");
            }
        });
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

    /// Asks the servers for the most verbose level that any client wants.
    pub fn set_log_levels(&self) {
        for server in self.registry.servers() {
            self.set_log_level(&server);
        }
    }

    fn set_log_level(&self, server: &Arc<Server>) {
        let for_requests = *self.logs_for_requests();
        let level: Option<LogLevel> = self
            .all()
            .iter()
            .filter_map(|session| session.log_level())
            .chain(for_requests)
            .min();
        let logs = server
            .view()
            .session
            .is_some_and(|session| session.takes_log_level());
        if let (Some(level), true) = (level, logs) {
            self.housekeep(&server.name, Chore::LogLevel(level));
        }
    }
}

/// Has a server tell when a resource changes; says whether it will.
pub async fn subscribe(session: &Session, uri: &str) -> bool {
    let subscribed = session.subscribe(uri).await;
    if let Err(error) = &subscribed {
        tracing::debug!(uri, %error, "a resource was not subscribed to");
    }
    subscribed.is_ok()
}

/// Takes that back, for what that is worth to the server.
pub async fn unsubscribe(session: &Session, uri: &str) {
    let asked = tokio::time::timeout(HOUSEKEEPING, session.unsubscribe(uri)).await;
    if !matches!(asked, Ok(Ok(()))) {
        tracing::debug!(uri, "a subscription was not taken back");
    }
}
