//! State that the requests of all MCP clients share.

mod upstream;

use std::sync::Arc;

use mainstay_core::era::LogLevel;
use mainstay_gateway::{Gateway, calls::SealedNames};
use parking_lot::Mutex;

use super::{
    kept_objects::KeptObjects,
    sessions::{crowd::Crowd, pool::Pool, subscriptions::Subscriptions},
};

/// State that the requests of all MCP clients share, with or without a session.
#[derive(Debug)]
pub struct SharedState {
    pub gateway: Arc<Gateway>,
    /// Maximum number of items in one answer; `None` for no limit.
    pub page_size: Option<usize>,
    /// The open sessions of clients.
    pub sessions: Crowd,
    pub subscriptions: Arc<Subscriptions>,
    /// Pooled upstream sessions for clients without a session.
    pub pool: Pool,
    /// Sealed names of tasks and call states.
    pub names: Arc<SealedNames>,
    /// Reads stored objects in parts.
    pub objects: KeptObjects,
    /// The most verbose log level requested by clients without a session. It is not reset, because
    /// such clients do not disconnect. Each request gets only the messages with its own level.
    requested_log_level: Mutex<Option<LogLevel>>,
}

impl SharedState {
    pub fn new(
        gateway: Arc<Gateway>,
        names: Arc<SealedNames>,
        sessions: Crowd,
        page_size: Option<usize>,
    ) -> Self {
        Self {
            gateway,
            page_size,
            sessions,
            subscriptions: Arc::default(),
            pool: Pool::default(),
            names,
            objects: KeptObjects::default(),
            requested_log_level: Mutex::default(),
        }
    }
}
