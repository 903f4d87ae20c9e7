//! The system that a server is to run on.

/// The systems that bundles know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    Linux,
    Mac,
    Windows,
}

impl System {
    pub const HERE: Self = if cfg!(windows) {
        Self::Windows
    } else if cfg!(target_os = "macos") {
        Self::Mac
    } else {
        Self::Linux
    };

    /// Its word in manifests, which is that of Node.js.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Linux => "linux",
            Self::Mac => "darwin",
            Self::Windows => "win32",
        }
    }

    pub const fn separator(self) -> &'static str {
        match self {
            Self::Linux | Self::Mac => "/",
            Self::Windows => "\\",
        }
    }

    /// The form of a name by which its files system compares it.
    pub fn folded(self, name: &str) -> String {
        match self {
            Self::Linux => name.to_owned(),
            Self::Mac | Self::Windows => name.to_lowercase(),
        }
    }
}
