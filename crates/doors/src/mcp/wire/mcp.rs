//! The MCP doors of one gateway.

use std::{path::PathBuf, sync::Arc};

use mainstay_gateway::{Gateway, calls::SHUTTING_DOWN};
use tokio_util::sync::CancellationToken;

use super::streams::Streams;
use crate::mcp::{
    clients::{Clients, Limits as ClientLimits},
    sessions::seal::Seal,
};
use mainstay_doorway::bodies::{Bodies, Limits as BodyLimits};

/// What clients may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub clients: ClientLimits,
    pub bodies: BodyLimits,
}

/// The MCP doors of one gateway: their clients, and what the wire keeps of them.
#[derive(Debug)]
pub struct Mcp {
    pub clients: Arc<Clients>,
    /// The clients on HTTP+SSE.
    pub(super) streams: Streams,
    /// The bodies of requests.
    pub(super) bodies: Arc<Bodies>,
}

impl Mcp {
    /// Sessions are revived where `state` is a folder that keeps which have ended.
    pub fn new(gateway: Arc<Gateway>, seal: Seal, state: Option<PathBuf>, limits: &Limits) -> Self {
        Self {
            clients: Arc::new(Clients::new(gateway, seal, state, &limits.clients)),
            streams: Streams::default(),
            bodies: Arc::new(Bodies::new(limits.bodies)),
        }
    }

    pub fn gateway(&self) -> &Arc<Gateway> {
        self.clients.gateway()
    }

    /// Tells clients what servers announce, and ends idle sessions, until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        self.clients.run(stop).await;
    }

    /// Ends the calls that wait for another request of their clients: none is taken any more.
    pub fn end_waiting(&self) {
        self.clients.end_waiting();
    }

    /// Ends all sessions, at shutdown.
    pub fn end_all(&self) {
        self.streams.close(SHUTTING_DOWN);
        self.clients.end_all();
    }
}
