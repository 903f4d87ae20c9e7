//! Collects findings and their places.

use std::cell::OnceCell;

use mainstay_core::{
    config::ConfigError,
    display::{LONGEST_NAME, shortened},
};

/// Maximum number of errors, and of warnings, of a file or an entry. Nobody reads more.
const MAX_FINDINGS: usize = 10_000;

/// Bytes of text for each entry of [`LineIndex::before`].
const BLOCK: usize = 1024;

/// A text with an index of its lines and characters. Without the index, each finding would scan the text
/// for its position, which is slow for many findings in a large file.
pub(crate) struct Lines<'t> {
    text: &'t str,
    index: OnceCell<LineIndex>,
}

struct LineIndex {
    /// The byte at which each line begins.
    starts: Vec<usize>,
    /// Number of characters that begin before each block of [`BLOCK`] bytes.
    before: Vec<usize>,
}

impl LineIndex {
    fn new(text: &str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(breaks.map(|(at, _)| at + 1));
        let mut before = vec![0];
        for block in text.as_bytes().chunks(BLOCK) {
            before.push(before[before.len() - 1] + characters(block));
        }
        Self {
            starts: starts.collect(),
            before,
        }
    }

    /// Number of characters that begin before a byte.
    fn characters(&self, text: &str, offset: usize) -> usize {
        let block = offset / BLOCK;
        self.before[block] + characters(&text.as_bytes()[block * BLOCK..offset])
    }
}

/// Number of characters that begin in a part of a text.
fn characters(bytes: &[u8]) -> usize {
    let is_first = |byte: &&u8| **byte & 0xc0 != 0x80;
    bytes.iter().filter(is_first).count()
}

impl<'t> Lines<'t> {
    pub fn new(text: &'t str) -> Self {
        Self {
            text,
            index: OnceCell::new(),
        }
    }

    /// Returns the 1-based line and column of a byte, the column in characters.
    pub fn position(&self, offset: usize) -> (usize, usize) {
        let index = self.index.get_or_init(|| LineIndex::new(self.text));
        let line = index.starts.partition_point(|start| *start <= offset);
        let start = index.starts[line - 1];
        let characters = |offset| index.characters(self.text, offset);
        (line, characters(offset) - characters(start) + 1)
    }
}

/// A key path, and the byte at which it begins.
#[derive(Clone, Debug)]
pub(crate) struct KeyPath {
    pub path: String,
    pub offset: usize,
}

impl KeyPath {
    pub fn member(&self, key: &str, offset: usize) -> Self {
        let key = &shortened(key, LONGEST_NAME);
        let plain = !key.is_empty()
            && key
                .chars()
                .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$'));
        let path = match (self.path.as_str(), plain) {
            ("", true) => key.clone(),
            (path, true) => format!("{path}.{key}"),
            (path, false) => format!("{path}[{key:?}]"),
        };
        Self { path, offset }
    }
}

/// The findings of a reader.
pub(crate) struct FindingReport<'t> {
    pub lines: Lines<'t>,
    pub errors: Vec<ConfigError>,
    pub warnings: Vec<ConfigError>,
}

impl<'t> FindingReport<'t> {
    pub fn new(lines: Lines<'t>) -> Self {
        Self {
            lines,
            errors: Vec::new(),
            warnings: Vec::new(),
        }
    }

    pub fn error(&mut self, place: &KeyPath, message: impl Into<String>) {
        self.note_error(place, message.into(), None);
    }

    pub fn error_with_hint(
        &mut self,
        place: &KeyPath,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.note_error(place, message.into(), Some(hint.into()));
    }

    /// Adds an error that may have a hint.
    pub fn error_about(&mut self, place: &KeyPath, fault: &impl ToString, hint: Option<String>) {
        self.note_error(place, fault.to_string(), hint);
    }

    /// Adds an error about a referenced file or secret that cannot be read. It may be readable later.
    pub fn error_of_file(&mut self, place: &KeyPath, fault: &impl ToString, hint: Option<String>) {
        let before = self.errors.len();
        self.error_about(place, fault, hint);
        for error in &mut self.errors[before..] {
            error.awaits_file = true;
        }
    }

    pub fn warn(&mut self, place: &KeyPath, message: impl Into<String>) {
        self.warn_with_hint(place, message, None);
    }

    pub fn warn_with_hint(
        &mut self,
        place: &KeyPath,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        if !self.has_warnings_enough() {
            let warning = self.finding(place, message.into(), hint);
            self.warnings.push(warning);
        }
    }

    /// True if the maximum number of warnings is reached, so that further ones are dropped.
    pub fn has_warnings_enough(&self) -> bool {
        self.warnings.len() >= MAX_FINDINGS
    }

    fn note_error(&mut self, place: &KeyPath, message: String, hint: Option<String>) {
        if self.errors.len() < MAX_FINDINGS {
            let error = self.finding(place, message, hint);
            self.errors.push(error);
        }
    }

    fn finding(&self, place: &KeyPath, message: String, hint: Option<String>) -> ConfigError {
        let position = Some(self.lines.position(place.offset));
        ConfigError {
            path: place.path.clone(),
            message,
            hint,
            position,
            awaits_file: false,
        }
    }
}
