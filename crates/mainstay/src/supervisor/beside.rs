//! The legacy session beside a modern shared one. An HTTP server that speaks both eras is spoken to in
//! the era of each caller (docs/dev/design.md, "Eras").

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use super::{Private, Server};
use crate::transport::Session;

/// Opened at the first legacy call.
#[derive(Debug, Default)]
pub struct Beside(Mutex<Option<Arc<Private>>>);

impl Beside {
    /// The session; `None` where the server has none to give, and the modern one must do.
    pub async fn session(&self, server: &Arc<Server>, deadline: Instant) -> Option<Arc<Session>> {
        if server.eras().legacy == Some(false) {
            return None;
        }
        let private = Arc::clone(
            self.slot()
                .get_or_insert_with(|| Arc::new(server.shared_beside())),
        );
        private
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

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Arc<Private>>> {
        // Held for a copy, never across an await.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
