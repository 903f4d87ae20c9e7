//! Errors of the journal's store, with hints for the user.

use std::{
    io,
    path::{Path, PathBuf},
};

use mainstay_journal::JournalError;
use mainstay_platform::state::Untrusted;
use rusqlite::ErrorCode;

/// An error that prevents the opening or reading of the journal.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot use {}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("cannot use the journal's database")]
    Database(#[from] rusqlite::Error),
    #[error(
        "{} is of version {found}, and this Mainstay knows {supported} at most: \
         use a newer Mainstay, or move the file away",
        path.display()
    )]
    Newer {
        path: PathBuf,
        found: i64,
        supported: i64,
    },
    #[error("a pattern of `journal.redact` is no regular expression")]
    Pattern(#[from] regex::Error),
    #[error("the journal's database holds {0}, which was never written")]
    Corrupt(&'static str),
    #[error("{} is {actual}", path.display())]
    Misplaced { path: PathBuf, actual: &'static str },
    #[error("{} is empty, and other files of the journal are not", .0.display())]
    Emptied(PathBuf),
    #[error("{} is not a journal", .0.display())]
    Foreign(PathBuf),
    #[error("{} was made by another version ({found})", path.display())]
    OtherVersion { path: PathBuf, found: i64 },
    #[error("{} was removed or replaced while it was written to", .0.display())]
    Removed(PathBuf),
    #[error("{} was cut short while it was written to", .0.display())]
    Cut(PathBuf),
    /// In strict mode, no new journal replaces an unreadable one.
    #[error("the journal in {} is damaged", path.display())]
    Unusable { path: PathBuf, source: Box<Self> },
    /// In strict mode every call must be recorded.
    #[error("calls cannot be put on record in {}", path.display())]
    NotOpened { path: PathBuf, source: Box<Self> },
    /// An error of the journal's interface. Callers distinguish its variants.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl StoreError {
    /// True if the journal's content is damaged, so that a second attempt to read it also fails.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            Self::Corrupt(_)
            | Self::Journal(JournalError::Damaged(_))
            | Self::Misplaced { .. }
            | Self::Emptied(_)
            | Self::Foreign(_)
            | Self::Cut(_)
            | Self::OtherVersion { .. } => true,
            Self::Database(error) => database_is_damaged(error),
            _ => false,
        }
    }

    /// True if a later attempt to open the journal may succeed: after damage, once the journal is
    /// set aside, or after an error of the disk or of SQLite, such as a full disk or a locked
    /// database.
    pub(super) fn may_pass(&self) -> bool {
        self.is_damage() || matches!(self, Self::Io { .. } | Self::Database(_))
    }

    /// The hint for the user: what to do next.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unusable { path, .. } => Some(format!(
                "set it aside, and a new one is begun: mv '{0}' '{0}-damaged'",
                path.display()
            )),
            Self::NotOpened { path, source } => Some(source.remedy(path)),
            _ => None,
        }
    }

    /// The hint for making the journal in this folder usable.
    fn remedy(&self, folder: &Path) -> String {
        let code = match self {
            Self::Database(error) => error.sqlite_error_code(),
            Self::Io { source, .. } => {
                let trust_error = source.get_ref().and_then(|error| error.downcast_ref());
                if let Some(hint) = trust_error.and_then(Untrusted::hint) {
                    return hint;
                }
                match source.kind() {
                    io::ErrorKind::StorageFull => Some(ErrorCode::DiskFull),
                    io::ErrorKind::ReadOnlyFilesystem => Some(ErrorCode::ReadOnly),
                    _ => None,
                }
            }
            _ => None,
        };
        let folder = folder.display();
        let remedy = match code {
            Some(ErrorCode::DiskFull) => format!("free space on the disk of {folder}"),
            Some(ErrorCode::ReadOnly) => format!("make the disk of {folder} writable"),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => format!(
                "end the program that has it open, which this shows: fuser -v '{folder}/journal.db'"
            ),
            _ => format!("see that Mainstay can write to {folder} and what is in it"),
        };
        format!("{remedy}; or set `journal.durability` to `relaxed`")
    }
}

pub(super) fn database_is_damaged(error: &rusqlite::Error) -> bool {
    use rusqlite::Error;
    match error {
        Error::SqliteFailure(error, _) => matches!(
            error.code,
            // SQLite reports a missing table as an unknown error.
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown
        ),
        Error::SqlInputError { .. }
        | Error::InvalidColumnType(..)
        | Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::Utf8Error(..)
        | Error::QueryReturnedNoRows => true,
        _ => false,
    }
}

impl From<StoreError> for JournalError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Journal(error) => error,
            error => Self::Store(Box::new(error)),
        }
    }
}
