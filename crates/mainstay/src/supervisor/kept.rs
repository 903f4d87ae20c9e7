//! What is kept of servers between runs. Catalogs: a client that lists while its servers still start
//! gets what they offered last (design section 12). And the eras they speak, so that they are not asked
//! again.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use mainstay_core::{
    catalog::{self, KeptCatalog, ServerCatalog},
    config::{Launch, ServerConfig},
    era::Eras,
};

/// A server's file; what it was kept for tells a server that is reached in another way now.
#[derive(Clone, Debug)]
pub struct Kept {
    path: PathBuf,
    launch: String,
}

impl Kept {
    pub fn new(folder: &Path, config: &ServerConfig) -> Self {
        Self {
            path: folder.join(format!("{}.json", config.name)),
            launch: fingerprint(&config.launch),
        }
    }

    /// What the server offered last; nothing where that cannot be read, or was another's.
    pub fn load(&self) -> Option<(ServerCatalog, Eras)> {
        let text = fs::read_to_string(&self.path).ok()?;
        let kept = KeptCatalog::read(&text)
            .inspect_err(|error| tracing::warn!(path = %self.path.display(), %error, "a kept catalog is unusable"))
            .ok()?;
        (kept.launch == self.launch).then_some((kept.catalog, kept.eras))
    }

    /// Readers see the old file or the new one, whole.
    pub fn save(&self, catalog: &ServerCatalog, eras: Eras) -> io::Result<()> {
        let text = KeptCatalog::write(&self.launch, catalog, eras);
        crate::state::write_private(&self.path, text.as_bytes())
    }
}

/// Tells launches apart without showing what may be secret in them.
fn fingerprint(launch: &Launch) -> String {
    let parts: Vec<&str> = match launch {
        Launch::Stdio(launch) => std::iter::once(launch.command.as_str())
            .chain(launch.args.iter().map(String::as_str))
            .collect(),
        Launch::Http(launch) => vec![launch.url.as_str()],
        Launch::Broken(_) => Vec::new(),
    };
    catalog::digest_of(&parts)
}
