//! Targets that servers' names have had, in this run and in earlier ones. A client that gives a
//! known name another target must wait for approval, because other clients would send data for the
//! old target to the new one.
//!
//! The file is in the folder of the catalog files. Several Mainstays share it.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use mainstay_config::{ServerStanding, ServerTarget, Syntax, edit::Document, folded};
use mainstay_core::{config::ServerConfig, ids::ServerName};
use mainstay_platform::{blocking::off_the_runtime, environment::ConfigurationSource, state};

use crate::supervisor::names_with_catalogs;

/// Cannot collide with a catalog file, because no server's name has a dot.
const FILE: &str = ".targets.json";
const LOCK: &str = ".targets.lock";

/// Maximum number of names in the file. When it is full, no name is dropped: every new name then
/// counts as known.
const MAX_NAMES: usize = 10_000;

/// The targets of names.
type Targets = BTreeMap<ServerName, ServerTarget>;

/// The targets of names in this run, and the folder with those of all runs.
#[derive(Debug, Default)]
pub(super) struct KnownTargets {
    folder: Option<PathBuf>,
    /// Targets of the servers of the file in force.
    file: Option<Targets>,
    /// The latest target of every server of this run.
    learned: Targets,
    /// The learned targets that are not in a file yet.
    unsaved: Targets,
}

impl KnownTargets {
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self {
            folder,
            ..Self::default()
        }
    }

    /// Sets the targets of the file's servers.
    pub fn set_file(&mut self, file: Targets) {
        self.file = Some(file);
    }

    /// True after [`Self::set_file`].
    pub fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Records the targets of the present servers, except pending ones.
    pub fn learn(&mut self, servers: &[(ServerConfig, ServerStanding)]) {
        for (config, standing) in servers {
            let target = match standing {
                ServerStanding::Pending(_) => continue,
                ServerStanding::Ephemeral(runtime) => runtime.target.clone(),
                ServerStanding::Configured => {
                    let file = self.file.as_ref();
                    let target = file.and_then(|file| file.get(&config.name).cloned());
                    target.unwrap_or_else(|| ServerTarget::of_config(config))
                }
            };
            if self.learned.get(&config.name) != Some(&target) {
                self.unsaved.insert(config.name.clone(), target.clone());
                self.learned.insert(config.name.clone(), target);
            }
        }
    }

    /// Saves new targets, if there are any. If this fails, it is logged, and the targets are known
    /// in this run only.
    pub fn unsaved(&mut self) -> Option<impl Future<Output = ()> + use<>> {
        let new = std::mem::take(&mut self.unsaved);
        let folder = self.folder.clone().filter(|_| !new.is_empty())?;
        Some(async move {
            if let Err(error) = off_the_runtime(move || add(&folder, new)).await {
                tracing::warn!(%error, "the targets of servers' names cannot be kept");
            }
        })
    }

    /// A former target of this name, in any spelling, that differs from `target`.
    pub async fn other(&self, name: &ServerName, target: &ServerTarget) -> Option<ServerTarget> {
        let file = match self.folder.clone() {
            Some(folder) => off_the_runtime(move || read(&folder)).await,
            None => Ok(TargetsFile::default()),
        };
        let TargetsFile { mut targets, full } = file.unwrap_or_else(|error| {
            tracing::warn!(%error, "the targets of servers' names cannot be read; every name counts as known");
            TargetsFile {
                targets: Targets::default(),
                full: true,
            }
        });
        targets.extend(self.learned.clone());
        let spelling = folded(name);
        let mut others = targets
            .iter()
            .filter(|(former, formerly)| folded(former) == spelling && !formerly.is(target));
        // An equal spelling is the best match.
        let exact = others.clone().find(|(former, _)| *former == name);
        let other = exact.or_else(|| others.next());
        let other = other.map(|(_, target)| target.clone());
        other.or_else(|| (full && !targets.contains_key(name)).then(ServerTarget::default))
    }
}

/// The targets of the servers in a file and on the command line.
pub(super) fn file_targets(origin: Option<&ConfigurationSource>, text: Option<&String>) -> Targets {
    let Some(origin) = origin else {
        return Targets::default();
    };
    let syntax = Syntax::of_path(&origin.path().unwrap_or_default());
    let document = text.and_then(|text| Document::read(text, syntax).ok());
    let written = document
        .map(|document| document.entries())
        .unwrap_or_default();
    let inline_entries = origin
        .clients
        .inline
        .iter()
        .map(|client| (client.name.clone(), client.entry.clone()));
    let entries = written.into_iter().chain(inline_entries);
    entries
        .map(|(name, entry)| (name, ServerTarget::of_entry(&entry)))
        .collect()
}

/// The servers of earlier runs: first those that never offered anything, then the others, the
/// oldest first.
pub(super) fn former(folder: &Path) -> Vec<ServerName> {
    let listed = names_with_catalogs(folder);
    let mut targets = read_file(folder).unwrap_or_else(|error| {
        tracing::warn!(%error, "the names of earlier runs' servers cannot be read");
        Targets::default()
    });
    for name in &listed {
        targets.remove(name);
    }
    targets.into_keys().chain(listed).collect()
}

/// The names and targets in the folder.
#[derive(Default)]
struct TargetsFile {
    targets: Targets,
    /// True if the file is full, so that further names were not stored.
    full: bool,
}

fn read(folder: &Path) -> io::Result<TargetsFile> {
    let mut targets = read_file(folder)?;
    let full = targets.len() >= MAX_NAMES;
    // A Mainstay that stored no targets may have stored the catalog.
    for name in names_with_catalogs(folder) {
        targets.entry(name).or_default();
    }
    Ok(TargetsFile { targets, full })
}

/// Adds targets to the file, under a lock because other Mainstays may do the same.
fn add(folder: &Path, new: Targets) -> io::Result<()> {
    let mut options = state::private_options();
    let lock = state::open_private(&folder.join(LOCK), options.write(true))?;
    lock.lock()?;
    let mut targets = read_file(folder)?;
    for (name, target) in new {
        if targets.len() < MAX_NAMES || targets.contains_key(&name) {
            targets.insert(name, target);
        }
    }
    state::write_private(&folder.join(FILE), &serde_json::to_vec(&targets)?)
}

fn read_file(folder: &Path) -> io::Result<Targets> {
    match state::read_private(&folder.join(FILE)) {
        Ok(text) => Ok(serde_json::from_slice(&text)?),
        Err(error) if error.is_not_found() => Ok(Targets::default()),
        Err(error) => Err(error.into()),
    }
}
