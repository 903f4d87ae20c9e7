//! The MCP doors of one gateway.

use std::{path::PathBuf, sync::Arc};

use mainstay_gateway::{Gateway, calls::SHUTTING_DOWN};
use tokio_util::sync::CancellationToken;

use super::streams::Streams;
use crate::mcp::{
    clients::{ClientLimits, McpClients},
    sessions::seal::Seal,
};
use mainstay_doorway::bodies::{Bodies, BodyLimits};

/// Limits for the clients of the MCP doors.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub clients: ClientLimits,
    pub bodies: BodyLimits,
}

/// The MCP doors of one gateway: clients, and state of the transports.
#[derive(Debug)]
pub struct Mcp {
    pub clients: Arc<McpClients>,
    /// The open streams of HTTP+SSE.
    pub(super) streams: Streams,
    /// Reads request bodies within their limits.
    pub(super) bodies: Arc<Bodies>,
}

impl Mcp {
    /// `state` is the state directory, where ended sessions are stored. `None` stores none.
    pub fn new(gateway: Arc<Gateway>, seal: Seal, state: Option<PathBuf>, limits: &Limits) -> Self {
        Self {
            clients: Arc::new(McpClients::new(gateway, seal, state, &limits.clients)),
            streams: Streams::default(),
            bodies: Arc::new(Bodies::new(limits.bodies)),
        }
    }

    pub fn gateway(&self) -> &Arc<Gateway> {
        self.clients.gateway()
    }

    /// Forwards notifications of servers, and ends idle sessions, until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        self.clients.run(stop).await;
    }

    /// Ends calls that wait for their client to retry. Later requests are refused.
    pub fn end_waiting(&self) {
        self.clients.end_waiting();
    }

    /// Ends all sessions and streams, at shutdown.
    pub fn end_all(&self) {
        self.streams.close(SHUTTING_DOWN);
        self.clients.end_all();
    }
}
