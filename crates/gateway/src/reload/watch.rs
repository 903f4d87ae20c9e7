//! Detects changes of the configuration file. Its path may be a link to a file in another folder,
//! and that folder may be renamed and replaced.
//!
//! The system reports changes in watched folders. It keeps watching a folder that was renamed, and
//! not the new folder at the same path. So the path is also checked every [`PERIOD`]. The checks run
//! on their own thread, because a check on a mount that hangs never returns.

use std::{
    fs::Metadata,
    io,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, SystemTime},
};

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _, event::ModifyKind};
use tokio::sync::mpsc;

/// Interval at which the path is checked.
const PERIOD: Duration = Duration::from_secs(2);

/// A running watch. Dropping it ends the watch.
#[derive(Debug)]
pub struct Watching(Sender<Wake>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wake {
    /// The system has reported a change.
    Event,
    End,
}

impl Drop for Watching {
    fn drop(&mut self) {
        // The thread may have ended.
        self.0.send(Wake::End).ok();
    }
}

/// Watches the file at this path, and sends a message for its changes. Several changes may cause
/// one message.
pub fn start(path: &Path, changed: mpsc::Sender<()>) -> io::Result<Watching> {
    let path = std::path::absolute(path)?;
    let (wake, wakes) = channel();
    let events = wake.clone();
    // Not joined, because the thread's current check may hang.
    thread::Builder::new()
        .name("config".to_owned())
        .spawn(move || run(&path, &events, &wakes, &changed))?;
    Ok(Watching(wake))
}

fn run(path: &Path, events: &Sender<Wake>, wakes: &Receiver<Wake>, changed: &mpsc::Sender<()>) {
    let mut last_look = Look::at(path);
    let mut watcher = watch(&last_look, events);
    loop {
        let is_event = match wakes.recv_timeout(PERIOD) {
            Ok(Wake::Event) => true,
            Err(RecvTimeoutError::Timeout) => false,
            Ok(Wake::End) | Err(RecvTimeoutError::Disconnected) => return,
        };
        let look = Look::at(path);
        if look.folders != last_look.folders || look.names != last_look.names {
            // Drop the old watcher first, because it still watches the old folder.
            drop(watcher);
            watcher = watch(&look, events);
        }
        // An event counts even if the file looks the same: two changes may have the same time
        // and length.
        if is_event || look != last_look {
            // If the channel is full, a reload is due already.
            changed.try_send(()).ok();
        }
        last_look = look;
    }
}

/// The files and folders that a path leads to at one moment.
#[derive(Debug, PartialEq, Eq)]
struct Look {
    /// The file after all links.
    file: Option<Mark>,
    /// The path itself, which may be a link.
    link: Option<Mark>,
    /// The folder of the path and the folder of the file, each with its identity.
    folders: Vec<(PathBuf, Option<Identity>)>,
    /// The configured path, and the path of the file if it differs.
    names: Vec<PathBuf>,
}

/// Identifies a file and its content, without reading the content.
#[derive(Debug, PartialEq, Eq)]
struct Mark {
    identity: Identity,
    modified: Option<SystemTime>,
    length: u64,
}

/// Device and inode.
type Identity = (u64, u64);

impl Look {
    fn at(path: &Path) -> Self {
        let mut names = vec![path.to_owned()];
        names.extend(
            std::fs::canonicalize(path)
                .ok()
                .filter(|target| target != path),
        );
        let folder = |name: &PathBuf| name.parent().unwrap_or(Path::new("/")).to_owned();
        let mut folders: Vec<PathBuf> = names.iter().map(folder).collect();
        folders.dedup();
        let identified = |folder: PathBuf| {
            let found = std::fs::metadata(&folder).ok();
            (folder, found.as_ref().map(identity))
        };
        Self {
            file: Mark::from_metadata(std::fs::metadata(path)),
            link: Mark::from_metadata(std::fs::symlink_metadata(path)),
            folders: folders.into_iter().map(identified).collect(),
            names,
        }
    }
}

impl Mark {
    fn from_metadata(found: io::Result<Metadata>) -> Option<Self> {
        let found = found.ok()?;
        Some(Self {
            identity: identity(&found),
            modified: found.modified().ok(),
            length: found.len(),
        })
    }
}

#[cfg(unix)]
fn identity(found: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt as _;

    (found.dev(), found.ino())
}

/// The time of creation. The standard library has no inode on other systems.
#[cfg(not(unix))]
fn identity(found: &Metadata) -> Identity {
    let created = found.created().ok();
    let since = created.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    since.map_or((0, 0), |since| {
        (since.as_secs(), since.subsec_nanos().into())
    })
}

/// Watches the folders of a file, because many editors replace the file. `None` if the system cannot
/// watch the folders. Then only the periodic checks find changes.
fn watch(look: &Look, events: &Sender<Wake>) -> Option<RecommendedWatcher> {
    let (names, events) = (look.names.clone(), events.clone());
    let folders: Vec<PathBuf> = look.folders.iter().map(|(path, _)| path.clone()).collect();
    let gone = folders.clone();
    let handle = move |event: notify::Result<notify::Event>| {
        let Ok(event) = event else { return };
        let is_of_file = !event.kind.is_access()
            && event.paths.iter().any(|path| {
                names
                    .iter()
                    .any(|name| name.file_name() == path.file_name())
            });
        let is_move = matches!(
            event.kind,
            EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))
        );
        if is_of_file || is_move && event.paths.iter().any(|path| gone.contains(path)) {
            // The thread may have ended.
            events.send(Wake::Event).ok();
        }
    };
    let watching = notify::recommended_watcher(handle).and_then(|mut watcher| {
        for folder in &folders {
            match watcher.watch(folder, RecursiveMode::NonRecursive) {
                Err(error) if folder.exists() => return Err(error),
                // A missing folder is watched as soon as it exists.
                _ => {}
            }
        }
        Ok(watcher)
    });
    watching
        .inspect_err(
            |error| tracing::warn!(%error, "the configuration is only looked at every 2 s"),
        )
        .ok()
}
