//! The steps of an installation: files to write and remove, and programs to run, in order.

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

/// The time limit of a program. A service manager waits until the daemon has stopped, and the daemon may
/// wait for calls.
const LIMIT: Duration = Duration::from_mins(2);

/// The interval between two runs of a program in [`Step::Until`].
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramRun {
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
    Run(ProgramRun),
    /// Run the program until it fails.
    Until(ProgramRun),
}

/// The result of a program.
#[derive(Debug)]
pub struct RunOutput {
    pub success: bool,
    pub stdout: String,
    pub stderr: String,
}

impl ProgramRun {
    pub fn new(program: &'static str, arguments: &[&str]) -> Self {
        Self {
            program,
            arguments: arguments.iter().map(ToString::to_string).collect(),
        }
    }

    /// Runs the program, which is looked up in PATH.
    pub async fn output(&self) -> io::Result<RunOutput> {
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
        Ok(RunOutput {
            success: output.status.success(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        })
    }

    /// Runs the program. Fails if the program fails.
    async fn succeed(&self) -> Result<(), CommandError> {
        let reason = match self.output().await {
            Ok(output) if output.success => return Ok(()),
            Ok(output) => output.reason(),
            Err(error) => error.to_string(),
        };
        Err(CommandError::Cannot {
            code: "service_failed",
            message: format!("`{self}` failed: {reason}"),
            hint: Some("`mainstay service status` shows what there is now".to_owned()),
        })
    }
}

impl RunOutput {
    /// The reason of a failure, in the program's words.
    pub fn reason(&self) -> String {
        let texts = [&self.stderr, &self.stdout];
        let first = texts.into_iter().find(|text| !text.is_empty());
        first.map_or_else(
            || "it says nothing".to_owned(),
            |text| text.replace('\n', "; "),
        )
    }
}

impl fmt::Display for ProgramRun {
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
                while run.output().await.is_ok_and(|output| output.success) && Instant::now() < end
                {
                    sleep(POLL_INTERVAL).await;
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

/// Replaces the whole file. If the path is a symbolic link, the link stays.
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
pub mod step_texts {
    use super::Step;

    /// The steps of an installation in four cases: without a file, with an old file and an active service,
    /// with the right file and an inactive service, and with the right file and an active service.
    pub fn installations(install: impl Fn(Option<&str>, bool) -> Vec<Step>) -> String {
        let cases = [
            (None, false),
            (Some("old"), true),
            (Some("new"), false),
            (Some("new"), true),
        ];
        let cases_as_text = cases.map(|(found, is_active)| {
            let steps = install(found, is_active);
            let lines: Vec<String> = steps.iter().map(ToString::to_string).collect();
            lines.join("\n")
        });
        cases_as_text.join("\n--\n")
    }
}
