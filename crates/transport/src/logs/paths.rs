//! The paths of logs in a state directory.

use std::path::{Path, PathBuf};

use mainstay_core::ids::ServerName;

/// The folder of all logs.
pub fn folder(state: &Path) -> PathBuf {
    state.join("logs")
}

/// The name of a server's log: `mcp-SERVER.log`. The log of a server called `errors`, in any case, ends with
/// `_`, because `mcp-errors.log` has the errors of all servers. No server's name ends with `_`.
pub fn file_name(server: &ServerName) -> String {
    let name = server.as_str();
    let suffix = if name.eq_ignore_ascii_case("errors") {
        "_"
    } else {
        ""
    };
    format!("mcp-{name}{suffix}.log")
}
