//! The state that all supervisors share, and their reports to the registry.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use mainstay_core::{catalog::ListKind, ids::ServerName, message::Method, trouble::EntryPlace};
use mainstay_platform::lineage::Lineage;
use mainstay_transport::{Notice, Reserve, logs::Logs};
use tokio::sync::{mpsc, oneshot};

use super::{
    entries::Entries,
    pace::Pace,
    queue::Queue,
    sole::{Asks, Sole},
};
use crate::{events::Events, history::History};

/// A supervisor's report to the registry.
#[derive(Debug)]
pub enum Report {
    /// The server's catalog may differ. `announced` are the lists that it said have changed;
    /// `merged` resolves when the merged catalog has them.
    CatalogChanged {
        announced: Vec<ListKind>,
        merged: oneshot::Sender<()>,
    },
    /// A new shared session is up: it knows nothing of log levels and subscriptions.
    Opened,
    /// A log message, a changed resource, or another notification that belongs to no call.
    Notice(Notice),
}

/// The state that all supervisors share.
#[derive(Debug)]
pub struct Fleet {
    pub pace: Pace,
    pub reports: mpsc::Sender<(ServerName, Report)>,
    pub events: Events,
    /// Where changes of servers' statuses are put on record.
    pub history: History,
    pub logs: Logs,
    /// Where catalogs are kept between runs.
    pub catalogs: Option<PathBuf>,
    pub lineage: Lineage,
    /// Memory for long lists.
    pub reserve: Reserve,
    /// Questions of servers that no client could be asked.
    pub queue: Arc<Queue>,
    /// The one client, where there can be no other.
    pub sole: Option<Sole>,
    /// Where entries can be read again.
    pub entries: Option<Arc<dyn Entries>>,
    /// The file with the servers' entries, if its changes take effect at once.
    pub watched_file: Option<PathBuf>,
    /// Servers whose entries stand on the command line.
    pub inline: BTreeSet<ServerName>,
}

impl Fleet {
    /// Where the configuration has the entry of a server.
    pub fn entry_place(&self, server: &ServerName) -> EntryPlace {
        match &self.watched_file {
            _ if self.inline.contains(server) => EntryPlace::CommandLine,
            Some(file) => EntryPlace::File(file.to_string_lossy().into_owned()),
            None => EntryPlace::Configuration,
        }
    }

    /// Asks the one client, where there is only one.
    pub fn sole_asks(&self) -> Option<Arc<dyn Asks>> {
        self.sole.as_ref()?.declared()?.asks
    }

    /// Whether the one client has roots, and is asked for them by the answers to its calls.
    pub fn sole_tells_roots_in_calls(&self) -> bool {
        let declared = self.sole.as_ref().and_then(Sole::declared);
        declared
            .is_some_and(|it| it.asks.is_none() && it.capabilities.allows(Method::RootsList, "{}"))
    }
}
