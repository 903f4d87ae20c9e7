//! Detects the program to which a configuration file belongs, by its path and its entries. The same key
//! means different things in different programs: some count `timeout` in seconds, and each has its own
//! variables for folders.

use std::path::{Component, Path, PathBuf};

use crate::{Environment, read::node::Node};

/// Keys of Cline, Roo Code and Kilo Code, which count `timeout` in seconds: tools that need no
/// confirmation, and files to watch. No program that counts in milliseconds has these keys.
const KEYS_WITH_SECONDS: [&str; 2] = ["alwaysAllow", "watchPaths"];

/// A key of Cline, which counts seconds, and of Kiro and Amazon Q, which count milliseconds.
const KEY_WITH_EITHER: &str = "autoApprove";

/// Folders of a project from which an editor reads its configuration.
const PROJECT_FOLDERS: [&str; 8] = [
    ".vscode",
    ".vs",
    ".cursor",
    ".roo",
    ".kilocode",
    ".idea",
    ".junie",
    ".gemini",
];

/// The unit of `timeout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Unit {
    Seconds,
    Milliseconds,
    /// Milliseconds, unless the number is so small that it must be seconds.
    Either,
    /// Milliseconds, as in our own file. The file may belong to another program.
    #[default]
    Unknown,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Dialect {
    pub timeout: Unit,
    /// True if `$NAME` stands for a variable, as for Gemini CLI.
    pub has_plain_variables: bool,
    /// The project to which the file belongs: `${workspaceFolder}`, `$PROJECT_DIR$`.
    pub project: Option<PathBuf>,
}

impl Dialect {
    /// Finds the dialect of a file at this path. `servers` are its entries.
    pub fn of_file(path: &Path, servers: &[Node<'_>], environment: &dyn Environment) -> Self {
        let is_of_gemini = is_of_gemini(path);
        let has = |keys: &[&str]| {
            servers
                .iter()
                .any(|server| keys.iter().any(|key| server.member(key).is_some()))
        };
        let timeout = match unit_by_place(path) {
            Some(unit) => unit,
            None if has(&KEYS_WITH_SECONDS) => Unit::Seconds,
            None if has(&[KEY_WITH_EITHER]) => Unit::Either,
            None => Unit::Unknown,
        };
        Self {
            timeout,
            has_plain_variables: is_of_gemini,
            project: project(path).filter(|folder| environment.home_dir().as_ref() != Some(folder)),
        }
    }
}

fn unit_by_place(path: &Path) -> Option<Unit> {
    let is_in = |folder: &str| is_in(path, folder);
    let name = path.file_name()?.to_str()?;
    match name {
        "cline_mcp_settings.json" | "mcp_settings.json" => Some(Unit::Seconds),
        _ if is_in(".roo") || is_in(".kilocode") => Some(Unit::Seconds),
        ".mcp.json" | ".claude.json" | "claude_desktop_config.json" => Some(Unit::Milliseconds),
        _ if is_of_gemini(path) || is_in(".kiro") || is_in("amazonq") => Some(Unit::Milliseconds),
        _ => None,
    }
}

fn is_of_gemini(path: &Path) -> bool {
    let is_extension = path
        .file_name()
        .is_some_and(|name| name == "gemini-extension.json");
    is_extension || is_in(path, ".gemini") || is_in(path, ".qwen")
}

fn is_in(path: &Path, folder: &str) -> bool {
    let mut folders = path.parent().into_iter().flat_map(Path::components);
    folders.any(|component| component == Component::Normal(folder.as_ref()))
}

/// The project of a file: the parent of the editor's folder in it.
fn project(path: &Path) -> Option<PathBuf> {
    let mut folders = path.ancestors().skip(1);
    let editor_folder = folders.find(|folder| {
        let name = folder.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| PROJECT_FOLDERS.contains(&name))
    })?;
    let project = editor_folder.parent()?;
    project.is_absolute().then(|| project.to_owned())
}
