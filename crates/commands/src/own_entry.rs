//! The entry of Mainstay itself in the files of clients.

use std::{env, path};

use mainstay_client_files::OwnEntry;
use mainstay_command_line::CommandError;

use super::resolve;

/// An entry that starts this program as a front to the daemon of this state directory.
pub fn connect() -> Result<OwnEntry, CommandError> {
    let program = env::current_exe().map_err(|source| CommandError::Read {
        path: "the path of this program".to_owned(),
        source,
    })?;
    // Add the variable to the entry. A client that starts from a desktop does not have it.
    let home = env::var_os("MAINSTAY_HOME").filter(|home| !home.is_empty());
    let home = home.map(|home| {
        path::absolute(&home).map_err(|source| CommandError::Read {
            path: home.display().to_string(),
            source,
        })
    });
    Ok(OwnEntry::Connect {
        program,
        is_on_path: resolve::is_here("mainstay"),
        home: home.transpose()?,
    })
}
