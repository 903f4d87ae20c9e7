//! The machine on which client files are searched: its system and its folders.

use std::path::PathBuf;

use mainstay_config::{Environment, locate_clients};

use crate::own_address::authority;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    Linux,
    MacOs,
    Windows,
}

impl System {
    /// The system that this program was built for. Other Unixes count as Linux.
    pub fn current() -> Self {
        if cfg!(windows) {
            Self::Windows
        } else if cfg!(target_os = "macos") {
            Self::MacOs
        } else {
            Self::Linux
        }
    }
}

/// The facts that determine the paths of client files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    pub system: System,
    pub home: PathBuf,
    /// `%APPDATA%` on Windows.
    pub appdata: Option<PathBuf>,
    /// `$XDG_CONFIG_HOME`, if it is absolute.
    pub xdg_config_home: Option<PathBuf>,
    /// `$CODEX_HOME`, which replaces `~/.codex` as the folder of Codex.
    pub codex_home: Option<PathBuf>,
    /// `$CLAUDE_CONFIG_DIR`, the folder of Claude Code's files.
    pub claude_config_dir: Option<PathBuf>,
    /// The folder of Claude Code's managed settings, which an administrator writes.
    pub claude_managed_dir: Option<PathBuf>,
    /// The file that `serve --mcp-clients` reads, if a variable sets it.
    pub cideldill_clients: Option<PathBuf>,
    /// The addresses of Mainstay as `ADDRESS:PORT`, always with the default address. An entry with one
    /// of them leads to Mainstay itself.
    pub own_addresses: Vec<String>,
    /// A project whose files are also read. Files of a project are read only on request, because a
    /// cloned repository must not be able to start commands.
    pub project: Option<PathBuf>,
}

impl Machine {
    pub fn new(system: System, home: impl Into<PathBuf>) -> Self {
        Self {
            system,
            home: home.into(),
            appdata: None,
            xdg_config_home: None,
            codex_home: None,
            claude_config_dir: None,
            claude_managed_dir: None,
            cideldill_clients: None,
            own_addresses: Vec::new(),
            project: None,
        }
    }

    /// The machine that this program runs on. `None` if the home folder is unknown.
    pub fn from_environment(environment: &dyn Environment) -> Option<Self> {
        let folder = |name: &str| {
            let value = environment.var(name).map(PathBuf::from);
            value.filter(|path| path.is_absolute())
        };
        Some(Self {
            appdata: folder("APPDATA"),
            xdg_config_home: folder("XDG_CONFIG_HOME"),
            codex_home: folder("CODEX_HOME"),
            claude_config_dir: folder("CLAUDE_CONFIG_DIR"),
            claude_managed_dir: Some(match System::current() {
                System::Linux => "/etc/claude-code".into(),
                System::MacOs => "/Library/Application Support/ClaudeCode".into(),
                System::Windows => r"C:\Program Files\ClaudeCode".into(),
            }),
            cideldill_clients: locate_clients(environment)
                .map(|location| location.path().to_owned())
                .filter(|path| path.is_absolute()),
            ..Self::new(System::current(), environment.home_dir()?)
        })
    }

    /// Adds the address of a daemon, given its URL.
    #[must_use]
    pub fn with_daemon(mut self, url: Option<&str>) -> Self {
        let address = url.and_then(authority);
        self.own_addresses.extend(address.map(str::to_owned));
        self
    }

    /// Sets the project. Ignores the home folder, because its files belong to all projects.
    #[must_use]
    pub fn with_project(mut self, project: Option<PathBuf>) -> Self {
        self.project = project.filter(|folder| *folder != self.home);
        self
    }

    /// The folder in which desktop programs keep their settings: `~/.config`, `~/Library/Application
    /// Support`, `%APPDATA%`.
    pub(crate) fn settings(&self) -> PathBuf {
        match self.system {
            System::Linux => self.config(),
            System::MacOs => self.home.join("Library").join("Application Support"),
            System::Windows => self.roaming(),
        }
    }

    /// `~/.config` on every system.
    pub(crate) fn config(&self) -> PathBuf {
        let stated = self.xdg_config_home.clone();
        stated.unwrap_or_else(|| self.home.join(".config"))
    }

    pub(crate) fn roaming(&self) -> PathBuf {
        let stated = self.appdata.clone();
        stated.unwrap_or_else(|| self.home.join("AppData").join("Roaming"))
    }
}
