//! Reasons that a file or a secret of a configuration cannot be read.

use std::{io, time::Duration};

/// The fault of a file, without its path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableFile {
    #[error("there is no such file")]
    Absent,
    /// A FIFO, a device, a socket or a folder.
    #[error("it is {0}, not a regular file")]
    NotRegular(&'static str),
    /// Larger than this number of MiB.
    #[error("it has more than {0} MiB")]
    TooLarge(u64),
    #[error("it is not UTF-8 text")]
    NotText,
    /// The disk or the network did not answer in time.
    #[error("it could not be read within {} s", .0.as_secs())]
    Late(Duration),
    /// Too many earlier reads still wait for their disks, so no further one begins.
    #[error("{0} other files that were to be read do not answer")]
    Congested(usize),
    /// Other users could have written the file. The text names them.
    #[error("{0}, so that others can have any program run as you")]
    Untrusted(String),
    #[error("{0}")]
    System(io::ErrorKind),
}

impl UnreadableFile {
    /// A hint that tells how to fix the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Absent => "create it, or correct the path",
            Self::NotRegular(_) => "name a regular file",
            Self::TooLarge(_) => "put what is needed of it into a smaller file",
            Self::NotText => "save it as UTF-8",
            Self::Late(_) | Self::Congested(_) => "check the disk or network mount it lies on",
            Self::Untrusted(_) => {
                "see what is in it, then make it your own and take others' right to write: chmod go-w"
            }
            Self::System(_) => "check the path, and that Mainstay's user may read it",
        }
    }
}

impl From<io::Error> for UnreadableFile {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Absent,
            io::ErrorKind::InvalidData => Self::NotText,
            other => Self::System(other),
        }
    }
}

/// The fault of a secret of the vault, without its name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableSecret {
    #[error("there is no such secret")]
    Absent,
    #[error("it is not UTF-8 text")]
    NotText,
    /// The keyring or the disk did not answer in time.
    #[error("the vault did not answer within {} s", .0.as_secs())]
    Late(Duration),
    /// Too many earlier reads still wait for the keyring.
    #[error("earlier reads of the vault still wait for an answer")]
    Congested,
    /// The vault cannot be used. The text has the reason.
    #[error("{0}")]
    Vault(String),
}

impl UnreadableSecret {
    /// A hint that tells how to fix the error.
    pub fn hint(&self, name: &str) -> String {
        match self {
            Self::Absent => {
                format!(
                    "set it: mainstay secret set {name}, or give a default: ${{keyring:{name}:-…}}"
                )
            }
            Self::NotText => format!("set it again: mainstay secret set {name}"),
            Self::Late(_) | Self::Congested => {
                "unlock the system's keyring, which holds the key of the vault".to_owned()
            }
            Self::Vault(_) => "see mainstay doctor".to_owned(),
        }
    }
}
