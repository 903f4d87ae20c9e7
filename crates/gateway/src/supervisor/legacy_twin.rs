//! The legacy twin of a modern shared session. If an HTTP server speaks both eras, clients of each
//! era use the session of their era (docs/dev/design.md, "Eras").

use std::sync::Arc;

use mainstay_transport::UpstreamSession;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{isolated_session::IsolatedSession, server::ServerHandle};

/// The legacy twin. It is opened at the first legacy call.
#[derive(Debug, Default)]
pub struct LegacyTwin(Mutex<Option<Arc<IsolatedSession>>>);

impl LegacyTwin {
    /// The legacy session. `None` if it cannot be opened. The caller then uses the modern session.
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

    /// Closes the session, by dropping its handle.
    pub fn close(&self) {
        self.slot().take();
    }

    fn slot(&self) -> parking_lot::MutexGuard<'_, Option<Arc<IsolatedSession>>> {
        // Held to copy or replace the handle, never across an await.
        self.0.lock()
    }
}
