//! The text of the configuration file for people to edit: with comments, and with placeholders for
//! secrets.

use std::fmt::Write as _;

use mainstay_config::{
    Syntax,
    edit::{Document, Entry},
    masked_text::{NotRestored, RestoredText, masked_text, restored_text},
};
use mainstay_core::{failure::Failure, ids::ServerName};
use mainstay_platform::blocking::off_the_runtime;
use sha2::{Digest as _, Sha256};

use super::{Reloader, edit};

/// The current content of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileText {
    /// The text, with placeholders for secrets.
    pub text: String,
    pub path: String,
    /// The digest of the text with the real secrets.
    pub digest: String,
}

impl Reloader {
    /// The text to which a change is applied. Fails for a file with a syntax error, because its
    /// secrets cannot be found.
    pub async fn file_text(&self) -> Result<FileText, Failure> {
        let (origin, in_force, syntax) = (self.origin.clone(), self.registry.text(), self.syntax());
        off_the_runtime(move || {
            let path = edit::config_path(&origin)?;
            let in_force = in_force.as_deref().map(String::as_str);
            let text = edit::text_to_change(&origin, in_force)?;
            let masked = masked_text(&text, syntax).map_err(edit::unusable)?;
            Ok(FileText {
                digest: digest(&text),
                text: masked,
                path: path.display().to_string(),
            })
        })
        .await
    }

    /// The entries to which a change is applied, with their secrets, and [`FileText::digest`].
    pub async fn file_entries(&self) -> Result<(Vec<(ServerName, Entry)>, String), Failure> {
        let (origin, in_force, syntax) = (self.origin.clone(), self.registry.text(), self.syntax());
        off_the_runtime(move || {
            let in_force = in_force.as_deref().map(String::as_str);
            let text = edit::text_to_change(&origin, in_force)?;
            let document = Document::read(&text, syntax).map_err(edit::unusable)?;
            Ok((document.entries(), digest(&text)))
        })
        .await
    }
}

/// A digest that identifies a text.
pub(super) fn digest(text: &str) -> String {
    let digest = Sha256::digest(text);
    digest.iter().fold(String::new(), |mut hex, byte| {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Replaces the placeholders in a text by the secrets in the file. `None` if the text has a syntax
/// error. The parser reports the error later.
pub(super) fn restored(
    masked: &str,
    file: &str,
    syntax: Syntax,
) -> Result<Option<RestoredText>, Failure> {
    if Document::read(masked, syntax).is_err() {
        return Ok(None);
    }
    match restored_text(masked, file, syntax) {
        Ok(restored) => Ok(Some(restored)),
        Err(NotRestored::Unreadable(error)) => Err(edit::unusable(error)),
        Err(NotRestored::Unknown { secret, position }) => {
            Err(edit::unknown_secret_failure(&secret, Some(position)))
        }
    }
}
