//! Isolated upstream sessions of one client.

use std::{sync::Arc, time::Duration};

use foldhash::HashMap;
use futures_util::future::join_all;
use mainstay_core::{era::LogLevel, ids::ServerName};
use mainstay_gateway::supervisor::{IsolatedSession, Server};
use mainstay_transport::Session;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::timeout;

/// How long a client waits for its sessions to hear which log messages it wants.
const PATIENCE: Duration = Duration::from_secs(2);

/// One client's sessions, by server. A map without entries takes no memory.
#[derive(Debug, Default)]
pub struct OwnSessions(Mutex<HashMap<ServerName, Arc<IsolatedSession>>>);

impl OwnSessions {
    fn map(&self) -> MutexGuard<'_, HashMap<ServerName, Arc<IsolatedSession>>> {
        // Held for a map operation, never across an await.
        self.0.lock()
    }

    fn all(&self) -> Vec<Arc<IsolatedSession>> {
        self.map().values().cloned().collect()
    }

    /// The client's session of this server; `open` makes one for a server that has none, or that is
    /// another of the same name.
    pub fn of(
        &self,
        server: &Arc<Server>,
        open: impl FnOnce() -> IsolatedSession,
    ) -> Arc<IsolatedSession> {
        let mut map = self.map();
        if let Some(isolated_session) = map.get(&server.name)
            && Arc::ptr_eq(&isolated_session.server, server)
        {
            return Arc::clone(isolated_session);
        }
        let isolated_session = Arc::new(open());
        map.insert(server.name.clone(), Arc::clone(&isolated_session));
        isolated_session
    }

    /// Those that are open.
    pub fn live(&self) -> Vec<Arc<Session>> {
        let sessions = self.all();
        sessions
            .iter()
            .filter_map(|isolated_session| isolated_session.live_session())
            .collect()
    }

    /// Has open sessions, and those to come, log what this level asks for.
    pub async fn set_log_level(&self, level: LogLevel) {
        let told = self.all().into_iter().map(|isolated_session| async move {
            isolated_session.settings.set_log_level(level);
            let _use = isolated_session.begin();
            let Some(session) = isolated_session.live_session() else {
                return;
            };
            if session.takes_log_level()
                && let Err(error) = session.set_log_level(level).await
            {
                tracing::debug!(server = %isolated_session.server.name, %error, "a log level was not set");
            }
        });
        // A server that does not answer holds up no client.
        timeout(PATIENCE, join_all(told)).await.ok();
    }

    /// Closes sessions that have been idle for so long. One that is subscribed to resources stays open
    /// while its client listens.
    pub fn sweep(&self, idle: Duration, is_listened_to: bool) {
        self.map().retain(|_, isolated_session| {
            // The configuration may have changed.
            let server = &isolated_session.server;
            let is_needed = (server.is_isolated() || server.knows_its_client())
                && isolated_session.settings.has_resources();
            if is_listened_to && is_needed {
                return true;
            }
            isolated_session.close_idle(idle);
            // Dropped, it takes no memory for a client that does not come back to it.
            is_needed || !isolated_session.is_idle(idle)
        });
    }

    /// The client has gone.
    pub fn close(&self) {
        for isolated_session in std::mem::take(&mut *self.map()).into_values() {
            isolated_session.close();
        }
    }
}
