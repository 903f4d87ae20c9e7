//! A snapshot of all servers of the registry.

use std::sync::Arc;

use foldhash::HashMap;
use mainstay_config::ServerStanding;
use mainstay_core::ids::ServerName;

use crate::supervisor::ServerHandle;

/// All servers at one moment. Each change replaces the whole snapshot.
#[derive(Debug, Default)]
pub(super) struct Servers {
    /// All servers, in configuration order.
    pub list: Vec<Arc<ServerHandle>>,
    by_name: HashMap<ServerName, usize>,
    /// The standing of each server that is not [`ServerStanding::Configured`].
    pub standings: HashMap<ServerName, ServerStanding>,
}

impl Servers {
    pub fn new(
        list: Vec<Arc<ServerHandle>>,
        standings: HashMap<ServerName, ServerStanding>,
    ) -> Self {
        let by_name = list
            .iter()
            .enumerate()
            .map(|(index, server)| (server.name.clone(), index))
            .collect();
        Self {
            list,
            by_name,
            standings,
        }
    }

    pub fn named(&self, name: &ServerName) -> Option<&Arc<ServerHandle>> {
        self.by_name.get(name).map(|&index| &self.list[index])
    }
}
