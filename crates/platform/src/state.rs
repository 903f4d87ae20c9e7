//! The state directory: its owner, the control token, and the address of the daemon.
//!
//! One process owns the directory by a lock. The system releases the lock when the process ends in any way.
//! `daemon.json` tells commands the address of the daemon.

mod daemon_file;
mod private;
pub(crate) mod trust;

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use mainstay_config::Environment;
use mainstay_core::config::Secret;

pub use self::daemon_file::DaemonFile;
pub use self::private::{
    create_private_dir, open_private, private_dir, private_options, read_private, sync_folder,
    write_private,
};
pub use self::trust::{Untrusted, directory as trusted_dir};

const LOCK: &str = "lock";
const TOKEN: &str = "token";
const CLIENT_TOKENS: &str = "tokens.json";
const BROWSER_SESSIONS: &str = "browsers.json";
const SESSION_KEY: &str = "session.key";
const SWITCHES: &str = "switches.json";
const VAULT: &str = "vault";
const INSTANCES: &str = "instances";

/// The number of attempts to lock the directory. A command holds the lock for a moment when it checks for an
/// owner, so a new owner tries again.
const LOCK_ATTEMPTS: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The upper bound of the numbers of instance directories. If Mainstays with the same configuration use all
/// numbers, further ones keep no logs.
const MAX_INSTANCES: u32 = 64;

/// The state directory. Nothing is created before [`StateDir::take_ownership`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDir(PathBuf);

#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("no place for state: neither MAINSTAY_HOME nor a home folder is known")]
    Nowhere,
    #[error("the state directory {} belongs to a running daemon{}", dir.display(), owner_suffix(daemon.as_deref()))]
    Taken {
        dir: PathBuf,
        daemon: Option<Box<DaemonFile>>,
    },
    #[error("cannot use {}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} holds no token", .0.display())]
    BadToken(PathBuf),
    #[error("no random number for a token")]
    Random,
    #[error("the state directory {} cannot be used", dir.display())]
    Untrusted { dir: PathBuf, source: Untrusted },
    #[error("{} is not believed: {reason}", path.display())]
    NotBelieved { path: PathBuf, reason: &'static str },
}

fn owner_suffix(daemon: Option<&DaemonFile>) -> String {
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

fn unusable(path: &Path) -> impl FnOnce(Untrusted) -> StateError {
    move |source| failed(path)(source.into())
}

impl StateDir {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The directory: `$MAINSTAY_HOME`, or else `mainstay` in the user's state folder.
    pub fn locate(environment: &dyn Environment) -> Result<Self, StateError> {
        let var = |name| {
            environment
                .var(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        if let Some(home) = var("MAINSTAY_HOME") {
            return Ok(Self(std::path::absolute(&home).map_err(failed(&home))?));
        }
        // The XDG specification says that a relative path must be ignored.
        let state = var("XDG_STATE_HOME").filter(|path| path.is_absolute());
        let state = state.or_else(|| Some(environment.home_dir()?.join(".local").join("state")));
        state
            .map(|state| Self(state.join("mainstay")))
            .ok_or(StateError::Nowhere)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of the catalogs that are kept between runs. Files are replaced atomically, so no lock is
    /// needed.
    pub fn catalogs(&self) -> PathBuf {
        self.0.join("catalogs")
    }

    /// The path of clients' switches; see [`StateDir::catalogs`].
    pub fn switches(&self) -> PathBuf {
        self.0.join(SWITCHES)
    }

    /// The path of the hashed tokens of clients.
    pub fn client_tokens(&self) -> PathBuf {
        self.0.join(CLIENT_TOKENS)
    }

    /// The path of the hashed browser sessions.
    pub fn browser_sessions(&self) -> PathBuf {
        self.0.join(BROWSER_SESSIONS)
    }

    /// The path of the secrets that are kept between runs; see [`crate::vault`].
    pub fn vault(&self) -> PathBuf {
        self.0.join(VAULT)
    }

    /// Replaces the control token. Readers see either the old or the new token.
    pub fn replace_token(&self, token: &Secret) -> Result<(), StateError> {
        let path = self.0.join(TOKEN);
        write_private(&path, token.expose().as_bytes()).map_err(failed(&path))
    }

    /// Takes a directory for a Mainstay that serves one client. Many such Mainstays may run at the same time,
    /// also while a daemon runs. `name` is the name of the client, and the directory gets the first free
    /// number.
    pub fn own_instance(&self, name: &str) -> Result<Instance, StateError> {
        for number in 1..=MAX_INSTANCES {
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

    /// Checks that no other user can write to the directory or replace it. A missing directory passes,
    /// because Mainstay will create it.
    pub fn check(&self) -> Result<(), StateError> {
        match trust::directory(&self.0) {
            Err(error) if error.is_not_found() => Ok(()),
            checked => checked.map_err(|source| self.untrusted(source)),
        }
    }

    fn untrusted(&self, source: Untrusted) -> StateError {
        match source {
            Untrusted::Io(source) => failed(&self.0)(source),
            source => StateError::Untrusted {
                dir: self.0.clone(),
                source,
            },
        }
    }

    /// The names of all instances, current and earlier ones, in order, with their directories.
    pub fn instances(&self) -> Result<Vec<(String, PathBuf)>, StateError> {
        self.check()?;
        let path = self.0.join(INSTANCES);
        let entries = match fs::read_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed(&path))?,
        };
        let mut instances = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed(&path))?;
            // Skip names that are not UTF-8: Mainstay creates no such names.
            if let Ok(name) = entry.file_name().into_string() {
                instances.push((name, entry.path()));
            }
        }
        instances.sort();
        Ok(instances)
    }

    /// Takes the directory for this process until the result is dropped.
    pub fn take_ownership(self) -> Result<Ownership, StateError> {
        let lock = self.clone().lock(LOCK_ATTEMPTS)?;
        // A killed daemon leaves its file behind.
        if let Err(error) = DaemonFile::remove(&self.0) {
            tracing::warn!(%error, "the daemon.json of an earlier daemon could not be removed");
        }
        let token = self.secret(TOKEN)?;
        let session_key = self.secret(SESSION_KEY)?;
        if let Err(error) = private::sweep(&self.0) {
            tracing::debug!(%error, "files of earlier runs are left");
        }
        Ok(Ownership {
            dir: self,
            token,
            session_key,
            config: None,
            client_url: None,
            hands_over: false,
            _lock: lock,
        })
    }

    /// Creates the directory and locks it.
    fn lock(self, attempts: u32) -> Result<File, StateError> {
        private_dir(&self.0).map_err(|source| self.untrusted(source))?;
        let path = self.0.join(LOCK);
        let lock = open_private(&path, private_options().write(true)).map_err(unusable(&path))?;
        for attempt in 1.. {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if attempt < attempts => {
                    thread::sleep(LOCK_PAUSE);
                }
                Err(TryLockError::WouldBlock) => {
                    // The file's content is only used for the error message.
                    let daemon = DaemonFile::read(&self.0).ok().flatten();
                    return Err(StateError::Taken {
                        dir: self.0,
                        daemon: daemon.map(Box::new),
                    });
                }
                Err(TryLockError::Error(source)) => return Err(StateError::Io { path, source }),
            }
        }
        Ok(lock)
    }

    /// The daemon that owns the directory. The file of a dead daemon does not count: another program may
    /// listen at its address, and must not get the token.
    pub fn daemon(&self) -> Result<Option<DaemonFile>, StateError> {
        self.check()?;
        let path = self.0.join(LOCK);
        let mut options = private_options();
        let lock = match open_private(&path, options.create(false).read(true)) {
            Err(error) if error.is_not_found() => return Ok(None),
            lock => lock.map_err(unusable(&path))?,
        };
        match lock.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(_) => DaemonFile::read(&self.0),
        }
    }

    /// Reads a secret. Creates the secret at the first start.
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
    let bytes = read_private(path).map_err(unusable(path))?;
    let text = String::from_utf8_lossy(&bytes);
    let token = text.trim();
    // An empty token would let every client in.
    let usable = token.len() >= 16 && token.bytes().all(|byte| byte.is_ascii_graphic());
    if usable {
        Ok(Secret::new(token))
    } else {
        Err(StateError::BadToken(path.to_owned()))
    }
}

/// The directory of one Mainstay that serves one client. The directory is owned until the value is dropped.
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

/// The state directory. It is owned until the value is dropped.
#[derive(Debug)]
pub struct Ownership {
    dir: StateDir,
    pub token: Secret,
    /// The key that seals the ids of clients' sessions.
    pub session_key: Secret,
    /// The configuration that the owner serves without additions, for `daemon.json`.
    pub config: Option<String>,
    /// The address for clients and browsers, if it is not that for commands, for `daemon.json`.
    pub client_url: Option<String>,
    /// True if the owner hands the directory over to a `mainstay serve` that asks for it, for `daemon.json`.
    pub hands_over: bool,
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

    /// Writes the daemon's address for commands to `daemon.json`.
    pub fn announce(&self, url: &str) -> Result<(), StateError> {
        self.daemon_file(url).write(&self.dir.0)
    }

    /// Writes to `daemon.json` that the daemon is stopping, so that the next daemon waits.
    pub fn announce_stop(&self, url: &str, limit: Duration) -> Result<(), StateError> {
        let stopping = DaemonFile {
            stops_within_ms: Some(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
            ..self.daemon_file(url)
        };
        stopping.write(&self.dir.0)
    }

    fn daemon_file(&self, url: &str) -> DaemonFile {
        DaemonFile {
            url: url.to_owned(),
            client_url: self.client_url.clone(),
            pid: std::process::id(),
            token_file: self.dir.0.join(TOKEN),
            config: self.config.clone(),
            hands_over: self.hands_over,
            stops_within_ms: None,
        }
    }
}

impl Drop for Ownership {
    fn drop(&mut self) {
        // The lock is still held, so this does not remove the file of a successor.
        if let Err(error) = DaemonFile::remove(&self.dir.0) {
            tracing::warn!(%error, "daemon.json could not be removed");
        }
    }
}

/// Makes a token private that other users could read until now.
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
        let first = dir.clone().take_ownership().expect("owned");
        first.announce("http://127.0.0.1:1").expect("announced");
        let error = dir.clone().take_ownership().expect_err("taken");
        let text = error.to_string();
        assert!(
            text.contains("http://127.0.0.1:1") && text.contains(&std::process::id().to_string()),
            "{text}"
        );
        assert_eq!(
            dir.daemon().expect("read").map(|daemon| daemon.url),
            Some("http://127.0.0.1:1".to_owned())
        );
        let token = first.token.clone();
        drop(first);
        assert_eq!(dir.daemon().expect("read"), None);
        assert_eq!(dir.take_ownership().expect("owned again").token, token);
    }

    /// The file of a killed daemon names an address where another program may listen now.
    #[test]
    fn what_a_dead_daemon_left_leads_nowhere() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dir = StateDir::new(folder.path());
        let owner = dir.clone().take_ownership().expect("owned");
        owner.announce("http://127.0.0.1:1").expect("announced");
        let left = fs::read(folder.path().join("daemon.json")).expect("a file");
        drop(owner);
        fs::write(folder.path().join("daemon.json"), left).expect("written");
        assert_eq!(dir.daemon().expect("read"), None);
    }

    #[test]
    fn a_file_without_a_token_opens_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for text in ["", "\n", "short", "has blanks in its 256 bits"] {
            fs::write(folder.path().join(TOKEN), text).expect("written");
            let error = StateDir::new(folder.path())
                .take_ownership()
                .expect_err("refused");
            assert!(
                matches!(error, StateError::BadToken(_)),
                "{text:?}: {error}"
            );
        }
    }

    /// Instances run at the same time as other instances and a daemon. Their directories are used again.
    #[test]
    fn instances_stand_beside_each_other_and_are_used_again() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dir = StateDir::new(folder.path());
        let _daemon = dir.clone().take_ownership().expect("owned");
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
        let owner = dir.clone().take_ownership().expect("owned");
        owner.announce("http://127.0.0.1:1").expect("announced");
        assert_eq!(mode(dir.path()), 0o700);
        let token = owner.token.clone();
        dir.replace_token(&token).expect("replaced");
        for name in [TOKEN, SESSION_KEY, "daemon.json", LOCK] {
            assert_eq!(mode(&dir.path().join(name)), 0o600, "{name}");
        }
        drop(owner);
        fs::set_permissions(dir.path().join(TOKEN), fs::Permissions::from_mode(0o644))
            .expect("set");
        drop(dir.clone().take_ownership().expect("owned"));
        assert_eq!(mode(&dir.path().join(TOKEN)), 0o600);
    }
}
