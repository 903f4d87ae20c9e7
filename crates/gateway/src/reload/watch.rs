//! Notices changes of the configuration's file, wherever its name leads: to a file, or by links to one
//! in another folder, which may be renamed and replaced with all that is in it.
//!
//! The system tells of changes in folders, and follows a folder that is renamed, not its name. So the
//! name is looked at as well, every [`PERIOD`]. All of it happens on a thread of its own: a look at a
//! mount that hangs takes as long as it hangs.

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

/// How often the file is looked at.
const PERIOD: Duration = Duration::from_secs(2);

/// Ends the watch when it is dropped.
#[derive(Debug)]
pub struct Watching(Sender<Wake>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wake {
    /// The system tells of a change.
    Event,
    End,
}

impl Drop for Watching {
    fn drop(&mut self) {
        // The thread may have ended.
        self.0.send(Wake::End).ok();
    }
}

/// Watches the file of this name. Each change is told, several may be told as one.
pub fn start(path: &Path, changed: mpsc::Sender<()>) -> io::Result<Watching> {
    let path = std::path::absolute(path)?;
    let (wake, wakes) = channel();
    let events = wake.clone();
    // Not joined: it ends with the look that it is at, which may hang.
    thread::Builder::new()
        .name("config".to_owned())
        .spawn(move || run(&path, &events, &wakes, &changed))?;
    Ok(Watching(wake))
}

fn run(path: &Path, events: &Sender<Wake>, wakes: &Receiver<Wake>, changed: &mpsc::Sender<()>) {
    let mut known = Look::at(path);
    let mut watcher = watch(&known, events);
    loop {
        let is_event = match wakes.recv_timeout(PERIOD) {
            Ok(Wake::Event) => true,
            Err(RecvTimeoutError::Timeout) => false,
            Ok(Wake::End) | Err(RecvTimeoutError::Disconnected) => return,
        };
        let look = Look::at(path);
        if look.folders != known.folders || look.names != known.names {
            // The old one goes first, and with it what it knows of the old folder.
            drop(watcher);
            watcher = watch(&look, events);
        }
        // A change within the clock's step shows by the event alone.
        if is_event || look != known {
            // Full: the file is about to be read anyway.
            changed.try_send(()).ok();
        }
        known = look;
    }
}

/// What a name leads to at a moment.
#[derive(Debug, PartialEq, Eq)]
struct Look {
    /// The file, links followed.
    file: Option<Mark>,
    /// The name itself, which may be a link.
    link: Option<Mark>,
    /// The folder of the name and that of the file, each with what it is.
    folders: Vec<(PathBuf, Option<Identity>)>,
    /// The file under both its names.
    names: Vec<PathBuf>,
}

/// By what a file is told from another, and from itself before a change.
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
        names.extend(std::fs::canonicalize(path).ok().filter(|it| it != path));
        let folder = |name: &PathBuf| name.parent().unwrap_or(Path::new("/")).to_owned();
        let mut folders: Vec<PathBuf> = names.iter().map(folder).collect();
        folders.dedup();
        let identified = |folder: PathBuf| {
            let found = std::fs::metadata(&folder).ok();
            (folder, found.as_ref().map(identity))
        };
        Self {
            file: Mark::of(std::fs::metadata(path)),
            link: Mark::of(std::fs::symlink_metadata(path)),
            folders: folders.into_iter().map(identified).collect(),
            names,
        }
    }
}

impl Mark {
    fn of(found: io::Result<Metadata>) -> Option<Self> {
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

/// The time at which it was made stands for what other systems do not tell.
#[cfg(not(unix))]
fn identity(found: &Metadata) -> Identity {
    let made = found.created().ok();
    let since = made.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    since.map_or((0, 0), |since| {
        (since.as_secs(), since.subsec_nanos().into())
    })
}

/// Asks the system for what happens in the folders, for many editors replace the file. Where it cannot
/// tell, the looks are all there is.
fn watch(look: &Look, events: &Sender<Wake>) -> Option<RecommendedWatcher> {
    let (names, events) = (look.names.clone(), events.clone());
    let folders: Vec<PathBuf> = look.folders.iter().map(|(path, _)| path.clone()).collect();
    let gone = folders.clone();
    let tell = move |event: notify::Result<notify::Event>| {
        let Ok(event) = event else { return };
        let is_of_file = !event.kind.is_access()
            && event.paths.iter().any(|path| {
                let mut names = names.iter();
                names.any(|name| name.file_name() == path.file_name())
            });
        let moves = matches!(
            event.kind,
            EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))
        );
        if is_of_file || moves && event.paths.iter().any(|path| gone.contains(path)) {
            // The thread has ended.
            events.send(Wake::Event).ok();
        }
    };
    let watching = notify::recommended_watcher(tell).and_then(|mut watcher| {
        for folder in &folders {
            match watcher.watch(folder, RecursiveMode::NonRecursive) {
                Err(error) if folder.exists() => return Err(error),
                // It is watched when it is there.
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
