//! Reads servers' entries again before each attempt: the files that they name may have been replaced since.

use std::{fmt::Debug, sync::Arc};

use futures_util::future::BoxFuture;
use mainstay_core::{
    config::{Launch, ServerConfig},
    ids::ServerName,
};

/// The entries in force.
pub trait Entries: Debug + Send + Sync {
    /// Reads an entry with the files that it names, in bounded time. `None` if there is nothing to read again. The
    /// problems of what is returned say which files cannot be read.
    fn read_again(&self, name: &ServerName) -> BoxFuture<'static, Option<ServerConfig>>;
}

/// The configuration of an attempt.
#[derive(Clone, Debug)]
pub struct Known {
    pub config: Arc<ServerConfig>,
    /// Where its entry can be read again.
    pub entries: Option<Arc<dyn Entries>>,
}

/// What came of reading an entry again.
pub enum Reread {
    Same,
    /// The configuration with the values that the files have now.
    Other(ServerConfig),
    /// It has problems that it did not have, such as a file that cannot be read.
    Broken(ServerConfig),
}

impl Known {
    /// Reads the files again that the entry names, if there are any.
    pub async fn reread(&self) -> Reread {
        let known = &*self.config;
        let Some(entries) = self.entries.as_ref().filter(|_| known.reads_files) else {
            return Reread::Same;
        };
        let Some(read) = entries.read_again(&known.name).await else {
            return Reread::Same;
        };
        let is_broken = read.problems().next().is_some();
        let read = known.refreshed(read);
        let has_same_values =
            read.launch == known.launch && read.health_check_url == known.health_check_url;
        // What was wrong before is told with its place in the file.
        let is_told = is_broken && matches!(known.launch, Launch::Broken(_));
        if is_told || has_same_values {
            Reread::Same
        } else if is_broken {
            Reread::Broken(read)
        } else {
            Reread::Other(read)
        }
    }
}
