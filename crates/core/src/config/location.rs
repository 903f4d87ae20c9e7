//! Which configuration file is read. A file in the current folder is never read unasked: a cloned
//! repository must not be able to start commands.

use std::path::{Path, PathBuf};

use super::Environment;

/// Where the configuration lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A file that was named explicitly: it is an error if it does not exist.
    Named(PathBuf),
    /// The usual place; without a file there, there are no servers.
    Usual(PathBuf),
}

impl Location {
    pub fn path(&self) -> &Path {
        let (Self::Named(path) | Self::Usual(path)) = self;
        path
    }
}

/// `--config`, else `$MAINSTAY_CONFIG`, else `$MAINSTAY_HOME/config.json`, else `mainstay/config.json`
/// in the user's configuration folder. `None` where not even a home folder is known.
pub fn locate(flag: Option<&Path>, environment: &dyn Environment) -> Option<Location> {
    let var = |name| {
        environment
            .var(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if let Some(path) = flag.map(Path::to_owned).or_else(|| var("MAINSTAY_CONFIG")) {
        return Some(Location::Named(path));
    }
    let folder = var("MAINSTAY_HOME").or_else(|| {
        // A relative one is to be ignored, says the XDG specification.
        let configured = var("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
        let folder = configured.or_else(|| Some(environment.home_dir()?.join(".config")))?;
        Some(folder.join("mainstay"))
    })?;
    Some(Location::Usual(folder.join("config.json")))
}

/// The file that `--mcp-clients` alone means, for scripts written for another program:
/// `$CIDELDILL_MCP_CLIENTS_CONFIG`, else `mcp_clients.json` in `$CIDELDILL_HOME`, else in `~/.cideldill`.
pub fn locate_clients(environment: &dyn Environment) -> Option<Location> {
    let var = |name| {
        environment
            .var(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if let Some(path) = var("CIDELDILL_MCP_CLIENTS_CONFIG") {
        return Some(Location::Named(path));
    }
    let home =
        var("CIDELDILL_HOME").or_else(|| Some(environment.home_dir()?.join(".cideldill")))?;
    Some(Location::Usual(home.join("mcp_clients.json")))
}
