//! Finding a server's program (requirements, section D): PATH is walked here, without a shell.

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// How a command was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// An absolute path, used as it is (D1), or one with a folder in it, which the system resolves.
    AsGiven(PathBuf),
    Found(PathBuf),
    /// Used as it is; the start will say what the system makes of it (D4).
    NotFound(PathBuf),
}

impl Resolution {
    pub fn program(&self) -> &Path {
        match self {
            Self::AsGiven(path) | Self::Found(path) | Self::NotFound(path) => path,
        }
    }
}

/// What was found before, by command and PATH (D2). Only finds are kept: a program may be installed
/// while we run.
static CACHE: Mutex<Option<HashMap<(String, OsString), PathBuf>>> = Mutex::new(None);

/// Resolves `command` against `path`, as the child's environment has it.
pub fn resolve(command: &str, path: &OsStr) -> Resolution {
    let given = PathBuf::from(command);
    if given.components().count() > 1 || given.is_absolute() {
        return Resolution::AsGiven(given);
    }
    let key = (command.to_owned(), path.to_owned());
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    let cache = cache.get_or_insert_default();
    if let Some(found) = cache.get(&key) {
        // It may have been removed since.
        if found.is_file() {
            return Resolution::Found(found.clone());
        }
    }
    let here = std::env::current_dir().unwrap_or_default();
    if let Ok(found) = which::which_in(command, Some(path), here) {
        tracing::info!(
            "resolved command {command:?} to {:?}",
            found.display().to_string()
        );
        cache.insert(key, found.clone());
        Resolution::Found(found)
    } else {
        tracing::warn!("could not resolve {command:?} to an absolute path, using as-is");
        Resolution::NotFound(given)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn program(folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, "#!/bin/sh\n").expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))
            .expect("made executable");
        path
    }

    /// D1, D3, D4
    #[test]
    fn a_command_is_absolute_or_found_or_used_as_it_is() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let tool = program(folder.path(), "mainstay-test-tool");
        let path = folder.path().as_os_str();
        assert_eq!(
            resolve("mainstay-test-tool", path),
            Resolution::Found(tool.clone())
        );
        let absolute = tool.to_str().expect("UTF-8");
        assert_eq!(resolve(absolute, path), Resolution::AsGiven(tool.clone()));
        assert_eq!(
            resolve("no-such-tool-anywhere", path),
            Resolution::NotFound("no-such-tool-anywhere".into())
        );
    }

    /// D2: a find that has gone is looked for anew.
    #[test]
    fn a_program_that_was_removed_is_not_found_again() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let tool = program(folder.path(), "mainstay-vanishing-tool");
        let path = folder.path().as_os_str();
        assert_eq!(
            resolve("mainstay-vanishing-tool", path),
            Resolution::Found(tool.clone())
        );
        std::fs::remove_file(tool).expect("removed");
        assert!(matches!(
            resolve("mainstay-vanishing-tool", path),
            Resolution::NotFound(_)
        ));
    }
}
