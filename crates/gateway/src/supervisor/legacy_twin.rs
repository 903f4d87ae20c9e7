//! The legacy session beside a modern shared one. An HTTP server that speaks both eras is spoken to in
//! the era of each caller (docs/dev/design.md, "Eras").

use std::sync::Arc;

use mainstay_transport::Session;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{isolated_session::IsolatedSession, server::Server};

/// Opened at the first legacy call.
#[derive(Debug, Default)]
pub struct LegacyTwin(Mutex<Option<Arc<IsolatedSession>>>);

impl LegacyTwin {
    /// The session; `None` where the server has none to give, and the modern one must do.
    pub async fn session(&self, server: &Arc<Server>, deadline: Instant) -> Option<Arc<Session>> {
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

    /// Forgets it, which closes it.
    pub fn close(&self) {
        self.slot().take();
    }

    fn slot(&self) -> parking_lot::MutexGuard<'_, Option<Arc<IsolatedSession>>> {
        // Held for a copy, never across an await.
        self.0.lock()
    }
}
