//! Looks up the programs of servers in the same way as when the servers start.

use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
};

use mainstay_core::config::StdioLaunch;
use mainstay_transport::{self as transport, Resolution, Variables};

/// A server's program, and the variables that its process gets.
pub struct Program {
    pub variables: Variables,
    pub resolution: Resolution,
}

impl Program {
    /// Looks up the program. Blocks, because it reads folders and may run a login shell.
    pub fn look_up(launch: &StdioLaunch) -> Self {
        let variables = transport::of_child(launch);
        let resolution = transport::resolve(&launch.command, search_path(&variables));
        // A relative path is looked up in the server's folder.
        let resolution = match (resolution, &launch.cwd) {
            (Resolution::AsGiven(path), Some(cwd)) => Resolution::AsGiven(cwd.join(path)),
            (resolution, _) => resolution,
        };
        Self {
            variables,
            resolution,
        }
    }

    /// The program's path, if the program exists.
    pub fn place(&self) -> Option<PathBuf> {
        match &self.resolution {
            Resolution::Found(path) => Some(path.clone()),
            Resolution::AsGiven(path) => path.is_file().then(|| path.clone()),
            Resolution::NotFound(_) => None,
        }
    }

    pub fn search_path(&self) -> &OsStr {
        search_path(&self.variables)
    }
}

fn search_path(variables: &Variables) -> &OsStr {
    let path = variables.get(OsStr::new("PATH"));
    path.map(OsString::as_os_str).unwrap_or_default()
}

/// The reason why a server cannot start here, although its client may start it: its program or its folder
/// does not exist. Blocks.
pub fn obstacle(launch: &StdioLaunch) -> Option<String> {
    if let Some(cwd) = launch.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
        return Some(format!("`cwd`: there is no folder {}", cwd.display()));
    }
    let program = Program::look_up(launch);
    let words = match &program.resolution {
        Resolution::AsGiven(path) if path.is_relative() => format!(
            "{} lies in a folder that the client has open, which Mainstay does not know; write the whole path",
            path.display()
        ),
        _ if program.place().is_some() => return None,
        Resolution::AsGiven(path) | Resolution::Found(path) => {
            format!("there is no program {}", path.display())
        }
        Resolution::NotFound(_) => transport::not_found(&launch.command, program.search_path()),
    };
    Some(format!("`command`: {words}"))
}
