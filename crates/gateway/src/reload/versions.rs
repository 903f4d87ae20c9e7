//! Shows and restores earlier versions of the configuration.

use std::{path::Path, sync::Arc, time::Duration};

use mainstay_config::{ReloadPlan, Syntax, masked_text::masked_text};
use mainstay_core::{
    config::Config,
    failure::{Failure, FailureKind},
};
use mainstay_platform::{
    config_history::{ChangedBy, ConfigHistory, RestoredVersion, Version},
    encoding::Encoding,
    environment::ConfigurationSource,
    state::StateError,
};
use similar::TextDiff;

use super::{
    Reloader,
    edit::{self, ChangedFile, Keeping},
    save,
};
use crate::registry::Changing;

/// Number of context lines around a change in a diff.
const AROUND: usize = 3;

/// Time limit for the search for the smallest difference between two versions. After the limit, a
/// larger difference is used.
const MAX_COMPARING: Duration = Duration::from_millis(500);

/// The stored versions of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileHistory {
    /// The versions, newest first.
    pub versions: Vec<Version>,
    /// True if the file differs from the newest version.
    pub is_changed: bool,
}

/// A version with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownVersion {
    pub version: Version,
    /// The text, with placeholders for secrets. `None` if the text has a syntax error, because its
    /// secrets cannot be found then.
    pub text: Option<String>,
    /// The difference to the previous version, as a unified diff. `None` without a previous
    /// version, or if a text cannot be shown.
    pub difference: Option<String>,
}

/// The result of an undo.
#[derive(Clone, Debug)]
pub struct UndoResult {
    /// The number of the version whose content was restored.
    pub restored: u64,
    /// The number of the new version that the undo created.
    pub version: u64,
    /// The plan of the change.
    pub plan: ReloadPlan,
}

/// The stored versions of the file.
pub fn file_history(history: &ConfigHistory) -> Result<FileHistory, StateError> {
    Ok(FileHistory {
        versions: history.versions()?,
        is_changed: history.is_changed()?,
    })
}

/// A version with its text. `None` if it is not stored.
pub fn show_version(
    history: &ConfigHistory,
    number: u64,
) -> Result<Option<ShownVersion>, StateError> {
    let Some((version, bytes)) = history.version(number)? else {
        return Ok(None);
    };
    let syntax = Syntax::of_path(&version.path);
    let masked = |bytes| masked_text(&Encoding::decode(bytes)?, syntax).ok();
    let text = masked(bytes);
    let before = history.before(number)?;
    let difference = match (before.and_then(|(_, bytes)| masked(bytes)), &text) {
        (Some(before), Some(text)) => Some(difference(&before, text)),
        _ => None,
    };
    Ok(Some(ShownVersion {
        version,
        text,
        difference,
    }))
}

fn difference(before: &str, after: &str) -> String {
    TextDiff::configure()
        .timeout(MAX_COMPARING)
        .diff_lines(before, after)
        .unified_diff()
        .context_radius(AROUND)
        .to_string()
}

/// Calls `write`, which changes a configuration file for a command. Stores the versions before and
/// after the change.
pub fn change_with_history<T, E>(
    path: &Path,
    write: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let Keeping { state, by } = Keeping::of_command();
    match state {
        Some(state) => ConfigHistory::for_file(&state, path).around(by, write),
        None => write(),
    }
}

/// Restores a version of the file of this origin without a daemon. `None` restores the version
/// before the last change.
pub fn undo_file(
    origin: &ConfigurationSource,
    history: &ConfigHistory,
    version: Option<u64>,
    force: bool,
) -> Result<UndoResult, Failure> {
    let before = origin.load().ok();
    let restored = restore(origin, history, version, force, ChangedBy::Command)?;
    let after = &restored.done.loaded.config;
    let plan = match before {
        Some(before) => ReloadPlan::between(&before.config, after),
        None => ReloadPlan::between(&Config::default(), after),
    };
    Ok(UndoResult {
        restored: restored.restored,
        version: restored.version,
        plan,
    })
}

fn restore(
    origin: &ConfigurationSource,
    history: &ConfigHistory,
    version: Option<u64>,
    force: bool,
    by: ChangedBy,
) -> Result<RestoredVersion<ChangedFile>, Failure> {
    let path = edit::config_path(origin)?;
    history.restore(by, version, force, |bytes| {
        let text = Encoding::decode(bytes.to_vec()).unwrap_or_default();
        // Problems of single servers are allowed: each such server shows its problems.
        let loaded = origin.parse(Some(&text)).map_err(|error| error.failure())?;
        save::save_bytes(&path, bytes).map_err(|error| edit::unsaved(&path, &error))?;
        Ok(ChangedFile { text, loaded })
    })
}

impl Reloader {
    /// The versions of the file.
    pub async fn versions(&self) -> Result<FileHistory, StateError> {
        let versions = self.with_history(file_history).await;
        versions.unwrap_or_else(|| Ok(FileHistory::default()))
    }

    /// A version with its text.
    pub async fn show_version(&self, number: u64) -> Result<Option<ShownVersion>, StateError> {
        let reading = self.with_history(move |history| show_version(history, number));
        reading.await.unwrap_or(Ok(None))
    }

    /// Restores this version of the file, and applies it. `None` restores the version before the last
    /// change.
    pub fn undo(
        self: &Arc<Self>,
        version: Option<u64>,
        force: bool,
        by: ChangedBy,
    ) -> Changing<UndoResult> {
        let this = Arc::clone(self);
        self.registry.run_to_end(async move {
            let (state, origin) = (this.history.clone(), this.origin.clone());
            let write = move |_: Option<&str>| {
                let files = state.zip(origin.path());
                let (state, path) = files.ok_or_else(no_history)?;
                let history = ConfigHistory::for_file(&state, &path);
                let restored = restore(&origin, &history, version, force, by)?;
                Ok((restored.done, (restored.restored, restored.version)))
            };
            let (plan, (restored, version)) = this.apply_written(write, None).await?;
            Ok(UndoResult {
                restored,
                version,
                plan,
            })
        })
    }
}

fn no_history() -> Failure {
    let message = "this Mainstay keeps no versions of its configuration";
    Failure::new(FailureKind::VersionNotFound, message)
}

/// The failure for a version that is not stored.
pub fn unknown_version(number: u64) -> Failure {
    let message = format!("version {number} of the configuration is not kept");
    Failure::new(FailureKind::VersionNotFound, message)
}
