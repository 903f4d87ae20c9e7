//! Checks the journal's paths before SQLite opens them. SQLite follows links, blocks on pipes, and
//! starts a new database without its log if the old one is empty.

use std::{
    fs::{self, Metadata},
    io,
    path::{Path, PathBuf},
};

use super::{StoreError, files, schema, unwritten_gap};

/// The journal's own folder in the state directory. Without it, every written page would wake a
/// watcher of a configuration in that directory.
pub const FOLDER: &str = "journal";

/// Checks that the journal's paths have the expected types: folder or regular file. Missing paths
/// are valid.
pub fn check(folder: &Path) -> Result<(), StoreError> {
    check_folder(folder)?;
    let database = check_file(schema::path(folder))?;
    let log = check_file(folder.join("journal.db-wal"))?;
    check_file(folder.join("journal.db-shm"))?;
    check_file(unwritten_gap::path(folder))?;
    check_folder(&files::path(folder))?;
    let is_empty = |file: &Option<Metadata>| file.as_ref().is_none_or(|file| file.len() == 0);
    if is_empty(&database) && (!is_empty(&log) || holds_objects(folder)?) {
        return Err(StoreError::Emptied(schema::path(folder)));
    }
    Ok(())
}

/// True if an earlier run has left objects.
pub fn holds_objects(folder: &Path) -> Result<bool, StoreError> {
    let path = files::path(folder);
    match fs::read_dir(&path) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(StoreError::Io { path, source }),
    }
}

/// Checks a folder. A link to a folder is valid. The code that uses the folder checks its owner.
fn check_folder(path: &Path) -> Result<(), StoreError> {
    if metadata(path.to_owned())?.is_some() && !path.is_dir() {
        return Err(StoreError::Misplaced {
            path: path.to_owned(),
            actual: "not a folder",
        });
    }
    Ok(())
}

fn check_file(path: PathBuf) -> Result<Option<Metadata>, StoreError> {
    let Some(metadata) = metadata(path.clone())? else {
        return Ok(None);
    };
    let file_kind = if metadata.is_symlink() {
        "a link"
    } else if metadata.is_dir() {
        "a folder"
    } else if !metadata.is_file() {
        "not a regular file"
    } else {
        return Ok(Some(metadata));
    };
    Err(StoreError::Misplaced {
        path,
        actual: file_kind,
    })
}

/// The metadata of the path itself, not of a link's target.
fn metadata(path: PathBuf) -> Result<Option<Metadata>, StoreError> {
    match fs::symlink_metadata(&path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(StoreError::Io { path, source }),
    }
}
