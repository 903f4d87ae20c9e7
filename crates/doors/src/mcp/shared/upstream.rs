//! Subscriptions and log levels in shared upstream sessions.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use mainstay_core::{catalog::ItemTarget, era::LogLevel, ids::ServerName};
use mainstay_gateway::supervisor::ServerHandle;
use mainstay_transport::UpstreamSession;
use parking_lot::MutexGuard;
use tokio::sync::oneshot;

use super::SharedState;
use crate::mcp::sessions::subscriptions::{SubscribedResource, subscribe};

/// Time for which a request waits until servers have set a log level.
const LOG_LEVEL_WAIT: Duration = Duration::from_millis(500);

/// Time limit for setting a log level in the background.
const LOG_LEVEL_LIMIT: Duration = Duration::from_secs(10);

impl SharedState {
    /// Subscribes a listen stream to a resource. Only the first subscriber's request is sent to the
    /// server. Returns true if the server accepts.
    pub async fn subscribe(&self, target: ItemTarget, stream: &str, uri: &str) -> bool {
        let Some(server) = self.gateway.registry.named(&target.server) else {
            return false;
        };
        let original = Arc::clone(&target.original);
        let subscribe_upstream = async || {
            let Some(session) = server.view().session else {
                return false;
            };
            session.greeting.capabilities.subscribe && subscribe(&session, &original).await
        };
        self.subscriptions
            .join(target.into(), stream, uri, subscribe_upstream)
            .await
    }

    /// Ends all subscriptions of a session or stream.
    pub fn leave_all(&self, stream: &str) {
        for resource in self.subscriptions.remove_session(stream) {
            self.release(resource);
        }
    }

    /// Ends one subscription. After the last one of a resource, unsubscribes at the server.
    pub fn leave(&self, resource: SubscribedResource, session: &str) {
        if self.subscriptions.remove(&resource, session) {
            self.release(resource);
        }
    }

    /// Restores the log level and the subscriptions in a new shared session.
    pub fn restore_settings(&self, server: &ServerName) {
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

    /// Unsubscribes at the server in the background, if its session is open.
    fn release(&self, resource: SubscribedResource) {
        let Some(session) = self.shared_session(&resource.server) else {
            return;
        };
        let subscriptions = Arc::clone(&self.subscriptions);
        self.gateway
            .calls
            .in_background(async move { subscriptions.release(&resource, &session).await });
    }

    fn shared_session(&self, server: &ServerName) -> Option<Arc<UpstreamSession>> {
        self.gateway
            .registry
            .server(server.as_str())
            .ok()?
            .view()
            .session
    }

    fn requested_log_level(&self) -> MutexGuard<'_, Option<LogLevel>> {
        // Locked for a copy, never across an await.
        self.requested_log_level.lock()
    }

    /// Makes all servers log at `level` and above, for a client without a session.
    pub async fn request_log_level(&self, level: LogLevel) {
        {
            let mut requested_level = self.requested_log_level();
            if requested_level.is_some_and(|requested_level| requested_level <= level) {
                return;
            }
            *requested_level = Some(level);
        }
        let updates = self
            .gateway
            .registry
            .servers()
            .into_iter()
            .filter_map(|server| server.view().session)
            .filter(|session| session.takes_log_level())
            .map(|session| async move { session.set_log_level(level).await });
        // Do not let the request wait for a server that does not answer.
        tokio::time::timeout(LOG_LEVEL_WAIT, join_all(updates))
            .await
            .ok();
    }

    /// Sets the most verbose requested level at all servers. A slow server sets it in the
    /// background.
    pub async fn set_log_levels(&self) {
        let servers = self.gateway.registry.servers();
        let updates = servers
            .iter()
            .filter_map(|server| self.set_log_level(server));
        tokio::time::timeout(LOG_LEVEL_WAIT, join_all(updates))
            .await
            .ok();
    }

    /// Sets the most verbose requested level at one server, in the background. The receiver
    /// resolves when the server has answered. `None` if there is nothing to set.
    fn set_log_level(&self, server: &Arc<ServerHandle>) -> Option<oneshot::Receiver<()>> {
        let for_requests = *self.requested_log_level();
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
        let (done_sender, done_signal) = oneshot::channel();
        let server = server.name.clone();
        self.gateway.calls.in_background(async move {
            let _done_sender = done_sender;
            let set = tokio::time::timeout(LOG_LEVEL_LIMIT, session.set_log_level(level)).await;
            if !matches!(set, Ok(Ok(()))) {
                tracing::debug!(%server, ?level, ?set, "a log level was not set");
            }
        });
        Some(done_signal)
    }
}
