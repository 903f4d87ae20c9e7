//! Checks what stands in the journal's places before SQLite looks: SQLite follows links, waits at
//! pipes, and begins a new database, without its log, where the old one is empty.

use std::{
    fs::{self, Metadata},
    io,
    path::{Path, PathBuf},
};

use super::{StoreError, files, schema, unwritten_gap};

/// A folder of its own in the state directory. If the configuration lies there too, its watcher would
/// otherwise be woken for every page that is written.
pub const FOLDER: &str = "journal";

/// Whether each file and folder of a journal is one, where there are any.
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

/// Whether a run before has left objects.
pub fn holds_objects(folder: &Path) -> Result<bool, StoreError> {
    let path = files::path(folder);
    match fs::read_dir(&path) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(StoreError::Io { path, source }),
    }
}

/// A link to a folder is one, if it can be trusted: that is looked at when it is used.
fn check_folder(path: &Path) -> Result<(), StoreError> {
    if found(path.to_owned())?.is_some() && !path.is_dir() {
        return Err(StoreError::Misplaced {
            path: path.to_owned(),
            what: "not a folder",
        });
    }
    Ok(())
}

fn check_file(path: PathBuf) -> Result<Option<Metadata>, StoreError> {
    let Some(found) = found(path.clone())? else {
        return Ok(None);
    };
    let what = if found.is_symlink() {
        "a link"
    } else if found.is_dir() {
        "a folder"
    } else if !found.is_file() {
        "not a regular file"
    } else {
        return Ok(Some(found));
    };
    Err(StoreError::Misplaced { path, what })
}

/// What is there itself, wherever it leads.
fn found(path: PathBuf) -> Result<Option<Metadata>, StoreError> {
    match fs::symlink_metadata(&path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(StoreError::Io { path, source }),
    }
}
