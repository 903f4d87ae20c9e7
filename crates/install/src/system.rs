//! The operating system that a server runs on.

/// The systems that a bundle can name.
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

    /// The name of the system in manifests, which is its name in Node.js.
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

    /// The form of a name that the system's file systems compare.
    pub fn folded(self, name: &str) -> String {
        match self {
            Self::Linux => name.to_owned(),
            Self::Mac | Self::Windows => name.to_lowercase(),
        }
    }
}
