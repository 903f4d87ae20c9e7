//! The entries in force, for supervisors. They read an entry again with the files that it refers to.

use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, ArcSwapOption};
use futures_util::{FutureExt as _, future::BoxFuture};
use mainstay_config::{
    References, ServerStanding, Syntax,
    edit::{Document, Entry},
};
use mainstay_core::{config::ServerConfig, ids::ServerName};
use mainstay_platform::{
    blocking::off_the_runtime,
    environment::{self, ConfigurationSource},
};
use tokio::sync::Semaphore;

use super::servers::Servers;
use crate::supervisor;

/// Maximum number of entries that are read again concurrently. Each entry may read several files
/// concurrently.
const CONCURRENT_ENTRIES: usize = 4;

/// The sources of all servers' entries. Clones share the sources.
#[derive(Clone, Debug)]
pub struct Entries(Arc<Sources>);

#[derive(Debug)]
struct Sources {
    origin: Option<ConfigurationSource>,
    /// The text of the file in force.
    text: Arc<ArcSwapOption<String>>,
    /// Set when the servers have been started. Until then, all servers count as configured.
    servers: OnceLock<Arc<ArcSwap<Servers>>>,
    turns: Arc<Semaphore>,
}

impl Entries {
    pub fn new(origin: Option<ConfigurationSource>, text: Arc<ArcSwapOption<String>>) -> Self {
        Self(Arc::new(Sources {
            origin,
            text,
            servers: OnceLock::new(),
            turns: Arc::new(Semaphore::new(CONCURRENT_ENTRIES)),
        }))
    }

    pub fn set_servers(&self, servers: Arc<ArcSwap<Servers>>) {
        // Cannot fail: the registry calls this only once.
        self.0.servers.set(servers).ok();
    }
}

impl supervisor::Entries for Entries {
    fn read_again(&self, name: &ServerName) -> BoxFuture<'static, Option<ServerConfig>> {
        let (sources, name) = (Arc::clone(&self.0), name.clone());
        async move {
            // The semaphore is never closed.
            let _turn = Arc::clone(&sources.turns).acquire_owned().await;
            off_the_runtime(move || sources.read(&name)).await
        }
        .boxed()
    }
}

impl Sources {
    /// Reads the entry and the files that it refers to.
    fn read(&self, name: &ServerName) -> Option<ServerConfig> {
        let text = self.text.load_full();
        let text = text.as_deref().map(String::as_str);
        let entry = self.entry(name, text)?;
        let replaced = References::Replaced;
        let parsed = match &self.origin {
            Some(origin) => origin.entry(name, &entry, text, replaced),
            None => environment::entry_alone(name, &entry, replaced),
        };
        // Errors in the text around the entry were reported when it was first read.
        let parsed = parsed.inspect_err(
            |error| tracing::debug!(server = %name, %error, "an entry was not read again"),
        );
        Some(parsed.ok()?.config)
    }

    /// The entry of a server from the file, the command line, or the request that added the server.
    fn entry(&self, name: &ServerName, text: Option<&str>) -> Option<Entry> {
        let servers = self.servers.get().map(|servers| servers.load_full());
        let standing = servers.and_then(|servers| servers.standings.get(name).cloned());
        match standing {
            Some(ServerStanding::Ephemeral(runtime)) => Some((*runtime.entry).clone()),
            Some(ServerStanding::Pending(_)) => None,
            Some(ServerStanding::Configured) | None => {
                let origin = self.origin.as_ref()?;
                let mut clients = origin.clients.inline.iter().rev();
                if let Some(inline) = clients.find(|client| client.name == *name) {
                    return Some(inline.entry.clone());
                }
                let syntax = Syntax::of_path(&origin.path()?);
                Document::read(text?, syntax).ok()?.entry(name)
            }
        }
    }
}
