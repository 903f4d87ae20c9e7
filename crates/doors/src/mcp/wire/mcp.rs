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

/// Limits for clients.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub clients: ClientLimits,
    pub bodies: BodyLimits,
}

/// The MCP doors of one gateway: their clients, and the state of their transports.
#[derive(Debug)]
pub struct Mcp {
    pub clients: Arc<McpClients>,
    /// The clients on HTTP+SSE.
    pub(super) streams: Streams,
    /// Reads the bodies of requests.
    pub(super) bodies: Arc<Bodies>,
}

impl Mcp {
    /// `state` is the state directory for ended sessions. Without it, sessions of earlier runs are
    /// not revived.
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

    /// Forwards notifications of servers and ends idle sessions, until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        self.clients.run(stop).await;
    }

    /// Ends the calls that wait for a retry of their client. New requests are refused.
    pub fn end_waiting(&self) {
        self.clients.end_waiting();
    }

    /// Ends all sessions, at shutdown.
    pub fn end_all(&self) {
        self.streams.close(SHUTTING_DOWN);
        self.clients.end_all();
    }
}
