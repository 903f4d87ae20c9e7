//! State at servers that clients share: subscriptions and log levels.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use mainstay_core::{catalog::Target, era::LogLevel, ids::ServerName};
use mainstay_gateway::supervisor::Server;
use mainstay_transport::Session;
use parking_lot::MutexGuard;
use tokio::sync::oneshot;

use super::Shared;
use crate::mcp::sessions::subscriptions::{Resource, subscribe};

/// How long a request waits for servers to hear which log messages it wants.
const LOG_LEVEL_WAIT: Duration = Duration::from_millis(500);

/// What setting a level may take in the background.
const LOG_LEVEL_LIMIT: Duration = Duration::from_secs(10);

impl Shared {
    /// Subscribes a stream to a resource; the first does so upstream. Says whether its server keeps it.
    pub async fn subscribe(&self, target: Target, stream: &str, uri: &str) -> bool {
        let Some(server) = self.gateway.registry.named(&target.server) else {
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
    pub fn brief(&self, server: &ServerName) {
        if let Ok(server) = self.gateway.registry.server(server.as_str()) {
            self.set_log_level(&server);
        }
        let Some(session) = self.shared_session(server) else {
            return;
        };
        for resource in self.subscriptions.of_server(server) {
            let (subscriptions, session) = (Arc::clone(&self.subscriptions), Arc::clone(&session));
            self.gateway
                .calls
                .in_background(async move { subscriptions.renew(&resource, &session).await });
        }
    }

    /// Tells a server that is up that no session is subscribed to a resource any more.
    fn release(&self, resource: Resource) {
        let Some(session) = self.shared_session(&resource.server) else {
            return;
        };
        let subscriptions = Arc::clone(&self.subscriptions);
        self.gateway
            .calls
            .in_background(async move { subscriptions.release(&resource, &session).await });
    }

    fn shared_session(&self, server: &ServerName) -> Option<Arc<Session>> {
        self.gateway
            .registry
            .server(server.as_str())
            .ok()?
            .view()
            .session
    }

    fn logs_for_requests(&self) -> MutexGuard<'_, Option<LogLevel>> {
        // Held for a copy, never across an await.
        self.logs_for_requests.lock()
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
        let sessions = self.gateway.registry.servers().into_iter();
        let sessions = sessions.filter_map(|server| server.view().session);
        let told = sessions
            .filter(|session| session.takes_log_level())
            .map(|session| async move { session.set_log_level(level).await });
        // A server that does not answer holds up no request.
        tokio::time::timeout(LOG_LEVEL_WAIT, join_all(told))
            .await
            .ok();
    }

    /// Asks the servers for the most verbose level that any client wants. A slow server delays no
    /// client, and is still asked.
    pub async fn set_log_levels(&self) {
        let servers = self.gateway.registry.servers();
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
            .sessions
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
        self.gateway.calls.in_background(async move {
            let _telling = telling;
            let set = tokio::time::timeout(LOG_LEVEL_LIMIT, session.set_log_level(level)).await;
            if !matches!(set, Ok(Ok(()))) {
                tracing::debug!(%server, ?level, ?set, "a log level was not set");
            }
        });
        Some(told)
    }
}
