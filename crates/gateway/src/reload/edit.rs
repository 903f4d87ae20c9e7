//! Changes the configuration file. A change is validated before it is written. A daemon applies it
//! at once.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use mainstay_config::{
    References, ReloadPlan, Syntax, UnreadableFile, digest_of_entry,
    edit::{self, Document, EditError, Entry},
    masking::{self, UnknownSecret},
};
use mainstay_core::{
    config::{ConfigError, ConfigErrors, Launch, ServerConfig},
    failure::{Failure, FailureKind},
    ids::ServerName,
};
use mainstay_platform::{
    blocking::off_the_runtime,
    config_history::{ChangedBy, ConfigHistory},
    environment::{ConfigurationSource, LoadError, Loaded, Process},
    state::StateDir,
};
use serde_json::{Map, Value};

use super::{ConfigTrouble, Reloader, save, text};
use crate::registry::{Changing, OnDuplicate, duplicate};

/// A change of the file.
#[derive(Clone, Debug)]
pub enum FileChange {
    Put {
        name: ServerName,
        entry: Entry,
        on_duplicate: OnDuplicate,
        /// Replaces the entry only if it has this digest ([`digest_of_entry`]).
        over: Option<String>,
    },
    /// Writes the entries of these servers, even invalid entries. The status of each server then
    /// shows its problems.
    Import(Vec<(ServerName, Entry)>),
    Remove(ServerName),
    Switch {
        name: ServerName,
        enabled: bool,
    },
    /// Replaces the whole configuration.
    Whole(Value),
    /// Replaces the whole text, comments included.
    Text(String),
}

/// A file's new text, and its configuration.
pub(super) struct ChangedFile {
    pub text: String,
    pub loaded: Loaded,
}

/// The state directory in which versions of the file are stored, and the author of a change.
pub(super) struct Keeping {
    pub state: Option<StateDir>,
    pub by: ChangedBy,
}

impl Keeping {
    /// The state directory and the author for a change by a command without a daemon.
    pub fn of_command() -> Self {
        Self {
            state: StateDir::locate(&Process).ok(),
            by: ChangedBy::Command,
        }
    }
}

impl Reloader {
    /// Changes the file, and applies the new configuration. Placeholders in the change are replaced
    /// by the secrets in the file.
    pub fn write(self: &Arc<Self>, change: FileChange, by: ChangedBy) -> Changing<ReloadPlan> {
        self.write_over(change, None, by)
    }

    /// Like [`Self::write`], but only if the file's text still has this digest
    /// ([`super::FileText::digest`]).
    pub fn write_if_unchanged(
        self: &Arc<Self>,
        change: FileChange,
        digest: String,
        by: ChangedBy,
    ) -> Changing<ReloadPlan> {
        self.write_over(change, Some(digest), by)
    }

    fn write_over(
        self: &Arc<Self>,
        change: FileChange,
        digest: Option<String>,
        by: ChangedBy,
    ) -> Changing<ReloadPlan> {
        let (this, settled) = (Arc::clone(self), change.name().cloned());
        self.registry.run_to_end(async move {
            let (origin, state) = (this.origin.clone(), this.history.clone());
            let write = move |in_force: Option<&str>| {
                let keeping = Keeping { state, by };
                let changed =
                    change_and_save(&origin, in_force, change, digest.as_deref(), &keeping);
                Ok((changed?, ()))
            };
            let (plan, ()) = this.apply_written(write, settled.as_ref()).await?;
            Ok(plan)
        })
    }

    /// Calls `write` with the text in force, which writes the file. Then applies the file.
    pub(super) async fn apply_written<T: Send + 'static>(
        &self,
        write: impl FnOnce(Option<&str>) -> Result<(ChangedFile, T), Failure> + Send + 'static,
        settled: Option<&ServerName>,
    ) -> Result<(ReloadPlan, T), Failure> {
        let mut current = self.current.lock().await;
        let in_force = self.registry.text();
        let written = off_the_runtime(move || write(in_force.as_deref().map(String::as_str)));
        let (ChangedFile { text, mut loaded }, output) = written.await?;
        self.set_trouble(ConfigTrouble::from_missing_files(
            &current,
            &mut loaded.config,
        ));
        let plan = ReloadPlan::between(&current, &loaded.config);
        self.apply(&mut current, Some(text), loaded.config, settled)
            .await;
        tracing::info!(%plan, "the configuration was written");
        Ok((plan, output))
    }

    /// The text of the configuration in force, parsed as a JSON value.
    pub fn document(&self) -> Result<Value, Failure> {
        let text = self.registry.text();
        let text = text.as_deref().map_or(edit::EMPTY, String::as_str);
        let document = Document::read(text, self.syntax());
        document
            .and_then(|document| document.value())
            .map_err(unusable)
    }

    /// A server's entry in the file in force, and its place there as a JSON pointer (RFC 6901).
    pub fn entry(&self, name: &ServerName) -> Option<(String, Entry)> {
        let document = Document::read(&self.registry.text()?, self.syntax()).ok()?;
        Some((document.pointer(name)?, document.entry(name)?))
    }

    pub(super) fn syntax(&self) -> Syntax {
        Syntax::of_path(&self.origin.path().unwrap_or_default())
    }
}

impl FileChange {
    fn name(&self) -> Option<&ServerName> {
        match self {
            Self::Put { name, .. } | Self::Remove(name) | Self::Switch { name, .. } => Some(name),
            Self::Whole(_) | Self::Text(_) | Self::Import(_) => None,
        }
    }
}

/// Changes the file of this origin without a daemon. Returns the new configuration.
pub fn change_file(origin: &ConfigurationSource, change: FileChange) -> Result<Loaded, Failure> {
    let keeping = Keeping::of_command();
    Ok(change_and_save(origin, None, change, None, &keeping)?.loaded)
}

fn change_and_save(
    origin: &ConfigurationSource,
    in_force: Option<&str>,
    change: FileChange,
    digest: Option<&str>,
    keeping: &Keeping,
) -> Result<ChangedFile, Failure> {
    let path = config_path(origin)?;
    let text = text_to_change(origin, in_force)?;
    if digest.is_some_and(|digest| digest != text::digest(&text)) {
        let message = format!("{} has changed since it was read", path.display());
        return Err(Failure::new(FailureKind::ConfigChanged, message));
    }
    let changed = apply(origin, &path, &text, change)?;
    write(&path, &changed.text, keeping)?;
    Ok(changed)
}

/// The path of the file, whether or not it exists.
pub(super) fn config_path(origin: &ConfigurationSource) -> Result<PathBuf, Failure> {
    origin.path().ok_or_else(|| {
        let message = "there is no place for a configuration: neither MAINSTAY_HOME nor a home folder is known";
        Failure::new(FailureKind::NotSaved, message)
    })
}

/// The text of the file. If the file is missing, the text in force. If there is none either, the
/// text of a new file.
pub(super) fn text_to_change(
    origin: &ConfigurationSource,
    in_force: Option<&str>,
) -> Result<String, Failure> {
    Ok(match (origin.text(), in_force) {
        (Ok(Some(text)), _) => text,
        (Ok(None), None) => edit::NEW.to_owned(),
        (Ok(None), _)
        | (
            Err(LoadError::Unreadable {
                source: UnreadableFile::Absent,
                ..
            }),
            Some(_),
        ) => in_force.unwrap_or(edit::EMPTY).to_owned(),
        (Err(error), _) => return Err(error.failure()),
    })
}

/// Creates a configuration file without servers, and the schema file that it refers to.
pub fn create_file(path: &Path) -> Result<(), Failure> {
    write(path, edit::NEW, &Keeping::of_command())
}

fn write(path: &Path, text: &str, keeping: &Keeping) -> Result<(), Failure> {
    let is_new = !path.exists();
    let save = || save::save(path, text);
    let saved = match &keeping.state {
        Some(state) => ConfigHistory::for_file(state, path).around(keeping.by, save),
        None => save(),
    };
    saved.map_err(|error| unsaved(path, &error))?;
    if is_new && text.contains(edit::SCHEMA_FILE) {
        save::schema_beside(path);
    }
    Ok(())
}

pub(super) fn unsaved(path: &Path, error: &io::Error) -> Failure {
    let message = format!("cannot write {}: {error}", path.display());
    Failure::new(FailureKind::NotSaved, message)
}

/// The text after the change. Fails if the configuration would be invalid.
fn apply(
    origin: &ConfigurationSource,
    path: &Path,
    text: &str,
    change: FileChange,
) -> Result<ChangedFile, Failure> {
    let document = Document::read(text, Syntax::of_path(path)).map_err(unusable)?;
    let changed_name = change.name().cloned();
    let is_import = matches!(change, FileChange::Import(_));
    let mut submitted = None;
    match change {
        FileChange::Text(masked) => {
            let restored = text::restored(&masked, text, Syntax::of_path(path))?;
            submitted = Some((masked, restored));
            Ok(())
        }
        FileChange::Import(entries) => entries
            .into_iter()
            .try_for_each(|(name, mut entry)| {
                if origin.is_of_clients() {
                    state_transport(origin, text, &name, &mut entry)?;
                }
                document.put(&name, &entry).map_err(unusable)
            })
            .map(Ok)?,
        FileChange::Put {
            name,
            mut entry,
            on_duplicate,
            over,
        } => {
            let before = document.entry(&name);
            if on_duplicate == OnDuplicate::Refuse && before.is_some() {
                return Err(duplicate(&name));
            }
            let digest = before.map(|before| digest_of_entry(&name, &before));
            if over.is_some() && over != digest {
                return Err(entry_changed(&name));
            }
            if origin.is_of_clients() {
                state_transport(origin, text, &name, &mut entry)?;
            }
            document.put(&name, &entry)
        }
        FileChange::Remove(name) => document.remove(&name),
        FileChange::Switch { name, enabled } => document.switch(&name, enabled),
        FileChange::Whole(value) => {
            let value = restored(&value, &document.value().map_err(unusable)?)?;
            document.become_value(&value)
        }
    }
    .map_err(unusable)?;
    let text = match &submitted {
        Some((_, Some(restored))) => restored.text.clone(),
        Some((masked, None)) => masked.clone(),
        None => document.to_string(),
    };
    // Report positions in the text of the request. A JSON value of a request has no positions.
    let refused = |errors: Vec<ConfigError>| {
        let placed = errors.into_iter().map(|error| {
            let position = match (&submitted, error.position) {
                (Some((masked, Some(restored))), Some(at)) => {
                    Some(restored.position_in(masked, at))
                }
                (Some((_, None)), at) => at,
                _ => None,
            };
            ConfigError { position, ..error }
        });
        let errors = ConfigErrors(placed.collect());
        let path = path.to_owned();
        LoadError::Invalid { path, errors }.failure()
    };
    let loaded = origin.parse(Some(&text)).map_err(|error| match error {
        LoadError::Invalid { errors, .. } => refused(errors.0),
        other => other.failure(),
    })?;
    let problems: Vec<_> = loaded
        .config
        .problems()
        .filter(|(name, _)| changed_name.as_ref().is_none_or(|changed| changed == *name))
        .map(|(_, problem)| problem.clone())
        .collect();
    if !is_import && !problems.is_empty() {
        return Err(refused(problems));
    }
    Ok(ChangedFile { text, loaded })
}

/// The value with its placeholders replaced by the secrets in `file`.
pub fn restored(value: &Value, file: &Value) -> Result<Value, Failure> {
    masking::unmasked(value, file).map_err(|secret| unknown_secret_failure(&secret, None))
}

/// The error for a placeholder that stands for no secret in the file.
pub(super) fn unknown_secret(
    secret: &UnknownSecret,
    position: Option<(usize, usize)>,
) -> ConfigError {
    ConfigError {
        path: String::new(),
        message: secret.to_string(),
        hint: Some("write the secret itself, or a reference such as ${NAME}".to_owned()),
        position,
        awaits_file: false,
    }
}

pub(super) fn unknown_secret_failure(
    secret: &UnknownSecret,
    position: Option<(usize, usize)>,
) -> Failure {
    let message = format!("Invalid configuration: {secret}");
    let finding = unknown_secret(secret, position).to_json();
    Failure::new(FailureKind::InvalidConfig, message).with("findings", vec![finding])
}

/// Adds the transport to an entry that states none. A file given by `--mcp-clients-config` requires
/// it.
fn state_transport(
    origin: &ConfigurationSource,
    text: &str,
    name: &ServerName,
    entry: &mut Map<String, Value>,
) -> Result<(), Failure> {
    let stated = ["type", "transport", "transportType", "serverType"];
    if stated.iter().any(|key| entry.contains_key(*key)) {
        return Ok(());
    }
    let parsed = origin
        .entry(name, entry, Some(text), References::Kept)
        .map_err(|error| error.failure())?;
    let ServerConfig { launch, .. } = parsed.config;
    match launch {
        Launch::Stdio(_) => entry.insert("transport".to_owned(), "stdio".into()),
        // `remote`: the transport is detected, as for an entry that states none.
        Launch::Http(_) => entry.insert("transport".to_owned(), "remote".into()),
        Launch::Broken(_) | Launch::Unapproved => None,
    };
    Ok(())
}

/// The failure for an entry that has changed since it was read.
pub fn entry_changed(name: &ServerName) -> Failure {
    let message = format!("The entry of server '{name}' has changed since it was read");
    Failure::new(FailureKind::ConfigChanged, message).with_server(name)
}

pub(super) fn unusable(error: EditError) -> Failure {
    match error {
        EditError::NotThere(name) => {
            let message = format!("Server '{name}' does not stand in the file");
            Failure::new(FailureKind::ServerNotFound, message).with_server(&name)
        }
        other => Failure::new(
            FailureKind::InvalidConfig,
            format!("Invalid configuration: {other}"),
        ),
    }
}
