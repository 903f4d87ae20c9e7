//! Finds a server's program in PATH, without a shell.

use std::{
    collections::HashMap,
    env,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use mainstay_core::programs;
use parking_lot::Mutex;

/// The maximum number of folders in the error for a missing command. The server's log names all folders.
const SHOWN_FOLDERS: usize = 4;

/// The program that a command resolves to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// An absolute path, or a path with a folder in it, which the operating system resolves.
    AsGiven(PathBuf),
    Found(PathBuf),
    /// Not found. The command is used unchanged, and the attempt to start it shows the system's error.
    NotFound(PathBuf),
}

impl Resolution {
    pub fn program(&self) -> &Path {
        match self {
            Self::AsGiven(path) | Self::Found(path) | Self::NotFound(path) => path,
        }
    }
}

/// Earlier results by command and PATH: the program, or `None`.
type ResolvedCommands = HashMap<(String, OsString), Option<PathBuf>>;

static RESOLVED: Mutex<Option<ResolvedCommands>> = Mutex::new(None);

/// Calls `work` with the earlier results. They are locked for one lookup or entry, never while folders are
/// read.
fn with_resolved<T>(work: impl FnOnce(&mut ResolvedCommands) -> T) -> T {
    let mut resolved = RESOLVED.lock();
    work(resolved.get_or_insert_default())
}

/// Resolves `command` against `path`, the PATH of the child's environment. Blocks. A missing command is
/// looked up again each time, because it may have been installed in the meantime.
pub fn resolve(command: &str, path: &OsStr) -> Resolution {
    let program = PathBuf::from(command);
    if program.components().count() > 1 || program.is_absolute() {
        return Resolution::AsGiven(program);
    }
    let key = (command.to_owned(), path.to_owned());
    let before = with_resolved(|resolved| resolved.get(&key).cloned().flatten());
    // The program may have been removed since.
    if let Some(found) = before.filter(|found| found.is_file()) {
        return Resolution::Found(found);
    }
    let here = env::current_dir().unwrap_or_default();
    let found = which::which_in(command, Some(path), here).ok();
    let before = with_resolved(|resolved| resolved.insert(key, found.clone()));
    match found {
        Some(found) => {
            tracing::info!(
                "resolved command {command:?} to {:?}",
                found.display().to_string()
            );
            Resolution::Found(found)
        }
        None => {
            // Log only the first failure. The server's status shows the reason of each failed attempt.
            if before != Some(None) {
                tracing::info!("could not resolve {command:?} to an absolute path, using as-is");
            }
            Resolution::NotFound(program)
        }
    }
}

/// The error for a command that is not in `path`: the searched folders, and the way to install it.
pub fn not_found(command: &str, path: &OsStr) -> String {
    let (remedy, looked) = (remedy(command), looked_in(path, SHOWN_FOLDERS));
    format!("command not found: {command}; {remedy}; {looked}")
}

/// The advice for a command that is not in PATH.
pub fn remedy(command: &str) -> String {
    match programs::package_for(command) {
        Some(package) => format!("install {} ({})", package.name, package.url),
        None => "install it, or name it by its whole path".to_owned(),
    }
}

/// A phrase that names the folders of a PATH, at most `most` of them.
pub fn looked_in(path: &OsStr, most: usize) -> String {
    let folders: Vec<String> = env::split_paths(path)
        .filter(|folder| !folder.as_os_str().is_empty())
        .map(|folder| folder.display().to_string())
        .collect();
    if folders.is_empty() {
        return "PATH is empty".to_owned();
    }
    let named = folders[..folders.len().min(most)].join(", ");
    match folders.len().saturating_sub(most) {
        0 => format!("looked in {named}"),
        more => format!("looked in {named} and {more} more"),
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

    /// Absolute paths, commands in PATH, and commands that are in no folder.
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

    /// A removed program is looked up again.
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
