//! What the doctor finds: what it is, why it matters, and the command that mends it.

use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

use mainstay_command_line::output::one_line;
use mainstay_core::display::word;
use mainstay_platform::state;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Ok,
    Note,
    Warning,
    Error,
}

impl Level {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The same in every version: `config.invalid`.
    pub id: &'static str,
    pub level: Level,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    pub what: String,
    /// The same for people, where it is long.
    #[serde(skip)]
    pub brief: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What mends it: a command where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
    /// The last lines of a server's stderr.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stderr: Vec<String>,
    /// What `--fix` has done about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fixed: Option<String>,
    #[serde(skip)]
    pub fix: Option<Fix>,
}

/// What may be done without asking: nothing is lost by it, and no program behaves differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fix {
    /// Takes these permissions from group and others.
    Restrict {
        path: PathBuf,
        mode: u32,
    },
    Remove(PathBuf),
    MakeFolder(PathBuf),
}

impl Finding {
    pub fn new(level: Level, id: &'static str, what: impl Into<String>) -> Self {
        Self {
            id,
            level,
            server: None,
            what: what.into(),
            brief: None,
            why: None,
            mend: None,
            stderr: Vec::new(),
            fixed: None,
            fix: None,
        }
    }

    pub fn ok(id: &'static str, what: impl Into<String>) -> Self {
        Self::new(Level::Ok, id, what)
    }

    pub fn note(id: &'static str, what: impl Into<String>) -> Self {
        Self::new(Level::Note, id, what)
    }

    pub fn warning(id: &'static str, what: impl Into<String>) -> Self {
        Self::new(Level::Warning, id, what)
    }

    pub fn error(id: &'static str, what: impl Into<String>) -> Self {
        Self::new(Level::Error, id, what)
    }

    #[must_use]
    pub fn of(mut self, server: &str) -> Self {
        self.server = Some(server.to_owned());
        self
    }

    #[must_use]
    pub fn brief(mut self, brief: impl Into<String>) -> Self {
        self.brief = Some(brief.into());
        self
    }

    #[must_use]
    pub fn why(mut self, why: impl Into<String>) -> Self {
        self.why = Some(why.into());
        self
    }

    #[must_use]
    pub fn mend(mut self, mend: impl Into<String>) -> Self {
        self.mend = Some(mend.into());
        self
    }

    /// What `--fix` does, and the same as a command.
    #[must_use]
    pub fn fix(mut self, fix: Fix) -> Self {
        self.mend = Some(fix.command());
        self.fix = Some(fix);
        self
    }

    /// Does what mends it, where that is safe.
    pub fn apply_fix(&mut self) {
        let Some(fix) = self.fix.take() else { return };
        match fix.apply() {
            Ok(()) => self.fixed = Some(fix.command()),
            Err(error) => self.why = Some(format!("--fix could not mend it: {error}")),
        }
    }

    /// Whether there is still something to be done.
    pub fn is_open(&self) -> bool {
        self.level > Level::Ok && self.fixed.is_none()
    }

    /// The finding for people, on several lines.
    pub fn shown(&self) -> String {
        let level = self.level.as_str();
        let server = self.server.as_ref();
        let server = server.map(|server| format!("{server}: "));
        let mut shown = format!(
            "{level:<8} {}{}",
            one_line(&server.unwrap_or_default()),
            one_line(self.brief.as_ref().unwrap_or(&self.what))
        );
        for line in &self.stderr {
            let _ = write!(shown, "\n         | {}", one_line(line));
        }
        let rows = [
            ("why", &self.why),
            ("mend", &self.mend),
            ("fixed", &self.fixed),
        ];
        // What is mended needs no advice.
        let rows = rows
            .into_iter()
            .filter(|(word, _)| *word != "mend" || self.fixed.is_none());
        for (word, text) in rows {
            if let Some(text) = text {
                let _ = write!(shown, "\n         {word}: {}", one_line(text));
            }
        }
        shown
    }
}

impl Fix {
    /// The same for a shell.
    fn command(&self) -> String {
        match self {
            Self::Restrict { path, mode } => format!("chmod {mode:o} {}", quoted(path)),
            Self::Remove(path) => format!("rm {}", quoted(path)),
            Self::MakeFolder(path) => format!("mkdir -p -m 700 {}", quoted(path)),
        }
    }

    fn apply(&self) -> io::Result<()> {
        match self {
            Self::Restrict { path, mode } => restrict(path, *mode),
            Self::Remove(path) => fs::remove_file(path),
            Self::MakeFolder(path) => Ok(state::private_dir(path)?),
        }
    }
}

#[cfg(unix)]
fn restrict(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn restrict(_path: &Path, _mode: u32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Opens the configuration, to do this in it.
pub fn edit(path: Option<&Path>, what: &str) -> String {
    let file = path.map(|path| format!(" --config {}", quoted(path)));
    format!("mainstay config edit{}  # {what}", file.unwrap_or_default())
}

/// A path as a word of a shell.
pub fn quoted(path: &Path) -> String {
    word(&path.display().to_string())
}
