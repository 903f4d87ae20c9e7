//! The desired servers: the servers of the configuration file, with the changes at run time.

use std::sync::Arc;

use foldhash::HashMap;
use futures_util::FutureExt as _;
use mainstay_config::{Overlay, Runtime};
use mainstay_core::{
    config::ServerConfig,
    failure::{Failure, FailureKind},
    ids::ServerName,
};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::targets::KnownTargets;
use crate::supervisor::ServerHandle;

/// The desired servers, and the supervisors' tasks.
#[derive(Debug)]
pub(super) struct DesiredServers {
    pub supervisors: JoinSet<()>,
    /// The servers of the configuration file.
    pub file: Vec<ServerConfig>,
    pub overlay: Overlay,
    /// The current and former targets of servers' names.
    pub targets: KnownTargets,
    /// The servers that are ending. Each token is cancelled when its server has ended.
    pub leaving: HashMap<ServerName, CancellationToken>,
    /// True when the registry is stopping and accepts no more changes.
    pub closed: bool,
}

/// A server to add, and the warnings about its entry.
#[derive(Clone, Debug)]
pub struct NewServer {
    pub runtime: Runtime,
    pub warnings: Vec<String>,
}

/// The behaviour if a server of the same name already exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDuplicate {
    Refuse,
    Replace,
}

pub fn duplicate(name: &ServerName) -> Failure {
    let message = format!("Server '{name}' is there already");
    Failure::new(FailureKind::DuplicateName, message).with("name", name.as_str())
}

/// Adds a supervisor's task to `tasks`, so that its failure is logged. Returns its server.
pub(super) fn watch(
    (server, task): (Arc<ServerHandle>, JoinHandle<()>),
    tasks: &mut JoinSet<()>,
) -> Arc<ServerHandle> {
    let watching = async move {
        if let Err(error) = task.await {
            tracing::error!(%error, "a supervisor failed");
        }
    };
    tasks.spawn(watching.boxed());
    server
}
