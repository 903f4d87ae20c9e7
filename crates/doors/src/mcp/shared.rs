//! What the requests of all MCP clients share.

mod upstream;

use std::sync::Arc;

use mainstay_core::era::LogLevel;
use mainstay_gateway::{Gateway, calls::SealedNames};
use parking_lot::Mutex;

use super::{
    kept_objects::KeptObjects,
    sessions::{crowd::Crowd, pool::Pool, subscriptions::Subscriptions},
};

/// What the requests of all MCP clients share, with a session or without one.
#[derive(Debug)]
pub struct Shared {
    pub gateway: Arc<Gateway>,
    /// Items of a list in one answer; `None` is all.
    pub page_size: Option<usize>,
    /// The open sessions of clients.
    pub sessions: Crowd,
    pub subscriptions: Arc<Subscriptions>,
    /// Sessions of servers for clients that have none.
    pub pool: Pool,
    /// Under which clients know the tasks of servers, and the states of their calls.
    pub names: Arc<SealedNames>,
    /// By which parts of kept results are read.
    pub objects: KeptObjects,
    /// The most verbose level that a client without a session has asked for. It stays, because the last
    /// such client does not say that it has gone. Each is sent only what it asked for.
    logs_for_requests: Mutex<Option<LogLevel>>,
}

impl Shared {
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
            logs_for_requests: Mutex::default(),
        }
    }
}
