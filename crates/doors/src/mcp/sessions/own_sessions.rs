//! The isolated upstream sessions that one client session has.

use std::{sync::Arc, time::Duration};

use foldhash::HashMap;
use futures_util::future::join_all;
use mainstay_core::{era::LogLevel, ids::ServerName};
use mainstay_gateway::supervisor::{IsolatedSession, ServerHandle};
use mainstay_transport::UpstreamSession;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::timeout;

/// Time limit for setting a log level in all of the client's upstream sessions.
const PATIENCE: Duration = Duration::from_secs(2);

/// A client's isolated sessions, by server. An empty map allocates no memory.
#[derive(Debug, Default)]
pub struct OwnSessions(Mutex<HashMap<ServerName, Arc<IsolatedSession>>>);

impl OwnSessions {
    fn map(&self) -> MutexGuard<'_, HashMap<ServerName, Arc<IsolatedSession>>> {
        // Locked for a map operation, never across an await.
        self.0.lock()
    }

    fn all(&self) -> Vec<Arc<IsolatedSession>> {
        self.map().values().cloned().collect()
    }

    /// The client's session of this server. Creates one with `open_session` if there is none, or if
    /// the name now stands for another server.
    pub fn get_or_open(
        &self,
        server: &Arc<ServerHandle>,
        open_session: impl FnOnce() -> IsolatedSession,
    ) -> Arc<IsolatedSession> {
        let mut map = self.map();
        if let Some(isolated_session) = map.get(&server.name)
            && Arc::ptr_eq(&isolated_session.server, server)
        {
            return Arc::clone(isolated_session);
        }
        let isolated_session = Arc::new(open_session());
        map.insert(server.name.clone(), Arc::clone(&isolated_session));
        isolated_session
    }

    /// The upstream sessions that are open now.
    pub fn live(&self) -> Vec<Arc<UpstreamSession>> {
        let sessions = self.all();
        sessions
            .iter()
            .filter_map(|isolated_session| isolated_session.live_session())
            .collect()
    }

    /// Sets the log level of the open sessions and of later ones.
    pub async fn set_log_level(&self, level: LogLevel) {
        let updates = self.all().into_iter().map(|isolated_session| async move {
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
        // Do not let the client wait for a server that does not answer.
        timeout(PATIENCE, join_all(updates)).await.ok();
    }

    /// Closes sessions that have been idle for `idle_limit`. A session with resource subscriptions
    /// stays open while its client listens.
    pub fn sweep(&self, idle_limit: Duration, is_listened_to: bool) {
        self.map().retain(|_, isolated_session| {
            // The server may no longer be isolated: the configuration may have changed.
            let server = &isolated_session.server;
            let is_isolated = server.is_isolated()
                || server.knows_its_client()
                || isolated_session.has_own_login();
            let is_needed = is_isolated && isolated_session.settings.has_resources();
            if is_listened_to && is_needed {
                return true;
            }
            isolated_session.close_idle(idle_limit);
            // Drop an idle entry without subscriptions to restore, to save memory.
            is_needed || !isolated_session.is_idle(idle_limit)
        });
    }

    /// Closes all sessions, when the client session ends.
    pub fn close(&self) {
        for isolated_session in std::mem::take(&mut *self.map()).into_values() {
            isolated_session.close();
        }
    }
}
