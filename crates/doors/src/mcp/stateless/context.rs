//! State that requests without a session share.

use std::sync::Arc;

use super::suspended::SuspendedCalls;
use crate::mcp::{sessions::listen_streams::ListenStreams, shared::SharedState};

/// State that the requests of clients without a session share.
#[derive(Debug)]
pub struct Stateless {
    pub shared: Arc<SharedState>,
    /// The listen streams on profiles and on shared legacy servers.
    pub listen_streams: ListenStreams,
    /// Calls that wait for answers of their clients.
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
