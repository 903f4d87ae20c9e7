//! The file in which a server's catalog and eras are stored between runs. While servers are
//! starting, clients that list get the stored catalogs. The eras of a server need not be detected
//! again.

use std::{
    borrow::Cow,
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use mainstay_core::{
    catalog::{self, ITEM_OVERHEAD, MAX_FORMER, ServerCatalog, StoredCatalog},
    config::{Launch, ServerConfig},
    era::Eras,
    ids::ServerName,
    redact::Secrets,
};
use mainstay_platform::state;
use mainstay_transport::MAX_LIST_BYTES;

/// Maximum size of a catalog file in bytes: the lists, and 1 MiB for the rest.
const MAX_BYTES: usize = MAX_LIST_BYTES + 1024 * 1024;

/// File extension of a catalog file.
const EXTENSION: &str = "json";

/// The catalog file of one server. It contains a digest of the launch. If the launch has changed
/// since, the catalog is not used.
#[derive(Clone, Debug)]
pub struct CatalogFile {
    server: ServerName,
    path: PathBuf,
    launch: String,
}

impl CatalogFile {
    pub fn new(folder: &Path, config: &ServerConfig) -> Self {
        Self {
            server: config.name.clone(),
            path: folder.join(format!("{}.{EXTENSION}", config.name)),
            launch: fingerprint(&config.launch),
        }
    }

    /// Reads the stored catalog. `None` if the file cannot be read, or if the launch has changed
    /// since.
    pub fn load(&self) -> Option<StoredCatalog> {
        let text = self.text()?;
        let catalog = StoredCatalog::read(&text, MAX_LIST_BYTES / ITEM_OVERHEAD)
            .inspect_err(|error| tracing::warn!(server = %self.server, path = %self.path.display(), %error, "a kept catalog is unusable"))
            .ok()?;
        (catalog.launch == self.launch).then_some(catalog)
    }

    /// The text of the file. `None` if there is no file yet, or if it is too large.
    fn text(&self) -> Option<String> {
        let mut options = state::private_options();
        let file = state::open_private(&self.path, options.create(false).read(true)).ok()?;
        let mut text = String::new();
        let limit = MAX_BYTES as u64;
        // Read one byte more than allowed, to detect a file that is too large.
        file.take(limit + 1).read_to_string(&mut text).ok()?;
        if text.len() > MAX_BYTES {
            tracing::warn!(server = %self.server, path = %self.path.display(), limit = MAX_BYTES, "a kept catalog is too large");
            return None;
        }
        Some(text)
    }

    /// Replaces the file atomically: readers see either the old or the new content.
    pub fn save(
        &self,
        declared: &Declarations,
        catalog: &ServerCatalog,
        eras: Eras,
        secrets: Option<&Secrets>,
    ) -> io::Result<()> {
        let text = StoredCatalog::write(&self.launch, &declared.0, catalog, eras);
        // Redact secrets, because the server's lists may quote them.
        let text = secrets.map_or(Cow::Borrowed(&*text), |secrets| secrets.hide(&text));
        if text.len() > MAX_BYTES {
            return Err(io::Error::other(format!("it exceeds {MAX_BYTES} bytes")));
        }
        state::write_private(&self.path, text.as_bytes())
    }
}

/// Digests of the client declarations (`initialize` parameters) for which a server returned the same
/// catalog. Some servers offer more to clients that declare more. Has the last few digests, oldest
/// first.
#[derive(Clone, Debug, Default)]
pub struct Declarations(Vec<String>);

impl Declarations {
    /// Maximum number of digests. Several clients may use the same server in turn.
    const MAX: usize = 8;

    /// Reads digests from a file. Limits their number, because another program may have written the
    /// file.
    pub fn read(mut digests: Vec<String>) -> Self {
        digests.truncate(Self::MAX);
        Self(digests)
    }

    pub fn contain(&self, initialize: &str) -> bool {
        self.0.contains(&catalog::digest_of(&[initialize]))
    }

    pub fn add(&mut self, initialize: &str) {
        if self.0.len() == Self::MAX {
            self.0.remove(0);
        }
        self.0.push(catalog::digest_of(&[initialize]));
    }
}

/// The servers that have a file in this folder, whether or not they are still configured.
pub fn names(folder: &Path) -> Vec<ServerName> {
    // Ignore an unreadable folder, because it has already been reported.
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = files.filter_map(|file| {
        let path = PathBuf::from(file.file_name());
        let is_catalog = path
            .extension()
            .is_some_and(|extension| extension == EXTENSION);
        ServerName::new(path.file_stem().filter(|_| is_catalog)?.to_str()?).ok()
    });
    names.take(MAX_FORMER).collect()
}

/// A digest that identifies a launch without showing its secrets.
fn fingerprint(launch: &Launch) -> String {
    let parts: Vec<&str> = match launch {
        Launch::Stdio(launch) => std::iter::once(launch.command.as_str())
            .chain(launch.args.iter().map(String::as_str))
            .collect(),
        Launch::Http(launch) => vec![launch.url.as_str()],
        Launch::Broken(_) | Launch::Unapproved => Vec::new(),
    };
    catalog::digest_of(&parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_too_large_is_not_read() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = CatalogFile {
            server: ServerName::new("x").expect("a name"),
            path: folder.path().join("x.json"),
            launch: "l".to_owned(),
        };
        assert!(file.load().is_none());
        let catalog = ServerCatalog::default();
        let declared = Declarations::default();
        file.save(&declared, &catalog, Eras::UNKNOWN, None)
            .expect("saved");
        assert!(file.load().is_some());
        let mut text = std::fs::read_to_string(&file.path).expect("readable");
        text.push_str(&" ".repeat(MAX_BYTES - text.len()));
        std::fs::write(&file.path, &text).expect("written");
        assert!(file.load().is_some());
        std::fs::write(&file.path, text + " ").expect("written");
        assert!(file.load().is_none());
    }

    #[test]
    fn the_last_few_declarations_are_known() {
        let mut declared = Declarations::default();
        for n in 0..=Declarations::MAX {
            declared.add(&n.to_string());
        }
        assert!(!declared.contain("0"));
        assert!((1..=Declarations::MAX).all(|n| declared.contain(&n.to_string())));
    }
}
