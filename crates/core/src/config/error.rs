//! The problems of a configuration, and where they are. They never contain expanded text, which may be
//! secret.

use std::fmt;

use serde_json::{Map, Value};

/// What is wrong, where, and what was expected. Warnings have the same shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// `mcpServers.fs.args[1]`, or empty for the file as a whole.
    pub path: String,
    pub message: String,
    /// What to do about it, where the message does not say.
    pub hint: Option<String>,
    /// 1-based line and column (in characters), where known.
    pub position: Option<(usize, usize)>,
    /// A file that the entry refers to cannot be read now, and may be back later.
    pub awaits_file: bool,
}

impl ConfigError {
    /// A line for people: `FILE:LINE:COLUMN: PATH: MESSAGE (HINT)`.
    pub fn at<F: fmt::Display>(&self, file: F) -> Located<'_, F> {
        Located { file, error: self }
    }

    /// As answers have an error: `{"severity": "error", "path", "line", "column", "message", "hint"}`,
    /// without what is not known.
    pub fn told(&self) -> Value {
        let members = [
            ("severity", Some("error".into())),
            ("path", Some(self.path.as_str().into())),
            ("line", self.position.map(|(line, _)| line.into())),
            ("column", self.position.map(|(_, column)| column.into())),
            ("message", Some(self.message.as_str().into())),
            ("hint", self.hint.as_deref().map(Value::from)),
        ];
        let known = members.into_iter();
        let known = known.filter_map(|(key, value)| Some((key.to_owned(), value?)));
        Value::Object(known.collect::<Map<_, _>>())
    }

    /// A finding of a text that has no lines for its reader.
    #[must_use]
    pub fn without_position(self) -> Self {
        Self {
            position: None,
            ..self
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// A finding with the file it is about; made by [`ConfigError::at`].
#[derive(Debug)]
pub struct Located<'a, F> {
    file: F,
    error: &'a ConfigError,
}

impl<F: fmt::Display> fmt::Display for Located<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.error.position {
            Some((line, column)) => write!(f, "{}:{line}:{column}: {}", self.file, self.error),
            None => write!(f, "{}: {}", self.file, self.error),
        }
    }
}

/// Why a file is no configuration: at least one error, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}
