//! The earlier versions of the configuration: shown, and restored.

use std::{path::Path, sync::Arc, time::Duration};

use mainstay_config::{ReloadPlan, Syntax, masked_text::masked_text};
use mainstay_core::{
    config::Config,
    failure::{Failure, FailureKind},
};
use mainstay_platform::{
    config_history::{ChangedBy, ConfigHistory, Restored, Version},
    encoding::Encoding,
    environment::Origin,
    state::StateError,
};
use similar::TextDiff;

use super::{
    Reloader,
    edit::{self, Changed, Keeping},
    save,
};
use crate::registry::Changing;

/// Lines around a change that are shown with it.
const AROUND: usize = 3;

/// How long the smallest difference of two versions is looked for; a larger one comes at once.
const MAX_COMPARING: Duration = Duration::from_millis(500);

/// The versions of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The newest first.
    pub versions: Vec<Version>,
    /// Whether the file is not the newest of them.
    pub is_changed: bool,
}

/// A version with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownVersion {
    pub version: Version,
    /// With placeholders for secrets. `None` for one that is no JSON: nobody could say what is secret in it.
    pub text: Option<String>,
    /// What the version before had and this one has, line by line. `None` where there is none before, or a
    /// text cannot be shown.
    pub difference: Option<String>,
}

/// What an undo did.
#[derive(Clone, Debug)]
pub struct Undone {
    /// The version whose content the file has again.
    pub restored: u64,
    /// The number under which the file is in its history now.
    pub version: u64,
    /// What is done to the servers.
    pub plan: ReloadPlan,
}

/// The versions of this file.
pub fn history_of(history: &ConfigHistory) -> Result<History, StateError> {
    Ok(History {
        versions: history.versions()?,
        is_changed: history.is_changed()?,
    })
}

/// A version with its text; `None` if it is not kept.
pub fn show_version(
    history: &ConfigHistory,
    number: u64,
) -> Result<Option<ShownVersion>, StateError> {
    let Some((version, bytes)) = history.version(number)? else {
        return Ok(None);
    };
    let syntax = Syntax::of_path(&version.path);
    let shown = |bytes| masked_text(&Encoding::decode(bytes)?, syntax).ok();
    let text = shown(bytes);
    let before = history.before(number)?;
    let difference = match (before.and_then(|(_, bytes)| shown(bytes)), &text) {
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

/// Has `write` change a configuration's file for a command, and keeps its versions.
pub fn change_around<T, E>(path: &Path, write: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let Keeping { state, by } = Keeping::of_command();
    match state {
        Some(state) => ConfigHistory::of(&state, path).around(by, write),
        None => write(),
    }
}

/// Restores a version of the file of this origin, where no daemon has it in force.
pub fn undo_file(
    origin: &Origin,
    history: &ConfigHistory,
    version: Option<u64>,
    force: bool,
) -> Result<Undone, Failure> {
    let before = origin.load().ok();
    let restored = restore(origin, history, version, force, ChangedBy::Command)?;
    let after = &restored.done.loaded.config;
    let plan = match before {
        Some(before) => ReloadPlan::between(&before.config, after),
        None => ReloadPlan::between(&Config::default(), after),
    };
    Ok(Undone {
        restored: restored.restored,
        version: restored.version,
        plan,
    })
}

fn restore(
    origin: &Origin,
    history: &ConfigHistory,
    version: Option<u64>,
    force: bool,
    by: ChangedBy,
) -> Result<Restored<Changed>, Failure> {
    let path = edit::place(origin)?;
    history.restore(by, version, force, |bytes| {
        let text = Encoding::decode(bytes.to_vec()).unwrap_or_default();
        // A server that lacks something shows it, as it did then.
        let loaded = origin.parse(Some(&text)).map_err(|error| error.failure())?;
        save::save_bytes(&path, bytes).map_err(|error| edit::unsaved(&path, &error))?;
        Ok(Changed { text, loaded })
    })
}

impl Reloader {
    /// The versions of the file.
    pub async fn versions(&self) -> Result<History, StateError> {
        let versions = self.with_history(history_of).await;
        versions.unwrap_or_else(|| Ok(History::default()))
    }

    /// A version with its text.
    pub async fn show_version(&self, number: u64) -> Result<Option<ShownVersion>, StateError> {
        let shown = self.with_history(move |history| show_version(history, number));
        shown.await.unwrap_or(Ok(None))
    }

    /// Restores the version before the last change, or this one, and takes it into force.
    pub fn undo(
        self: &Arc<Self>,
        version: Option<u64>,
        force: bool,
        by: ChangedBy,
    ) -> Changing<Undone> {
        let this = Arc::clone(self);
        self.registry.run_to_end(async move {
            let (state, origin) = (this.history.clone(), this.origin.clone());
            let write = move |_: Option<&str>| {
                let kept = state.zip(origin.path());
                let (state, path) = kept.ok_or_else(no_history)?;
                let history = ConfigHistory::of(&state, &path);
                let restored = restore(&origin, &history, version, force, by)?;
                Ok((restored.done, (restored.restored, restored.version)))
            };
            let (plan, (restored, version)) = this.take_written(write, None).await?;
            Ok(Undone {
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

/// A version that is not kept.
pub fn unknown_version(number: u64) -> Failure {
    let message = format!("version {number} of the configuration is not kept");
    Failure::new(FailureKind::VersionNotFound, message)
}
