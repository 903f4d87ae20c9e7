//! The result of a command as text, with placeholders for the parts that differ between runs.

use std::{fmt::Write as _, process::Output};

use serde_json::Value;

/// The result of a command.
pub struct Run {
    arguments: Vec<String>,
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    pub fn new(arguments: &[&str], output: &Output) -> Self {
        Self {
            arguments: arguments.iter().map(ToString::to_string).collect(),
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout.clone()).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr.clone()).expect("UTF-8"),
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    /// The words of each line of a table. The first line is the head.
    pub fn rows(&self) -> Vec<Vec<&str>> {
        let lines = self.stdout.lines();
        lines
            .map(|line| line.split_whitespace().collect())
            .collect()
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "$ mainstay {}", self.arguments.join(" "))?;
        f.write_str(&self.stdout)?;
        for line in self.stderr.lines() {
            writeln!(f, "! {line}")?;
        }
        match self.code {
            Some(0) => Ok(()),
            Some(code) => writeln!(f, "=> {code}"),
            None => writeln!(f, "=> ended by a signal"),
        }
    }
}

pub(crate) fn without_number_after(text: &str, mark: &str, replacement: &str) -> String {
    let mut parts = text.split(mark);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        let number = if rest.len() < part.len() {
            replacement
        } else {
            ""
        };
        let _ = write!(out, "{mark}{number}{rest}");
    }
    out
}

/// Replaces the list of folders after `looked in ` by `[FOLDERS]`.
pub(crate) fn without_folders(text: &str) -> String {
    let mark = "looked in ";
    let mut parts = text.split(mark);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find([';', '"', '\n']).unwrap_or(part.len());
        let _ = write!(out, "{mark}[FOLDERS]{}", &part[end..]);
    }
    out
}

/// Replaces durations such as `12 ms` and `1.0 s` by `[TIME]`.
pub(crate) fn without_spans(text: &str) -> String {
    let mut out = text.to_owned();
    for unit in [" ms", " s"] {
        let mut from = 0;
        while let Some(at) = out[from..].find(unit).map(|at| from + at) {
            let ends = !out[at + unit.len()..].starts_with(|c: char| c.is_alphanumeric());
            let number = out[..at]
                .trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')
                .len();
            if ends && number < at {
                out.replace_range(number..at + unit.len(), "[TIME]");
                from = number;
            } else {
                from = at + unit.len();
            }
        }
    }
    out
}
