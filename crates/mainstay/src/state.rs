//! The state directory: who owns it, the token that opens the REST door, and where the daemon is.
//!
//! One process owns the directory, by a lock that the system releases when the process is gone,
//! however it ended. `daemon.json` tells the commands where to find it.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write as _},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use mainstay_core::config::{Secret, Surroundings};
use serde::{Deserialize, Serialize};

const LOCK: &str = "lock";
const TOKEN: &str = "token";
const CLIENT_TOKENS: &str = "tokens.json";
const SESSION_KEY: &str = "session.key";
const SWITCHES: &str = "switches.json";
const DAEMON: &str = "daemon.json";
const INSTANCES: &str = "instances";

/// Commands hold the lock for a moment to see whether anybody owns it; an owner-to-be outwaits them.
const LOCK_ATTEMPTS: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Mainstays beside each other with the same configuration that keep logs; one more keeps none.
const MAX_INSTANCES: u32 = 64;

/// Where state is kept. Nothing is created before [`StateDir::own`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDir(PathBuf);

/// What `daemon.json` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonFile {
    pub url: String,
    pub pid: u32,
    pub token_file: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("no place for state: neither MAINSTAY_HOME nor a home folder is known")]
    Nowhere,
    #[error("the state directory {} belongs to a running daemon{}", dir.display(), whose(daemon.as_ref()))]
    Taken {
        dir: PathBuf,
        daemon: Option<DaemonFile>,
    },
    #[error("cannot use {}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} holds no token", .0.display())]
    BadToken(PathBuf),
    #[error("no random number for a token")]
    Random,
}

fn whose(daemon: Option<&DaemonFile>) -> String {
    daemon
        .map(|daemon| format!(" (pid {}, {})", daemon.pid, daemon.url))
        .unwrap_or_default()
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> StateError {
    move |source| StateError::Io {
        path: path.to_owned(),
        source,
    }
}

impl StateDir {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// `$MAINSTAY_HOME`, else `mainstay` in the user's state folder.
    pub fn locate(surroundings: &dyn Surroundings) -> Result<Self, StateError> {
        let var = |name| {
            surroundings
                .var(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        if let Some(home) = var("MAINSTAY_HOME") {
            return Ok(Self(std::path::absolute(&home).map_err(failed(&home))?));
        }
        // A relative one is to be ignored, says the XDG specification.
        let state = var("XDG_STATE_HOME").filter(|path| path.is_absolute());
        let state = state.or_else(|| Some(surroundings.home_dir()?.join(".local").join("state")));
        state
            .map(|state| Self(state.join("mainstay")))
            .ok_or(StateError::Nowhere)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where catalogs are kept between runs. Files are replaced whole, so that nobody needs the lock.
    pub fn catalogs(&self) -> PathBuf {
        self.0.join("catalogs")
    }

    /// What is switched off for which client; see [`StateDir::catalogs`].
    pub fn switches(&self) -> PathBuf {
        self.0.join(SWITCHES)
    }

    /// Where clients' tokens are kept, hashed.
    pub fn client_tokens(&self) -> PathBuf {
        self.0.join(CLIENT_TOKENS)
    }

    /// Puts another control token in the place of the one that is there; readers see either, whole.
    pub(crate) fn replace_token(&self, token: &Secret) -> Result<(), StateError> {
        let path = self.0.join(TOKEN);
        write_private(&path, token.expose().as_bytes()).map_err(failed(&path))
    }

    /// Takes a directory for a Mainstay that serves one client only: many run beside each other, and
    /// beside a daemon. `name` tells whose they are, the first free number which of them.
    pub fn own_instance(&self, name: &str) -> Result<Instance, StateError> {
        for number in 1..MAX_INSTANCES {
            let dir = Self(self.0.join(INSTANCES).join(format!("{name}-{number}")));
            match dir.clone().lock(1) {
                Ok(lock) => return Ok(Instance { dir, _lock: lock }),
                Err(StateError::Taken { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(StateError::Taken {
            dir: self.0.clone(),
            daemon: None,
        })
    }

    /// The names of the instances that there are or have been, in order, and their directories.
    pub fn instances(&self) -> Result<Vec<(String, PathBuf)>, StateError> {
        let path = self.0.join(INSTANCES);
        let entries = match fs::read_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed(&path))?,
        };
        let mut instances = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed(&path))?;
            // We gave no other names.
            if let Ok(name) = entry.file_name().into_string() {
                instances.push((name, entry.path()));
            }
        }
        instances.sort();
        Ok(instances)
    }

    /// Takes the directory for this process, until the result is dropped.
    pub fn own(self) -> Result<Ownership, StateError> {
        let lock = self.clone().lock(LOCK_ATTEMPTS)?;
        let token = self.secret(TOKEN)?;
        let session_key = self.secret(SESSION_KEY)?;
        Ok(Ownership {
            dir: self,
            token,
            session_key,
            _lock: lock,
        })
    }

    /// Makes the directory, and locks it.
    fn lock(self, attempts: u32) -> Result<File, StateError> {
        create_private_dir(&self.0).map_err(failed(&self.0))?;
        let path = self.0.join(LOCK);
        let lock = private_file(&path, false).map_err(failed(&path))?;
        for attempt in 1.. {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if attempt < attempts => {
                    thread::sleep(LOCK_PAUSE);
                }
                Err(TryLockError::WouldBlock) => {
                    let daemon = self.read_daemon();
                    return Err(StateError::Taken {
                        dir: self.0,
                        daemon,
                    });
                }
                Err(TryLockError::Error(source)) => return Err(StateError::Io { path, source }),
            }
        }
        Ok(lock)
    }

    /// The daemon that owns the directory. What a daemon that died left behind does not count:
    /// somebody else may listen there now, and must not be sent the token.
    pub fn daemon(&self) -> Option<DaemonFile> {
        let lock = File::open(self.0.join(LOCK)).ok()?;
        match lock.try_lock_shared() {
            Ok(()) => None,
            Err(_) => self.read_daemon(),
        }
    }

    /// A file that is missing or half there says nothing.
    fn read_daemon(&self) -> Option<DaemonFile> {
        serde_json::from_slice(&fs::read(self.0.join(DAEMON)).ok()?).ok()
    }

    /// A secret, made at the first start and kept.
    fn secret(&self, name: &str) -> Result<Secret, StateError> {
        let path = self.0.join(name);
        match read_token(&path) {
            Err(StateError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                let token = random_token()?;
                write_private(&path, token.expose().as_bytes()).map_err(failed(&path))?;
                Ok(token)
            }
            found => {
                restrict(&path).map_err(failed(&path))?;
                found
            }
        }
    }
}

/// 256 random bits, as hexadecimal digits.
pub fn random_token() -> Result<Secret, StateError> {
    let (mut high, mut low) = ([0u8; 16], [0u8; 16]);
    getrandom::fill(&mut high).map_err(|_| StateError::Random)?;
    getrandom::fill(&mut low).map_err(|_| StateError::Random)?;
    let (high, low) = (u128::from_be_bytes(high), u128::from_be_bytes(low));
    Ok(Secret::new(format!("{high:032x}{low:032x}")))
}

pub fn read_token(path: &Path) -> Result<Secret, StateError> {
    let text = fs::read_to_string(path).map_err(failed(path))?;
    let token = text.trim();
    // An empty token would open the door to everyone.
    let usable = token.len() >= 16 && token.bytes().all(|byte| byte.is_ascii_graphic());
    if usable {
        Ok(Secret::new(token))
    } else {
        Err(StateError::BadToken(path.to_owned()))
    }
}

/// The directory of one Mainstay that serves one client only, while this lives.
#[derive(Debug)]
pub struct Instance {
    dir: StateDir,
    _lock: File,
}

impl Instance {
    pub fn path(&self) -> &Path {
        &self.dir.0
    }
}

/// The directory is ours while this lives.
#[derive(Debug)]
pub struct Ownership {
    dir: StateDir,
    pub token: Secret,
    /// Seals the ids of clients' sessions.
    pub session_key: Secret,
    _lock: File,
}

impl Ownership {
    pub fn path(&self) -> &Path {
        &self.dir.0
    }

    pub fn dir(&self) -> &StateDir {
        &self.dir
    }

    /// See [`StateDir::catalogs`].
    pub fn catalogs(&self) -> PathBuf {
        self.dir.catalogs()
    }

    /// See [`StateDir::switches`].
    pub fn switches(&self) -> PathBuf {
        self.dir.switches()
    }

    /// Tells the commands where we are.
    pub fn announce(&self, url: &str) -> Result<(), StateError> {
        let daemon = DaemonFile {
            url: url.to_owned(),
            pid: std::process::id(),
            token_file: self.dir.0.join(TOKEN),
        };
        let path = self.dir.0.join(DAEMON);
        let text = serde_json::to_vec_pretty(&daemon)
            .map_err(io::Error::from)
            .map_err(failed(&path))?;
        write_private(&path, &text).map_err(failed(&path))
    }
}

impl Drop for Ownership {
    fn drop(&mut self) {
        // While the lock is still held, so that a successor's file is never removed.
        if let Err(error) = fs::remove_file(self.dir.0.join(DAEMON))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "{DAEMON} could not be removed");
        }
    }
}

/// Writes a file that only its owner can read; readers see the old one or the new one, whole.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = private_file(&new, true)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(new, path)
}

fn private_file(path: &Path, truncate: bool) -> io::Result<File> {
    private_options().write(true).truncate(truncate).open(path)
}

/// How a file is made that only its owner can read.
pub(crate) fn private_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

pub(crate) fn create_private_dir(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// A token that others could read until now is at least theirs no longer.
#[cfg(unix)]
fn restrict(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let others = fs::metadata(path)?.permissions().mode() & 0o077;
    if others == 0 {
        return Ok(());
    }
    tracing::warn!("{} was readable by others; now it is not", path.display());
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
}

#[cfg(not(unix))]
fn restrict(_path: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_owns_the_directory_and_the_next_may_have_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dir = StateDir::new(folder.path().join("state"));
        let first = dir.clone().own().expect("owned");
        first.announce("http://127.0.0.1:1").expect("announced");
        let error = dir.clone().own().expect_err("taken");
        let told = error.to_string();
        assert!(
            told.contains("http://127.0.0.1:1") && told.contains(&std::process::id().to_string()),
            "{told}"
        );
        assert_eq!(
            dir.daemon().map(|daemon| daemon.url).as_deref(),
            Some("http://127.0.0.1:1")
        );
        let token = first.token.clone();
        drop(first);
        assert_eq!(dir.daemon(), None);
        assert_eq!(dir.own().expect("owned again").token, token);
    }

    /// The file of a daemon that was killed leads to whoever listens there now.
    #[test]
    fn what_a_dead_daemon_left_leads_nowhere() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dir = StateDir::new(folder.path());
        let owner = dir.clone().own().expect("owned");
        owner.announce("http://127.0.0.1:1").expect("announced");
        let left = fs::read(folder.path().join(DAEMON)).expect("a file");
        drop(owner);
        fs::write(folder.path().join(DAEMON), left).expect("written");
        assert_eq!(dir.daemon(), None);
    }

    #[test]
    fn a_file_without_a_token_opens_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for text in ["", "\n", "short", "has blanks in its 256 bits"] {
            fs::write(folder.path().join(TOKEN), text).expect("written");
            let error = StateDir::new(folder.path()).own().expect_err("refused");
            assert!(
                matches!(error, StateError::BadToken(_)),
                "{text:?}: {error}"
            );
        }
    }

    /// Design section 12: many serve one client each, beside each other and beside a daemon.
    #[test]
    fn instances_stand_beside_each_other_and_are_used_again() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dir = StateDir::new(folder.path());
        let _daemon = dir.clone().own().expect("owned");
        let first = dir.own_instance("a").expect("taken");
        let second = dir.own_instance("a").expect("another");
        assert_ne!(first.path(), second.path());
        let names = dir.instances().expect("read").into_iter();
        let names: Vec<String> = names.map(|(name, _)| name).collect();
        assert_eq!(names, ["a-1", "a-2"]);
        let path = first.path().to_owned();
        drop(first);
        assert_eq!(dir.own_instance("a").expect("free again").path(), path);
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_can_read_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let mode =
            |path: &Path| fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dir = StateDir::new(folder.path().join("state"));
        let owner = dir.clone().own().expect("owned");
        owner.announce("http://127.0.0.1:1").expect("announced");
        assert_eq!(mode(dir.path()), 0o700);
        let token = owner.token.clone();
        dir.replace_token(&token).expect("replaced");
        for name in [TOKEN, SESSION_KEY, DAEMON, LOCK] {
            assert_eq!(mode(&dir.path().join(name)), 0o600, "{name}");
        }
        drop(owner);
        fs::set_permissions(dir.path().join(TOKEN), fs::Permissions::from_mode(0o644))
            .expect("set");
        drop(dir.clone().own().expect("owned"));
        assert_eq!(mode(&dir.path().join(TOKEN)), 0o600);
    }
}
