//! The versions of a configuration file in the state directory, byte for byte.
//!
//! A version is the content of the file after a change. The newest version is the content that Mainstay last
//! read or wrote. A version is one file: a line of JSON about it, then the bytes.

use std::{
    ffi::OsStr,
    fmt, fs,
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, SystemTime},
};

use mainstay_config::{Syntax, change_words};
use mainstay_core::failure::{Failure, FailureKind};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{
    encoding::Encoding,
    files::MAX_CONFIGURATION,
    state::{
        StateDir, StateError, open_private, private_dir, private_options, read_private,
        write_private,
    },
    utc,
};

const FOLDER: &str = "config-history";
const LOCK: &str = "lock";
const EXTENSION: &str = "version";

/// The maximum number of versions of one file that are kept.
pub const MAX_VERSIONS: usize = 50;

/// The maximum number of bytes of all versions of one file. The newest two versions are kept regardless of
/// their size.
const MAX_BYTES: u64 = 4 * MAX_CONFIGURATION;

/// The number of bytes of the hash in the folder's name. A collision of two files is practically impossible.
const NAME_BYTES: usize = 8;

/// The maximum length of the line about a version, in bytes. The line has a path, and the names of some
/// servers and keys.
const MAX_HEAD: u64 = 64 * 1024;

/// The maximum length of a version's reason, in characters.
const MAX_REASON: usize = 1000;

/// The number of attempts to get the lock while another process changes the same file.
const LOCK_ATTEMPTS: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The author of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangedBy {
    /// A person on the web page.
    Page,
    /// A program with the control token.
    Rest,
    /// A command of Mainstay.
    Command,
    /// An editor or another program. Mainstay has found the file changed.
    Hand,
}

impl ChangedBy {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Rest => "rest",
            Self::Command => "command",
            Self::Hand => "hand",
        }
    }
}

impl fmt::Display for ChangedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A version without its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    pub version: u64,
    /// RFC 3339, UTC.
    pub at: String,
    pub by: ChangedBy,
    /// A description of the change.
    pub reason: String,
    /// The path of the file.
    pub path: PathBuf,
}

/// The history of one file.
#[derive(Clone, Debug)]
pub struct ConfigHistory {
    state: StateDir,
    folder: PathBuf,
    path: PathBuf,
}

/// The result of restoring a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredVersion<T> {
    /// The result of the function that wrote the content.
    pub done: T,
    /// The version whose content was restored.
    pub restored: u64,
    /// The newest version of the file after the restoration.
    pub version: u64,
}

impl ConfigHistory {
    /// Returns the history of this file. The file need not exist.
    pub fn for_file(state: &StateDir, path: &Path) -> Self {
        // A folder may have several paths, so resolve it. Keep the file's own name, even if the file is a
        // link.
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let folder = absolute.parent().map(|folder| {
            let real = fs::canonicalize(folder);
            real.unwrap_or_else(|_| folder.to_owned())
        });
        let path = match (folder, absolute.file_name()) {
            (Some(folder), Some(name)) => folder.join(name),
            _ => absolute,
        };
        let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
        let mut name = String::with_capacity(2 * NAME_BYTES);
        for byte in &digest[..NAME_BYTES] {
            use fmt::Write as _;
            // Writing to a String cannot fail.
            let _ = write!(name, "{byte:02x}");
        }
        Self {
            folder: state.path().join(FOLDER).join(name),
            state: state.clone(),
            path,
        }
    }

    /// Runs `write`, which changes the file. Keeps the version before the change and the version after it. A
    /// failure of the history is logged, and does not prevent the change.
    pub fn around<T, E>(
        &self,
        by: ChangedBy,
        write: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let held = self.hold().inspect_err(|error| self.tell_unkept(error));
        let keep = |by| {
            if held.is_ok()
                && let Err(error) = self.keep(by, None)
            {
                self.tell_unkept(&error);
            }
        };
        keep(ChangedBy::Hand);
        let done = write()?;
        keep(by);
        Ok(done)
    }

    /// Keeps the file's current content, unless it is the newest version.
    pub fn note(&self, by: ChangedBy) {
        let result = self.hold().and_then(|_lock| self.keep(by, None));
        if let Err(error) = result {
            self.tell_unkept(&error);
        }
    }

    fn tell_unkept(&self, error: &StateError) {
        tracing::warn!(
            path = %self.path.display(),
            error = error as &dyn std::error::Error,
            "no version of the configuration is kept"
        );
    }

    /// All versions, newest first.
    pub fn versions(&self) -> Result<Vec<Version>, StateError> {
        let mut numbers = self.numbers()?;
        numbers.reverse();
        let versions = numbers.into_iter().filter_map(|number| {
            // A damaged version does not hide the others.
            let head = self.head(number);
            let head = head.inspect_err(|error| tracing::warn!(%error, "a version cannot be read"));
            head.ok().flatten()
        });
        Ok(versions.collect())
    }

    /// A version and its bytes.
    pub fn version(&self, number: u64) -> Result<Option<(Version, Vec<u8>)>, StateError> {
        self.state.check()?;
        self.read(number)
    }

    /// The kept version before this one.
    pub fn before(&self, number: u64) -> Result<Option<(Version, Vec<u8>)>, StateError> {
        let older = self.numbers()?.into_iter().rfind(|older| *older < number);
        older.map_or(Ok(None), |older| self.read(older))
    }

    /// True if the file differs from the newest version. A file without a history counts as unchanged.
    pub fn is_changed(&self) -> Result<bool, StateError> {
        let newest = self.newest()?;
        Ok(newest.is_some_and(|(_, bytes)| content(&self.path).as_ref() != Some(&bytes)))
    }

    /// Restores version `number` with `write`. Without a number, restores the version before the last change,
    /// or the newest version if the file is gone. If the file was changed by hand, returns an error unless
    /// `force` is true. With `force`, first keeps that content as a version.
    pub fn restore<T>(
        &self,
        by: ChangedBy,
        number: Option<u64>,
        force: bool,
        write: impl FnOnce(&[u8]) -> Result<T, Failure>,
    ) -> Result<RestoredVersion<T>, Failure> {
        let _held = self.hold().map_err(not_kept)?;
        let found = content(&self.path);
        if found.is_some() && !force && self.is_changed().map_err(not_kept)? {
            return Err(self.changed_by_hand());
        }
        self.keep(ChangedBy::Hand, None).map_err(not_kept)?;
        let newest = self.newest().map_err(not_kept)?;
        let target = match (number, &newest) {
            (Some(number), _) => self.read(number).map_err(not_kept)?,
            // Restore the newest version of a deleted file.
            (None, Some(newest)) if found.is_none() => Some(newest.clone()),
            (None, Some((newest, _))) => self.before(newest.version).map_err(not_kept)?,
            (None, None) => None,
        };
        let (target, bytes) = target.ok_or_else(|| self.unknown(number))?;
        let done = write(&bytes)?;
        // The file has changed by now, so a failure of the history is only logged.
        let reason = format!("back to version {}", target.version);
        let result = self.keep(by, Some(reason)).and_then(|()| self.newest());
        let newest = result
            .inspect_err(|error| self.tell_unkept(error))
            .ok()
            .flatten();
        Ok(RestoredVersion {
            done,
            restored: target.version,
            version: newest.map_or(target.version, |(newest, _)| newest.version),
        })
    }

    fn changed_by_hand(&self) -> Failure {
        let message = format!(
            "{} was changed since Mainstay last saw it, and stays; force the undo to replace it: what it has is \
             kept as a version",
            self.path.display()
        );
        Failure::new(FailureKind::ConfigChanged, message)
    }

    fn unknown(&self, number: Option<u64>) -> Failure {
        let path = self.path.display();
        let message = match number {
            Some(number) => format!("version {number} of {path} is not kept"),
            None => format!("no earlier version of {path} is kept"),
        };
        Failure::new(FailureKind::VersionNotFound, message)
    }

    /// Locks the history of the file. Only one process at a time may change the file and its history.
    fn hold(&self) -> Result<File, StateError> {
        self.state.check()?;
        for folder in [
            self.state.path(),
            &self.state.path().join(FOLDER),
            &self.folder,
        ] {
            private_dir(folder).map_err(|source| failed(folder, source.into()))?;
        }
        let path = self.folder.join(LOCK);
        let mut options = private_options();
        let lock = open_private(&path, options.write(true));
        let lock = lock.map_err(|source| failed(&path, source.into()))?;
        for attempt in 1.. {
            match lock.try_lock() {
                Ok(()) => break,
                Err(fs::TryLockError::WouldBlock) if attempt < LOCK_ATTEMPTS => {
                    thread::sleep(LOCK_PAUSE);
                }
                Err(error) => return Err(failed(&path, error.into())),
            }
        }
        Ok(lock)
    }

    /// Keeps the file's current content, unless it is the newest version. The caller holds the lock.
    fn keep(&self, by: ChangedBy, reason: Option<String>) -> Result<(), StateError> {
        let Some(bytes) = content(&self.path) else {
            return Ok(());
        };
        let newest = self.newest()?;
        if newest.as_ref().is_some_and(|(_, newest)| *newest == bytes) {
            return Ok(());
        }
        let text = |bytes: &Vec<u8>| Encoding::decode(bytes.clone()).unwrap_or_default();
        let reason = reason.unwrap_or_else(|| match &newest {
            None => "as it was found".to_owned(),
            Some((_, before)) => {
                change_words(&text(before), &text(&bytes), Syntax::of_path(&self.path))
            }
        });
        let version = Version {
            version: newest.map_or(1, |(newest, _)| newest.version + 1),
            at: utc::rfc3339(SystemTime::now()),
            by,
            // The reason may contain a key that is as long as the file.
            reason: reason.chars().take(MAX_REASON).collect(),
            path: self.path.clone(),
        };
        let path = self.file_of(version.version);
        let head = serde_json::to_vec(&version).map_err(|error| failed(&path, error.into()))?;
        let whole = [head.as_slice(), b"\n", &bytes].concat();
        write_private(&path, &whole).map_err(|error| failed(&path, error))?;
        self.forget_oldest()
    }

    fn forget_oldest(&self) -> Result<(), StateError> {
        let (mut count, mut bytes) = (0, 0);
        for number in self.numbers()?.into_iter().rev() {
            let path = self.file_of(number);
            let found = fs::metadata(&path).map_err(|error| failed(&path, error))?;
            (count, bytes) = (count + 1, bytes + found.len());
            if count > MAX_VERSIONS || count > 2 && bytes > MAX_BYTES {
                fs::remove_file(&path).map_err(|error| failed(&path, error))?;
            }
        }
        Ok(())
    }

    fn newest(&self) -> Result<Option<(Version, Vec<u8>)>, StateError> {
        let newest = self.numbers()?.pop();
        newest.map_or(Ok(None), |newest| self.read(newest))
    }

    /// The numbers of the kept versions, in order.
    fn numbers(&self) -> Result<Vec<u64>, StateError> {
        self.state.check()?;
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| failed(&self.folder, error))?,
        };
        let mut numbers = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| failed(&self.folder, error))?;
            let path = PathBuf::from(entry.file_name());
            let stem = path.file_stem().and_then(OsStr::to_str);
            if let Some(number) = stem.and_then(|stem| stem.parse().ok())
                && path.extension() == Some(OsStr::new(EXTENSION))
            {
                numbers.push(number);
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn read(&self, number: u64) -> Result<Option<(Version, Vec<u8>)>, StateError> {
        let path = self.file_of(number);
        let mut bytes = match read_private(&path) {
            Err(error) if error.is_not_found() => return Ok(None),
            read => read.map_err(|source| failed(&path, source.into()))?,
        };
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let content = end.map(|end| bytes.split_off(end + 1)).unwrap_or_default();
        let version: Version =
            serde_json::from_slice(&bytes).map_err(|error| failed(&path, error.into()))?;
        Ok(Some((version, content)))
    }

    /// A version without its bytes.
    fn head(&self, number: u64) -> Result<Option<Version>, StateError> {
        let path = self.file_of(number);
        let file = match open_private(&path, private_options().create(false).read(true)) {
            Err(error) if error.is_not_found() => return Ok(None),
            opened => opened.map_err(|source| failed(&path, source.into()))?,
        };
        let mut line = Vec::new();
        let mut start = BufReader::new(file.take(MAX_HEAD));
        let read = start.read_until(b'\n', &mut line);
        read.map_err(|error| failed(&path, error))?;
        let version = serde_json::from_slice(&line);
        version
            .map(Some)
            .map_err(|error| failed(&path, error.into()))
    }

    fn file_of(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:06}.{EXTENSION}"))
    }
}

/// The bytes of the file. `None` if the file cannot be a configuration.
fn content(path: &Path) -> Option<Vec<u8>> {
    let found = fs::metadata(path).ok()?;
    let is_readable = found.is_file() && found.len() <= MAX_CONFIGURATION;
    is_readable.then(|| fs::read(path).ok()).flatten()
}

fn failed(path: &Path, source: io::Error) -> StateError {
    StateError::Io {
        path: path.to_owned(),
        source,
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the shape `map_err` wants")]
fn not_kept(error: StateError) -> Failure {
    let reason = std::error::Error::source(&error).map(|source| format!(": {source}"));
    let message = format!(
        "the configuration stays as it was, for its versions cannot be used: {error}{}",
        reason.unwrap_or_default()
    );
    Failure::new(FailureKind::NotSaved, message)
}
