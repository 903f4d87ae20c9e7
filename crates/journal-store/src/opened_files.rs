//! Detects if the journal's open files are no longer those of its folder. Writes to a removed file
//! are lost.

use std::{
    fs::{self, Metadata},
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use rusqlite::Connection;

use super::{StoreError, schema};

/// The database, its log, and the log's index.
const FILES: [&str; 3] = ["journal.db", "journal.db-wal", "journal.db-shm"];

/// Device and inode.
type Identity = (u64, u64);

/// The files of a journal at the time of its opening.
#[derive(Debug)]
pub struct OpenedFiles {
    folder: PathBuf,
    identities: [Option<Identity>; FILES.len()],
    /// Bytes of the database after the last checkpoint. Only a checkpoint writes to the database.
    bytes: AtomicU64,
}

impl OpenedFiles {
    pub fn new(folder: &Path) -> Self {
        let identities = FILES.map(|name| {
            let metadata = file_metadata(&folder.join(name)).ok().flatten();
            metadata.as_ref().and_then(identity)
        });
        Self {
            folder: folder.to_owned(),
            identities,
            bytes: AtomicU64::new(bytes(folder)),
        }
    }

    /// Stores the database's size after a checkpoint, which may have made it shorter.
    pub fn update_size(&self) {
        self.bytes.store(bytes(&self.folder), Ordering::Relaxed);
    }

    /// Checks that the folder's files are the open ones, and that the database was not cut short.
    pub fn check(&self, connection: &Connection) -> Result<(), StoreError> {
        for (name, opened_identity) in FILES.iter().zip(self.identities) {
            let path = self.folder.join(name);
            let metadata = match file_metadata(&path) {
                Ok(metadata) => metadata,
                // Without permission to look, assume that the file still exists.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
                Err(source) => return Err(StoreError::Io { path, source }),
            };
            if opened_identity.is_some() && metadata.as_ref().and_then(identity) != opened_identity
            {
                return Err(StoreError::Removed(path));
            }
            if *name == FILES[0]
                && let Some(metadata) = metadata
                && metadata.len() < self.bytes.load(Ordering::Relaxed)
            {
                if metadata.len() < required_bytes(connection) {
                    return Err(StoreError::Cut(path));
                }
                // Another program has shortened the database correctly, by a vacuum.
                self.bytes.store(metadata.len(), Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

/// Size of the database by its own header, in bytes. Another program may have reduced it correctly.
fn required_bytes(connection: &Connection) -> u64 {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    match (pragma("page_count"), pragma("page_size")) {
        (Ok(pages), Ok(bytes)) => (pages * bytes).unsigned_abs(),
        _ => u64::MAX,
    }
}

fn bytes(folder: &Path) -> u64 {
    fs::metadata(schema::path(folder)).map_or(0, |metadata| metadata.len())
}

/// The metadata of a file. `None` if the file is missing.
fn file_metadata(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
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
fn identity(metadata: &Metadata) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt as _;

    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> Option<Identity> {
    None
}
