//! The targets that servers' names have had, in this run and in earlier runs. If a client gives a
//! known name another target, the server waits for approval. Otherwise other clients would send data
//! for the old target to the new target.
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

/// The name of the file. It cannot collide with a catalog file, because a server's name has no dot.
const FILE: &str = ".targets.json";
const LOCK: &str = ".targets.lock";

/// Maximum number of names in the file. A full file keeps its names. It cannot store new names, so
/// a server that a client adds under a new name needs approval.
const MAX_NAMES: usize = 10_000;

/// The target of each name.
type Targets = BTreeMap<ServerName, ServerTarget>;

/// The targets of this run, and the folder with the targets of all runs.
#[derive(Debug, Default)]
pub(super) struct KnownTargets {
    folder: Option<PathBuf>,
    /// The targets of the servers in the configuration file.
    file: Option<Targets>,
    /// The latest target of every server of this run.
    learned: Targets,
    /// The learned targets that are not stored yet.
    unsaved: Targets,
}

impl KnownTargets {
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self {
            folder,
            ..Self::default()
        }
    }

    /// Sets the targets of the servers in the configuration file.
    pub fn set_file(&mut self, file: Targets) {
        self.file = Some(file);
    }

    /// True after [`Self::set_file`].
    pub fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Records the targets of the current servers, except pending servers.
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

    /// Returns a future that stores the new targets. `None` if there are none. A failure is logged,
    /// and the targets are then known only in this run.
    pub fn unsaved(&mut self) -> Option<impl Future<Output = ()> + use<>> {
        let new = std::mem::take(&mut self.unsaved);
        let folder = self.folder.clone().filter(|_| !new.is_empty())?;
        Some(async move {
            if let Err(error) = off_the_runtime(move || add(&folder, new)).await {
                tracing::warn!(%error, "the targets of servers' names cannot be kept");
            }
        })
    }

    /// A former target of this name, in any spelling, that differs from `target`. If the stored
    /// targets are incomplete, returns the default target for an unknown name.
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
        // Prefer the exact spelling.
        let exact = others.clone().find(|(former, _)| *former == name);
        let other = exact.or_else(|| others.next());
        let other = other.map(|(_, target)| target.clone());
        other.or_else(|| (full && !targets.contains_key(name)).then(ServerTarget::default))
    }
}

/// The targets of the servers in the configuration file and on the command line.
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

/// The servers of earlier runs. Servers without a catalog file come first, then the others, oldest
/// first.
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

/// The names and targets that are stored in the folder.
#[derive(Default)]
struct TargetsFile {
    targets: Targets,
    /// True if the file may lack names, because it is full.
    full: bool,
}

fn read(folder: &Path) -> io::Result<TargetsFile> {
    let mut targets = read_file(folder)?;
    let full = targets.len() >= MAX_NAMES;
    // An older Mainstay may have stored a catalog without a target.
    for name in names_with_catalogs(folder) {
        targets.entry(name).or_default();
    }
    Ok(TargetsFile { targets, full })
}

/// Adds targets to the file. Holds a file lock, because other Mainstays write the same file.
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
