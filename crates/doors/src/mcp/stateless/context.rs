//! The state that requests of clients without a session share.

use std::sync::Arc;

use super::suspended::SuspendedCalls;
use crate::mcp::{sessions::listen_streams::ListenStreams, shared::SharedState};

/// The state that requests of clients without a session share.
#[derive(Debug)]
pub struct Stateless {
    pub shared: Arc<SharedState>,
    /// The listen streams on profiles and on shared sessions of legacy servers.
    pub listen_streams: ListenStreams,
    /// Calls of legacy servers that wait for answers of their clients.
    pub suspended: Arc<SuspendedCalls>,
}

impl Stateless {
    pub fn new(shared_state: Arc<SharedState>) -> Self {
        Self {
            shared: shared_state,
            listen_streams: ListenStreams::default(),
            suspended: Arc::default(),
        }
    }
}
