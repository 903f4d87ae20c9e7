//! What is written, removed and run, one step after the other.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use mainstay_command_line::CommandError;
use tokio::{
    process::Command,
    time::{Instant, sleep, timeout},
};

/// A service manager waits for the daemon that it stops, which may have calls at work.
const LIMIT: Duration = Duration::from_mins(2);

/// Between two looks at whether something has ended.
const LOOK: Duration = Duration::from_millis(100);

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    program: &'static str,
    arguments: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Write {
        path: PathBuf,
        text: String,
    },
    Remove(PathBuf),
    Run(Run),
    /// Ask until the program says no.
    Until(Run),
}

/// How a program ended.
#[derive(Debug)]
pub struct Ran {
    pub success: bool,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    pub fn new(program: &'static str, arguments: &[&str]) -> Self {
        Self {
            program,
            arguments: arguments.iter().map(ToString::to_string).collect(),
        }
    }

    /// Runs the program, which is found along PATH.
    pub async fn output(&self) -> io::Result<Ran> {
        let output = Command::new(self.program)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = timeout(LIMIT, output).await.map_err(|_| {
            let seconds = LIMIT.as_secs();
            io::Error::new(
                io::ErrorKind::TimedOut,
                format!("no end within {seconds} s"),
            )
        })??;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        Ok(Ran {
            success: output.status.success(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        })
    }

    /// Runs the program, whose failure is an error.
    async fn succeed(&self) -> Result<(), CommandError> {
        let why = match self.output().await {
            Ok(ran) if ran.success => return Ok(()),
            Ok(ran) => ran.reason(),
            Err(error) => error.to_string(),
        };
        Err(CommandError::Cannot {
            code: "service_failed",
            message: format!("`{self}` failed: {why}"),
            hint: Some("`mainstay service status` shows what there is now".to_owned()),
        })
    }
}

impl Ran {
    /// Why it failed, in its own words.
    pub fn reason(&self) -> String {
        let said = [&self.stderr, &self.stdout];
        let said = said.into_iter().find(|text| !text.is_empty());
        said.map_or_else(
            || "it says nothing".to_owned(),
            |text| text.replace('\n', "; "),
        )
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.program)?;
        for argument in &self.arguments {
            write!(f, " {argument}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { path, .. } => write!(f, "write {}", path.display()),
            Self::Remove(path) => write!(f, "remove {}", path.display()),
            Self::Run(run) => write!(f, "run {run}"),
            Self::Until(run) => write!(f, "wait until `{run}` finds nothing"),
        }
    }
}

impl Step {
    pub async fn carry_out(&self) -> Result<(), CommandError> {
        match self {
            Self::Write { path, text } => write(path, text).map_err(|source| failed(path, &source)),
            Self::Remove(path) => match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(path, &error)),
                _ => Ok(()),
            },
            Self::Run(run) => run.succeed().await,
            Self::Until(run) => {
                let end = Instant::now() + LIMIT;
                while run.output().await.is_ok_and(|ran| ran.success) && Instant::now() < end {
                    sleep(LOOK).await;
                }
                Ok(())
            }
        }
    }
}

fn failed(path: &Path, source: &io::Error) -> CommandError {
    CommandError::Cannot {
        code: "cannot_write",
        message: format!("cannot write {}: {source}", path.display()),
        hint: None,
    }
}

/// Replaces the file whole. A link that a person put there stays a link.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().ok_or(io::ErrorKind::NotFound)?;
    fs::create_dir_all(folder)?;
    let mut name = path.file_name().ok_or(io::ErrorKind::NotFound)?.to_owned();
    name.push(".new");
    let new = folder.join(name);
    fs::write(&new, text)?;
    fs::rename(&new, &path)
}

#[cfg(test)]
pub mod told {
    use super::Step;

    /// The steps of an installation, where nothing is there, where an old text is active, where the
    /// text is right and nothing runs, and where all is as it should be.
    pub fn installations(install: impl Fn(Option<&str>, bool) -> Vec<Step>) -> String {
        let cases = [
            (None, false),
            (Some("old"), true),
            (Some("new"), false),
            (Some("new"), true),
        ];
        let told = cases.map(|(found, is_active)| {
            let steps = install(found, is_active);
            let lines: Vec<String> = steps.iter().map(ToString::to_string).collect();
            lines.join("\n")
        });
        told.join("\n--\n")
    }
}
