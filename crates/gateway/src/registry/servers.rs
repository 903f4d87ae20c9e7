//! The present servers, as a snapshot.

use std::sync::Arc;

use foldhash::HashMap;
use mainstay_config::ServerStanding;
use mainstay_core::ids::ServerName;

use crate::supervisor::ServerHandle;

/// All servers. A snapshot, which each change replaces as a whole.
#[derive(Debug, Default)]
pub(super) struct Servers {
    /// All servers, in configuration order.
    pub list: Vec<Arc<ServerHandle>>,
    by_name: HashMap<ServerName, usize>,
    /// Standings of the servers that are not in the file.
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
