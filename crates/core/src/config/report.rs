//! Findings, and the places they are about.

use std::cell::OnceCell;

use super::error::ConfigError;

/// Where lines begin, so that thousands of findings in a large file cost no thousand scans of it.
pub(super) struct Lines<'t> {
    text: &'t str,
    starts: OnceCell<Vec<usize>>,
}

impl<'t> Lines<'t> {
    pub fn new(text: &'t str) -> Self {
        Self {
            text,
            starts: OnceCell::new(),
        }
    }

    /// 1-based line and column, the column in characters.
    pub fn position(&self, offset: usize) -> (usize, usize) {
        let starts = self.starts.get_or_init(|| {
            let breaks = self
                .text
                .bytes()
                .enumerate()
                .filter(|(_, byte)| *byte == b'\n');
            std::iter::once(0)
                .chain(breaks.map(|(at, _)| at + 1))
                .collect()
        });
        let line = starts.partition_point(|start| *start <= offset);
        let start = starts[line - 1];
        (line, self.text[start..offset].chars().count() + 1)
    }
}

/// A key path and the byte it stands at.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub path: String,
    pub offset: usize,
}

impl Place {
    pub fn member(&self, key: &str, offset: usize) -> Self {
        let plain = !key.is_empty()
            && key
                .chars()
                .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$'));
        let path = match (self.path.as_str(), plain) {
            ("", true) => key.to_owned(),
            (path, true) => format!("{path}.{key}"),
            (path, false) => format!("{path}[{key:?}]"),
        };
        Self { path, offset }
    }
}

/// What was found while reading.
pub(super) struct Report<'t> {
    pub lines: Lines<'t>,
    pub errors: Vec<ConfigError>,
    pub warnings: Vec<ConfigError>,
}

impl<'t> Report<'t> {
    pub fn new(lines: Lines<'t>) -> Self {
        Self {
            lines,
            errors: Vec::new(),
            warnings: Vec::new(),
        }
    }

    pub fn error(&mut self, place: &Place, message: impl Into<String>) {
        let error = self.finding(place, message.into(), None);
        self.errors.push(error);
    }

    pub fn error_with_hint(
        &mut self,
        place: &Place,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        let error = self.finding(place, message.into(), Some(hint.into()));
        self.errors.push(error);
    }

    /// An error that may have a hint.
    pub fn error_about(&mut self, place: &Place, fault: &impl ToString, hint: Option<String>) {
        let error = self.finding(place, fault.to_string(), hint);
        self.errors.push(error);
    }

    pub fn warn(&mut self, place: &Place, message: impl Into<String>) {
        self.warn_with_hint(place, message, None);
    }

    pub fn warn_with_hint(
        &mut self,
        place: &Place,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        let warning = self.finding(place, message.into(), hint);
        self.warnings.push(warning);
    }

    fn finding(&self, place: &Place, message: String, hint: Option<String>) -> ConfigError {
        let position = Some(self.lines.position(place.offset));
        ConfigError {
            path: place.path.clone(),
            message,
            hint,
            position,
        }
    }
}
