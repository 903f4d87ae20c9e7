//! Errors of a configuration, with their positions. An error never contains the value of a
//! placeholder such as `${NAME}`, because the value may be a secret.

use std::fmt;

use serde_json::{Map, Value};

/// An error in the configuration: the problem, its position, and a hint. Warnings have the same
/// shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The path of the setting, such as `mcpServers.fs.args[1]`. Empty for the file as a whole.
    pub path: String,
    pub message: String,
    /// The next step for the user, if the message does not name it.
    pub hint: Option<String>,
    /// 1-based line and column (in characters), if known.
    pub position: Option<(usize, usize)>,
    /// True if a file or secret of the entry cannot be read now. A later read may succeed.
    pub awaits_file: bool,
}

impl ConfigError {
    /// Formats a line for people: `FILE:LINE:COLUMN: PATH: MESSAGE (HINT)`.
    pub fn at<F: fmt::Display>(&self, file: F) -> Located<'_, F> {
        Located { file, error: self }
    }

    /// The JSON for answers: `{"severity": "error", "path", "line", "column", "message", "hint"}`.
    /// Members without a value are left out.
    pub fn to_json(&self) -> Value {
        let members = [
            ("severity", Some("error".into())),
            ("path", Some(self.path.as_str().into())),
            ("line", self.position.map(|(line, _)| line.into())),
            ("column", self.position.map(|(_, column)| column.into())),
            ("message", Some(self.message.as_str().into())),
            ("hint", self.hint.as_deref().map(Value::from)),
        ];
        let present_members = members
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)));
        Value::Object(present_members.collect::<Map<_, _>>())
    }

    /// Removes the position. For an entry that was not read from a file, line and column mean
    /// nothing.
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

/// Displays an error with the name of its file. Made by [`ConfigError::at`].
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

/// The errors of an invalid file: at least one, in the order of the file.
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
