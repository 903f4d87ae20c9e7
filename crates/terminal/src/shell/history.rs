//! The history of typed lines. It is in the state directory, so that the next shell has it too. Lines that
//! may contain a secret are not stored.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Instant,
};

use mainstay_core::{config, redact::Redactor};
use mainstay_platform::{
    environment::Process,
    state::{StateDir, open_private, private_dir, private_options, read_private, write_private},
};

/// The maximum number of lines in the history.
const MOST: usize = 1000;

/// The file in the state directory. It is rewritten when it has twice as many lines.
const FILE: &str = "shell-history";

#[derive(Debug)]
pub struct LineHistory {
    lines: Vec<String>,
    redactor: Option<Redactor>,
    /// The path of the file. `None` if nothing can be stored.
    file: Option<PathBuf>,
}

impl LineHistory {
    /// Loads the lines of earlier shells, if they can be read.
    pub fn open() -> Self {
        let file = match locate() {
            Ok(file) => Some(file),
            Err(error) => {
                tracing::warn!(%error, "the lines of the shell are not kept");
                None
            }
        };
        let mut lines = file.as_deref().map(read).unwrap_or_default();
        if lines.len() > MOST {
            lines.drain(..lines.len() - MOST);
            if let Some(file) = &file {
                let text = lines.join("\n") + "\n";
                if let Err(error) = write_private(file, text.as_bytes()) {
                    tracing::warn!(%error, "the lines of the shell stay as many as they are");
                }
            }
        }
        Self {
            lines,
            redactor: redactor(),
            file,
        }
    }

    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Stores a line, unless it repeats the last one or may contain a secret.
    pub fn add(&mut self, line: &str) {
        let Some(line) = worth_keeping(line, self.lines.last(), self.redactor.as_ref()) else {
            return;
        };
        if let Some(file) = &self.file
            && let Err(error) = append(file, &line)
        {
            tracing::warn!(%error, "the lines of the shell are not kept any more");
            self.file = None;
        }
        self.lines.push(line);
        if self.lines.len() > 2 * MOST {
            self.lines.drain(..MOST);
        }
    }
}

/// The redaction rules of records. `None` if they are unusable. In that case no line is stored.
fn redactor() -> Option<Redactor> {
    Redactor::new(&config::Journal::default().redact, Instant::now).ok()
}

fn locate() -> io::Result<PathBuf> {
    let state = StateDir::locate(&Process).map_err(io::Error::other)?;
    private_dir(state.path()).map_err(io::Error::other)?;
    Ok(state.path().join(FILE))
}

fn read(file: &Path) -> Vec<String> {
    match read_private(file) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            text.lines().map(str::to_owned).collect()
        }
        Err(error) => {
            if !error.is_not_found() {
                tracing::warn!(%error, "the lines of earlier shells cannot be read");
            }
            Vec::new()
        }
    }
}

fn append(file: &Path, line: &str) -> io::Result<()> {
    let mut options = private_options();
    let mut file = open_private(file, options.append(true)).map_err(io::Error::other)?;
    file.write_all(format!("{line}\n").as_bytes())
}

/// The line with line breaks replaced by blanks. `None` if it must not be stored.
fn worth_keeping(line: &str, last: Option<&String>, redactor: Option<&Redactor>) -> Option<String> {
    let line = line.trim().replace(['\n', '\r'], " ");
    let is_new = !line.is_empty() && last != Some(&line);
    (is_new && !holds_secret(&line, redactor?)).then_some(line)
}

/// True if the redaction rules would hide a part of the line, or of JSON in it.
fn holds_secret(line: &str, redactor: &Redactor) -> bool {
    let hides = |text: &str| redactor.redact(text, None) != text;
    let json = line.find('{').map(|at| &line[at..]);
    hides(line) || json.is_some_and(hides)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_secrets_are_not_kept() {
        let redactor = redactor().expect("rules");
        let stored = |line| worth_keeping(line, None, Some(&redactor));
        for line in [
            "/call a/b password=hunter2",
            "/call a/b token=abcdef123456",
            "/call a/b {\"api_key\": \"k\"}",
            "/call a/b {\"text\": \"x\", \"deep\": {\"client_secret\": \"k\"}}",
            "/call a/b text='Bearer abcdefgh12345678'",
            "/call a/b text=ghp_abcdefghijklmnopqrstuvwxyz0123456789",
            "/read https://user:hunter2@example.com/",
        ] {
            assert_eq!(stored(line), None, "{line}");
        }
        assert_eq!(
            stored(" /call a/b text='two words' ").as_deref(),
            Some("/call a/b text='two words'")
        );
        assert_eq!(
            stored("/call a/b {\n\"a\": 1}").as_deref(),
            Some("/call a/b { \"a\": 1}")
        );
        assert_eq!(stored("  "), None);
        let last = "/servers".to_owned();
        assert_eq!(
            worth_keeping("/servers", Some(&last), Some(&redactor)),
            None
        );
        assert_eq!(worth_keeping("/servers", None, None), None);
    }
}
