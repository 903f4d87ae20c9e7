//! The paths of logs in a state directory.

use std::path::{Path, PathBuf};

use mainstay_core::ids::ServerName;

/// The folder of all logs.
pub fn folder(state: &Path) -> PathBuf {
    state.join("logs")
}

/// `mcp-<server>.log`. No server's name ends with `_`, so a server called `errors` has its own file, even on
/// file systems that ignore case.
pub fn file_name(server: &ServerName) -> String {
    let name = server.as_str();
    let suffix = if name.eq_ignore_ascii_case("errors") {
        "_"
    } else {
        ""
    };
    format!("mcp-{name}{suffix}.log")
}
