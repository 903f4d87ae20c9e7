//! Findings of the doctor: a message, the consequence, and the command that solves the problem.

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
pub struct DoctorFinding {
    /// An identifier that stays the same in every version, such as `config.invalid`.
    pub id: &'static str,
    pub level: Level,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    #[serde(rename = "what")]
    pub message: String,
    /// A shorter message for the text output.
    #[serde(skip)]
    pub brief: Option<String>,
    #[serde(rename = "why", skip_serializing_if = "Option::is_none")]
    pub consequence: Option<String>,
    /// A command or advice that solves the problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
    /// The last lines of a server's stderr.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stderr: Vec<String>,
    /// The command of the change that `--fix` has made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fixed: Option<String>,
    #[serde(skip)]
    pub fix: Option<Fix>,
}

/// A change that `--fix` may make without a question. It must lose no data and change no program's
/// behaviour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fix {
    /// Sets the permissions of a path.
    Restrict {
        path: PathBuf,
        mode: u32,
    },
    Remove(PathBuf),
    MakeFolder(PathBuf),
}

impl DoctorFinding {
    pub fn new(level: Level, id: &'static str, message: impl Into<String>) -> Self {
        Self {
            id,
            level,
            server: None,
            message: message.into(),
            brief: None,
            consequence: None,
            mend: None,
            stderr: Vec::new(),
            fixed: None,
            fix: None,
        }
    }

    pub fn ok(id: &'static str, message: impl Into<String>) -> Self {
        Self::new(Level::Ok, id, message)
    }

    pub fn note(id: &'static str, message: impl Into<String>) -> Self {
        Self::new(Level::Note, id, message)
    }

    pub fn warning(id: &'static str, message: impl Into<String>) -> Self {
        Self::new(Level::Warning, id, message)
    }

    pub fn error(id: &'static str, message: impl Into<String>) -> Self {
        Self::new(Level::Error, id, message)
    }

    #[must_use]
    pub fn about(mut self, server: &str) -> Self {
        self.server = Some(server.to_owned());
        self
    }

    #[must_use]
    pub fn brief(mut self, brief: impl Into<String>) -> Self {
        self.brief = Some(brief.into());
        self
    }

    #[must_use]
    pub fn consequence(mut self, consequence: impl Into<String>) -> Self {
        self.consequence = Some(consequence.into());
        self
    }

    #[must_use]
    pub fn mend(mut self, mend: impl Into<String>) -> Self {
        self.mend = Some(mend.into());
        self
    }

    /// Adds a change for `--fix`, and its command as advice.
    #[must_use]
    pub fn fix(mut self, fix: Fix) -> Self {
        self.mend = Some(fix.command());
        self.fix = Some(fix);
        self
    }

    /// Makes the change, if there is one.
    pub fn apply_fix(&mut self) {
        let Some(fix) = self.fix.take() else { return };
        match fix.apply() {
            Ok(()) => self.fixed = Some(fix.command()),
            Err(error) => self.consequence = Some(format!("--fix could not mend it: {error}")),
        }
    }

    /// True if the finding is a problem that `--fix` has not solved.
    pub fn is_open(&self) -> bool {
        self.level > Level::Ok && self.fixed.is_none()
    }

    /// The finding as text for people, on several lines.
    pub fn text(&self) -> String {
        let level = self.level.as_str();
        let server = self.server.as_ref();
        let server = server.map(|server| format!("{server}: "));
        let mut text = format!(
            "{level:<8} {}{}",
            one_line(&server.unwrap_or_default()),
            one_line(self.brief.as_ref().unwrap_or(&self.message))
        );
        for line in &self.stderr {
            let _ = write!(text, "\n         | {}", one_line(line));
        }
        let rows = [
            ("why", &self.consequence),
            ("mend", &self.mend),
            ("fixed", &self.fixed),
        ];
        // A solved problem needs no advice.
        let visible = rows
            .into_iter()
            .filter(|(word, _)| *word != "mend" || self.fixed.is_none());
        for (word, row) in visible {
            if let Some(row) = row {
                let _ = write!(text, "\n         {word}: {}", one_line(row));
            }
        }
        text
    }
}

impl Fix {
    /// The change as a command for a shell.
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

/// A command that opens the configuration, with a shell comment that describes the change.
pub fn edit(path: Option<&Path>, comment: &str) -> String {
    let file = path.map(|path| format!(" --config {}", quoted(path)));
    format!(
        "mainstay config edit{}  # {comment}",
        file.unwrap_or_default()
    )
}

/// A path, quoted as one word of a shell.
pub fn quoted(path: &Path) -> String {
    word(&path.display().to_string())
}
