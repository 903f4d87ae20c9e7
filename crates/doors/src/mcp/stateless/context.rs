//! What requests without a session share.

use std::sync::Arc;

use super::suspended::SuspendedCalls;
use crate::mcp::{sessions::listen_streams::ListenStreams, shared::Shared};

/// What the requests of clients without a session share.
#[derive(Debug)]
pub struct Stateless {
    pub shared: Arc<Shared>,
    /// Clients that listen to the servers of a profile.
    pub listen_streams: ListenStreams,
    /// Calls that wait for what their clients answer.
    pub suspended: Arc<SuspendedCalls>,
}

impl Stateless {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            listen_streams: ListenStreams::default(),
            suspended: Arc::default(),
        }
    }
}
