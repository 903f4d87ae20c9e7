//! The state that all requests of MCP clients share.

mod upstream;

use std::sync::Arc;

use mainstay_core::era::LogLevel;
use mainstay_gateway::{Gateway, calls::SealedNames};
use parking_lot::Mutex;

use super::{
    kept_objects::KeptObjects,
    sessions::{crowd::Crowd, pool::Pool, subscriptions::Subscriptions},
};

/// The state that all requests of MCP clients share, with or without a session.
#[derive(Debug)]
pub struct SharedState {
    pub gateway: Arc<Gateway>,
    /// Maximum number of items in one page of a list; `None` for no limit.
    pub page_size: Option<usize>,
    /// The open sessions of clients.
    pub sessions: Crowd,
    pub subscriptions: Arc<Subscriptions>,
    /// Pooled upstream sessions, for clients without a session.
    pub pool: Pool,
    /// The sealed names of tasks, and of states of calls that wait for answers.
    pub names: Arc<SealedNames>,
    /// Reads stored objects in parts.
    pub objects: KeptObjects,
    /// The most verbose log level that a client without a session has requested. It is never reset,
    /// because such a client does not disconnect. Each request still gets only messages of its own
    /// level.
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
