//! The configuration's file as a text that people edit: comments stay, secrets are placeholders.

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

/// A file as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileText {
    /// With placeholders for its secrets.
    pub text: String,
    pub path: String,
    /// Of the text with its secrets.
    pub digest: String,
}

impl Reloader {
    /// The text of the file, as a change would find it. A file that is no JSON is refused: nobody could say
    /// which parts of it are secret.
    pub async fn file_text(&self) -> Result<FileText, Failure> {
        let (origin, in_force, syntax) = (self.origin.clone(), self.registry.text(), self.syntax());
        off_the_runtime(move || {
            let path = edit::place(&origin)?;
            let in_force = in_force.as_deref().map(String::as_str);
            let text = edit::text_to_change(&origin, in_force)?;
            let shown = masked_text(&text, syntax).map_err(edit::unusable)?;
            Ok(FileText {
                digest: digest(&text),
                text: shown,
                path: path.display().to_string(),
            })
        })
        .await
    }

    /// Every entry of the file as a change would find it, with its secrets, and [`FileText::digest`].
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

/// By what a text is told from another.
pub(super) fn digest(text: &str) -> String {
    let digest = Sha256::digest(text);
    digest.iter().fold(String::new(), |mut hex, byte| {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// A text with the secrets that the file has. `None` for one that is no JSON: reading it says what is
/// wrong.
pub(super) fn restored(
    shown: &str,
    file: &str,
    syntax: Syntax,
) -> Result<Option<RestoredText>, Failure> {
    if Document::read(shown, syntax).is_err() {
        return Ok(None);
    }
    match restored_text(shown, file, syntax) {
        Ok(restored) => Ok(Some(restored)),
        Err(NotRestored::Unreadable(error)) => Err(edit::unusable(error)),
        Err(NotRestored::Unknown { secret, position }) => {
            Err(edit::unknown(&secret, Some(position)))
        }
    }
}
