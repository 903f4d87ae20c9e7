//! The legacy session in addition to a modern shared session. A client of each era gets the session
//! of its era from an HTTP server that speaks both (docs/dev/design.md, "Eras").

use std::sync::Arc;

use mainstay_transport::UpstreamSession;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{isolated_session::IsolatedSession, server::ServerHandle};

/// The legacy session, opened at the first legacy call.
#[derive(Debug, Default)]
pub struct LegacyTwin(Mutex<Option<Arc<IsolatedSession>>>);

impl LegacyTwin {
    /// The session. `None` if the server gives none, so that the caller uses the modern session.
    pub async fn session(
        &self,
        server: &Arc<ServerHandle>,
        deadline: Instant,
    ) -> Option<Arc<UpstreamSession>> {
        if server.eras().legacy == Some(false) {
            return None;
        }
        let isolated_session = Arc::clone(
            self.slot()
                .get_or_insert_with(|| Arc::new(server.twin_session())),
        );
        isolated_session
            .session(deadline)
            .await
            .inspect_err(|failure| {
                tracing::debug!(server = %server.name, error = failure.message, "no legacy session");
            })
            .ok()
    }

    /// Drops the session, which closes it.
    pub fn close(&self) {
        self.slot().take();
    }

    fn slot(&self) -> parking_lot::MutexGuard<'_, Option<Arc<IsolatedSession>>> {
        // Held for a copy, never across an await.
        self.0.lock()
    }
}
