//! `daemon.json`: where commands find the daemon, and whether it is stopping.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{StateError, failed, read_private, unusable, write_private};

const NAME: &str = "daemon.json";

/// What `daemon.json` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonFile {
    pub url: String,
    pub pid: u32,
    pub token_file: PathBuf,
    /// The configuration that it serves, with nothing given beside it on its command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// It hands the directory over to a `mainstay serve` that asks for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hands_over: bool,
    /// Only while the daemon stops: the longest time that this takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stops_within_ms: Option<u64>,
}

impl DaemonFile {
    /// Whether it is on this machine, where no other user's program is sent the token.
    pub fn is_loopback(&self) -> bool {
        let address = self
            .url
            .strip_prefix("http://")
            .map(str::parse::<SocketAddr>);
        matches!(address, Some(Ok(address)) if address.ip().is_loopback())
    }

    /// The longest time that the daemon still needs to stop. `None` where it is not stopping.
    pub fn stops_within(&self) -> Option<Duration> {
        self.stops_within_ms.map(Duration::from_millis)
    }

    /// Reads the file of a state directory. A file that is missing or half there says nothing. One that
    /// is not ours, or that names a token outside of the directory, is an error.
    pub(super) fn read(directory: &Path) -> Result<Option<Self>, StateError> {
        let path = directory.join(NAME);
        let text = match read_private(&path) {
            Err(error) if error.is_not_found() => return Ok(None),
            text => text.map_err(unusable(&path))?,
        };
        let Ok(daemon) = serde_json::from_slice::<Self>(&text) else {
            return Ok(None);
        };
        let token = inside(directory, &daemon.token_file);
        let token_file = token.ok_or(StateError::NotBelieved {
            path,
            why: "the token that it names is not in the same directory",
        })?;
        Ok(Some(Self {
            token_file,
            ..daemon
        }))
    }

    pub(super) fn write(&self, directory: &Path) -> Result<(), StateError> {
        let path = directory.join(NAME);
        let text = serde_json::to_vec_pretty(self)
            .map_err(io::Error::from)
            .map_err(failed(&path))?;
        write_private(&path, &text).map_err(failed(&path))
    }

    /// Removes the file, if there is one.
    pub(super) fn remove(directory: &Path) -> io::Result<()> {
        match fs::remove_file(directory.join(NAME)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

/// A file of the directory, by a path that another spelling of the directory may begin.
fn inside(directory: &Path, file: &Path) -> Option<PathBuf> {
    let (folder, name) = (file.parent()?, file.file_name()?);
    let is_ours = || Some(fs::canonicalize(folder).ok()? == fs::canonicalize(directory).ok()?);
    (folder == directory || is_ours()?).then(|| directory.join(name))
}
