//! Finds a server's program in PATH, without a shell.

use std::{
    collections::HashMap,
    env,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use mainstay_core::programs;
use parking_lot::Mutex;

/// Folders that are named where a command is not found. The server's log names them all.
const SHOWN_FOLDERS: usize = 4;

/// How a command was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// An absolute path, used as it is, or one with a folder in it, which the system resolves.
    AsGiven(PathBuf),
    Found(PathBuf),
    /// Used as it is; the start will say what the system makes of it.
    NotFound(PathBuf),
}

impl Resolution {
    pub fn program(&self) -> &Path {
        match self {
            Self::AsGiven(path) | Self::Found(path) | Self::NotFound(path) => path,
        }
    }
}

/// What was looked for before, by command and PATH: where it is, or `None`.
type Seen = HashMap<(String, OsString), Option<PathBuf>>;

static SEEN: Mutex<Option<Seen>> = Mutex::new(None);

/// Held for one look or entry, never while folders are read.
fn with_seen<T>(work: impl FnOnce(&mut Seen) -> T) -> T {
    let mut seen = SEEN.lock();
    work(seen.get_or_insert_default())
}

/// Resolves `command` against `path`, as the child's environment has it. Blocks. A command that was
/// missing is looked for again, for it may be installed while we run.
pub fn resolve(command: &str, path: &OsStr) -> Resolution {
    let given = PathBuf::from(command);
    if given.components().count() > 1 || given.is_absolute() {
        return Resolution::AsGiven(given);
    }
    let key = (command.to_owned(), path.to_owned());
    let before = with_seen(|seen| seen.get(&key).cloned().flatten());
    // It may have been removed since.
    if let Some(found) = before.filter(|found| found.is_file()) {
        return Resolution::Found(found);
    }
    let here = env::current_dir().unwrap_or_default();
    let found = which::which_in(command, Some(path), here).ok();
    let before = with_seen(|seen| seen.insert(key, found.clone()));
    match found {
        Some(found) => {
            tracing::info!(
                "resolved command {command:?} to {:?}",
                found.display().to_string()
            );
            Resolution::Found(found)
        }
        None => {
            // Each attempt fails with its reason, which its server's status shows.
            if before != Some(None) {
                tracing::info!("could not resolve {command:?} to an absolute path, using as-is");
            }
            Resolution::NotFound(given)
        }
    }
}

/// The error for a command that is not in `path`: where it was looked for, and what installs it.
pub fn not_found(command: &str, path: &OsStr) -> String {
    let (remedy, looked) = (remedy(command), looked_in(path, SHOWN_FOLDERS));
    format!("command not found: {command}; {remedy}; {looked}")
}

/// What to do about a command that is not in PATH.
pub fn remedy(command: &str) -> String {
    match programs::package_of(command) {
        Some(package) => format!("install {} ({})", package.name, package.url),
        None => "install it, or name it by its whole path".to_owned(),
    }
}

/// Names the folders of a PATH, `most` of them at most.
pub fn looked_in(path: &OsStr, most: usize) -> String {
    let folders: Vec<String> = env::split_paths(path)
        .filter(|folder| !folder.as_os_str().is_empty())
        .map(|folder| folder.display().to_string())
        .collect();
    if folders.is_empty() {
        return "PATH is empty".to_owned();
    }
    let shown = folders[..folders.len().min(most)].join(", ");
    match folders.len().saturating_sub(most) {
        0 => format!("looked in {shown}"),
        more => format!("looked in {shown} and {more} more"),
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

    /// Absolute paths, commands of PATH, and commands that are nowhere.
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

    #[test]
    fn what_is_not_found_says_where_and_what_would_help() {
        for (command, path, expected) in [
            (
                "npx",
                "/a:/b",
                "command not found: npx; install Node.js (https://nodejs.org); looked in /a, /b",
            ),
            (
                "my-server",
                "/a:/b:/c:/d:/e::/f",
                "command not found: my-server; install it, or name it by its whole path; looked in /a, /b, /c, /d and 2 more",
            ),
            (
                "uvx",
                "",
                "command not found: uvx; install uv (https://docs.astral.sh/uv); PATH is empty",
            ),
        ] {
            assert_eq!(not_found(command, OsStr::new(path)), expected);
        }
    }

    /// A program that has gone is looked for anew.
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
