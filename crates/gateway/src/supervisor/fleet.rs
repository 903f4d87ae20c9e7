//! The state that all supervisors share, and their reports to the registry.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use mainstay_core::{
    catalog::ListKind,
    config::{Launch, ServerConfig},
    ids::ServerName,
    message::Method,
    principal::Principal,
    trouble::EntryPlace,
};
use mainstay_platform::lineage::Lineage;
use mainstay_transport::{
    CredentialSource, HeadersHelpers, Notice, Reserve,
    logs::{ServerLog, ServerLogs},
};
use tokio::sync::{mpsc, oneshot};

use super::{
    entries::Entries,
    pace::Pace,
    queue::Queue,
    sole::{Asks, Sole},
};
use crate::{
    credential_sources::{CredentialSources, LoggedSource},
    events::EventRing,
    history::StatusHistory,
};

/// A supervisor's report to the registry.
#[derive(Debug)]
pub enum SupervisorReport {
    /// The server's catalog may have changed. `announced` has the lists that the server announced as
    /// changed. The merger sends on `merged` when the merged catalog includes the change.
    CatalogChanged {
        announced: Vec<ListKind>,
        merged: oneshot::Sender<()>,
    },
    /// A new shared session is up. It has no log level and no subscriptions yet.
    Opened,
    /// The server has sent a log message, or has announced that a resource has changed.
    Notice(Notice),
}

/// The state that all supervisors share.
#[derive(Debug)]
pub struct Fleet {
    pub pace: Pace,
    pub reports: mpsc::Sender<(ServerName, SupervisorReport)>,
    pub events: EventRing,
    /// Records changes of servers' statuses.
    pub history: StatusHistory,
    pub logs: ServerLogs,
    /// The folder of the catalog files. `None`: no catalogs are stored.
    pub catalogs: Option<PathBuf>,
    pub lineage: Lineage,
    /// The memory limit for long lists of all servers together.
    pub reserve: Reserve,
    /// The questions of servers that wait for a person, because no client could be asked.
    pub queue: Arc<Queue>,
    /// The only client. `None` if there can be several clients.
    pub sole: Option<Sole>,
    /// The source from which supervisors read entries again.
    pub entries: Option<Arc<dyn Entries>>,
    /// The configuration file. `None` if the configuration comes from no file.
    pub watched_file: Option<PathBuf>,
    /// The sources of credentials for servers that are reached over HTTP.
    pub credential_sources: Option<Arc<dyn CredentialSources>>,
    /// The commands that print headers (`headersHelper`).
    pub headers_helpers: HeadersHelpers,
    /// Servers whose entries are on the command line.
    pub inline: BTreeSet<ServerName>,
}

impl Fleet {
    /// The source of credentials for a principal's sessions with a server. `None` if the headers of
    /// the entry are the only credentials.
    pub fn credentials(
        &self,
        server: &ServerConfig,
        principal: &Principal,
        log: &Arc<ServerLog>,
    ) -> Option<Arc<dyn CredentialSource>> {
        let source: Arc<dyn CredentialSource> = match self.headers_helpers.source(server, log) {
            Some(source) => source,
            None if matches!(server.launch, Launch::Http(_)) => self
                .credential_sources
                .as_ref()?
                .source(server, principal)?,
            None => return None,
        };
        Some(Arc::new(LoggedSource::new(source, Arc::clone(log))))
    }

    /// The place of a server's entry in the configuration.
    pub fn entry_place(&self, server: &ServerName) -> EntryPlace {
        match &self.watched_file {
            _ if self.inline.contains(server) => EntryPlace::CommandLine,
            Some(file) => EntryPlace::File(file.to_string_lossy().into_owned()),
            None => EntryPlace::Configuration,
        }
    }

    /// The means to ask the only client. `None` if there can be several clients, or if the client
    /// cannot be asked outside of its calls.
    pub fn sole_asker(&self) -> Option<Arc<dyn Asks>> {
        self.sole.as_ref()?.declared()?.asker
    }

    /// True if the only client has roots and can be asked for them only in results of its calls.
    pub fn sole_gives_roots_in_calls(&self) -> bool {
        let declared = self.sole.as_ref().and_then(Sole::declared);
        declared.is_some_and(|client| {
            client.asker.is_none() && client.capabilities.allows(Method::RootsList, "{}")
        })
    }
}
