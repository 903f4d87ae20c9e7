//! The open streams of HTTP+SSE.

use std::{collections::HashMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

use super::conversation::Conversation;
use crate::mcp::sessions::session::ClientSession;

/// The open streams of HTTP+SSE, by the id in the URL for messages.
#[derive(Debug, Default)]
pub struct Streams(Mutex<HashMap<Box<str>, Arc<Conversation>>>);

impl Streams {
    pub fn map(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Conversation>>> {
        // Locked for a map operation, never across an await.
        self.0.lock()
    }

    /// Ends a session and closes its stream.
    pub fn end(&self, session: &ClientSession, reason: &str) {
        let ended_client = {
            let mut open_clients = self.map();
            let id = open_clients.iter().find(|(_, client)| client.has(session));
            let id = id.map(|(id, _)| id.clone());
            id.and_then(|id| open_clients.remove(&id))
        };
        if let Some(client) = ended_client {
            client.end(reason);
        }
    }

    /// Ends all sessions and closes their streams, at shutdown.
    pub fn close(&self, reason: &str) {
        let all_clients = std::mem::take(&mut *self.map());
        for client in all_clients.into_values() {
            client.end(reason);
        }
    }
}
