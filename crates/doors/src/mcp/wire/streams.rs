//! The open streams of HTTP+SSE.

use std::{collections::HashMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

use super::conversation::Conversation;

/// The streams that are open, by the id in the URL that they told their clients.
#[derive(Debug, Default)]
pub struct Streams(Mutex<HashMap<Box<str>, Arc<Conversation>>>);

impl Streams {
    pub fn map(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Conversation>>> {
        // Held for a map operation, never across an await.
        self.0.lock()
    }

    /// Closes all of them, at shutdown.
    pub fn close(&self, reason: &str) {
        let all = std::mem::take(&mut *self.map());
        for client in all.into_values() {
            client.end(reason);
        }
    }
}
