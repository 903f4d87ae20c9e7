//! Reads a server's entry again before each attempt, because the files that the entry refers to may
//! have changed.

use std::{fmt::Debug, sync::Arc};

use futures_util::future::BoxFuture;
use mainstay_core::{
    config::{Launch, ServerConfig},
    ids::ServerName,
};

/// The source of the entries in force.
pub trait Entries: Debug + Send + Sync {
    /// Reads an entry and the files that it refers to, in bounded time. `None` if there is no entry
    /// to read. A file that cannot be read is a problem of the returned configuration.
    fn read_again(&self, name: &ServerName) -> BoxFuture<'static, Option<ServerConfig>>;
}

/// The configuration of an attempt, and the source from which its entry is read again.
#[derive(Clone, Debug)]
pub struct CurrentEntry {
    pub config: Arc<ServerConfig>,
    /// The source of entries. `None`: entries are not read again.
    pub entries: Option<Arc<dyn Entries>>,
}

/// The result of reading an entry again.
pub enum Reread {
    Unchanged,
    /// The files have changed. Has the configuration with their current values.
    Changed(ServerConfig),
    /// The entry has new problems, such as a file that cannot be read. Has the configuration with
    /// these problems.
    Broken(ServerConfig),
}

impl CurrentEntry {
    /// Reads the entry again, if it refers to files.
    pub async fn reread(&self) -> Reread {
        let config = &*self.config;
        let Some(entries) = self.entries.as_ref().filter(|_| config.reads_files) else {
            return Reread::Unchanged;
        };
        let Some(read) = entries.read_again(&config.name).await else {
            return Reread::Unchanged;
        };
        let is_broken = read.problems().next().is_some();
        let read = config.refreshed(read);
        let has_same_values =
            read.launch == config.launch && read.health_check_url == config.health_check_url;
        // The problems of a broken launch were reported when the configuration came into force.
        let is_reported = is_broken && matches!(config.launch, Launch::Broken(_));
        if is_reported || has_same_values {
            Reread::Unchanged
        } else if is_broken {
            Reread::Broken(read)
        } else {
            Reread::Changed(read)
        }
    }
}
