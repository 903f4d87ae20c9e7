//! `daemon.json`: the address of the daemon for commands, and whether it is stopping.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{StateError, failed, read_private, unusable, write_private};

const NAME: &str = "daemon.json";

/// The content of `daemon.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonFile {
    /// The address for commands: `http://` on this machine.
    pub url: String,
    /// The address for clients and browsers, if it is another one: `https://`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_url: Option<String>,
    pub pid: u32,
    pub token_file: PathBuf,
    /// The configuration that the daemon serves, if its command line adds nothing to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// True if the daemon hands the directory over to a `mainstay serve` on request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hands_over: bool,
    /// The maximum time that the stop takes. Only set while the daemon stops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stops_within_ms: Option<u64>,
}

impl DaemonFile {
    /// True if the address is on this machine. Another address could belong to someone else's program, which
    /// must not get the token.
    pub fn is_loopback(&self) -> bool {
        let address = self
            .url
            .strip_prefix("http://")
            .map(str::parse::<SocketAddr>);
        matches!(address, Some(Ok(address)) if address.ip().is_loopback())
    }

    /// The address for clients and browsers.
    pub fn client_url(&self) -> &str {
        self.client_url.as_deref().unwrap_or(&self.url)
    }

    /// The longest time that the daemon still needs to stop. `None` if it is not stopping.
    pub fn stops_within(&self) -> Option<Duration> {
        self.stops_within_ms.map(Duration::from_millis)
    }

    /// Reads the file of a state directory. `None` if the file is missing or incomplete. Fails if the file
    /// belongs to another user, or names a token outside of the directory.
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
            reason: "the token that it names is not in the same directory",
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

    /// Removes the file if it exists.
    pub(super) fn remove(directory: &Path) -> io::Result<()> {
        match fs::remove_file(directory.join(NAME)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

/// The path of a file in the directory. The path may begin with another spelling of the directory.
fn inside(directory: &Path, file: &Path) -> Option<PathBuf> {
    let (folder, name) = (file.parent()?, file.file_name()?);
    let is_ours = || Some(fs::canonicalize(folder).ok()? == fs::canonicalize(directory).ok()?);
    (folder == directory || is_ours()?).then(|| directory.join(name))
}
