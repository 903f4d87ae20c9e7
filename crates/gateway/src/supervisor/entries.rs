//! Reads a server's entry again before each attempt, because the files that it names may have
//! changed.

use std::{fmt::Debug, sync::Arc};

use futures_util::future::BoxFuture;
use mainstay_core::{
    config::{Launch, ServerConfig},
    ids::ServerName,
};

/// The source of the entries in force.
pub trait Entries: Debug + Send + Sync {
    /// Reads an entry with the files that it names, in bounded time. `None` if there is nothing to
    /// read. Files that cannot be read are problems of the returned configuration.
    fn read_again(&self, name: &ServerName) -> BoxFuture<'static, Option<ServerConfig>>;
}

/// The configuration of an attempt, and the means to read its entry again.
#[derive(Clone, Debug)]
pub struct CurrentEntry {
    pub config: Arc<ServerConfig>,
    /// The source from which the entry can be read again.
    pub entries: Option<Arc<dyn Entries>>,
}

/// The result of reading an entry again.
pub enum Reread {
    Unchanged,
    /// The configuration with the current values of the files.
    Changed(ServerConfig),
    /// The configuration, with new problems such as a file that cannot be read.
    Broken(ServerConfig),
}

impl CurrentEntry {
    /// Reads the files that the entry names again, if there are any.
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
        // The problems of a broken launch have been reported with their place in the configuration.
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
