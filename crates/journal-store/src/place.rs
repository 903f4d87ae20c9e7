//! Notices that the files that the journal is written to are not those of its folder any more. A file that is
//! removed while it is open takes what is written, and nobody finds that again.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{StoreError, schema};

/// The database, its log, and the log's index.
const FILES: [&str; 3] = ["journal.db", "journal.db-wal", "journal.db-shm"];

/// Device and inode.
type Identity = (u64, u64);

/// The files of a journal as they were when it was opened.
#[derive(Debug)]
pub struct Place {
    folder: PathBuf,
    known: [Option<Identity>; FILES.len()],
    /// Bytes of the database after the last checkpoint: only a checkpoint writes to it.
    bytes: u64,
}

impl Place {
    pub fn of(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            known: FILES.map(|name| identity(&folder.join(name)).ok().flatten()),
            bytes: bytes(folder),
        }
    }

    /// The log was brought into the database, which may be shorter now.
    pub fn checkpointed(&mut self) {
        self.bytes = bytes(&self.folder);
    }

    /// Whether what is written comes into the files of the folder.
    pub fn check(&self) -> Result<(), StoreError> {
        for (name, known) in FILES.iter().zip(self.known) {
            let path = self.folder.join(name);
            let found = match identity(&path) {
                Ok(found) => found,
                Err(source) => return Err(StoreError::Io { path, source }),
            };
            if known.is_some() && found != known {
                return Err(StoreError::Removed(path));
            }
        }
        if bytes(&self.folder) < self.bytes {
            return Err(StoreError::Cut(schema::path(&self.folder)));
        }
        Ok(())
    }
}

fn bytes(folder: &Path) -> u64 {
    fs::metadata(schema::path(folder)).map_or(0, |found| found.len())
}

/// `None` where there is no such file, and where the system does not tell.
fn identity(path: &Path) -> io::Result<Option<Identity>> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(of_metadata(&found)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "other systems tell nothing")]
fn of_metadata(found: &fs::Metadata) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt as _;

    Some((found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn of_metadata(_: &fs::Metadata) -> Option<Identity> {
    None
}
