//! Finds the configuration file. A file in the current folder is read only if it is named explicitly,
//! because a cloned repository must not be able to start commands.

use std::path::{Path, PathBuf};

use crate::Environment;

/// The path of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A file that was named explicitly. If it is missing, that is an error.
    Named(PathBuf),
    /// The default path. If the file is missing, there are no servers.
    Usual(PathBuf),
}

impl Location {
    pub fn path(&self) -> &Path {
        let (Self::Named(path) | Self::Usual(path)) = self;
        path
    }
}

/// The setting that names the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// `--config`
    Flag,
    /// `$MAINSTAY_CONFIG`
    Variable,
    /// `$MAINSTAY_HOME`
    StateDir,
    /// `$XDG_CONFIG_HOME`
    ConfigFolder,
    /// The home folder.
    Home,
}

impl NamedBy {
    /// The name of the setting, for messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Flag => "--config",
            Self::Variable => "MAINSTAY_CONFIG",
            Self::StateDir => "MAINSTAY_HOME",
            Self::ConfigFolder => "XDG_CONFIG_HOME",
            Self::Home => "home folder",
        }
    }
}

/// Finds the configuration: `--config`, else `$MAINSTAY_CONFIG`, else `$MAINSTAY_HOME/config.json`, else
/// `mainstay/config.json` in the user's configuration folder. Returns `None` if the home folder is needed
/// and unknown.
pub fn locate(flag: Option<&Path>, environment: &dyn Environment) -> Option<Location> {
    let (by, path) = named_by(flag, environment)?;
    Some(match by {
        NamedBy::Flag | NamedBy::Variable => Location::Named(path),
        NamedBy::StateDir | NamedBy::ConfigFolder | NamedBy::Home => Location::Usual(path),
    })
}

/// Like [`locate`], with the setting that names the file.
pub fn named_by(flag: Option<&Path>, environment: &dyn Environment) -> Option<(NamedBy, PathBuf)> {
    const FILE: &str = "config.json";
    let var = |name| {
        environment
            .var(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if let Some(path) = flag {
        return Some((NamedBy::Flag, path.to_owned()));
    }
    if let Some(path) = var("MAINSTAY_CONFIG") {
        return Some((NamedBy::Variable, path));
    }
    if let Some(folder) = var("MAINSTAY_HOME") {
        return Some((NamedBy::StateDir, folder.join(FILE)));
    }
    // The XDG specification ignores relative paths.
    let configured = var("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    let (by, folder) = match configured {
        Some(folder) => (NamedBy::ConfigFolder, folder),
        None => (NamedBy::Home, environment.home_dir()?.join(".config")),
    };
    Some((by, folder.join("mainstay").join(FILE)))
}

/// The file of `--mcp-clients` without a path, for scripts that were written for CIDELDILL:
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
