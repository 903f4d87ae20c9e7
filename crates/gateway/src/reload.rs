//! Hot reload: reads the configuration again, plans the differences, and carries them out.
//!
//! An invalid or missing file changes nothing (invariant 11). The configuration in force stays, and
//! the status shows the trouble until the file is valid again or a person reloads.

mod check;
mod edit;
mod save;
mod text;
mod versions;
mod watch;

use std::{path::PathBuf, sync::Arc, time::Duration};

use mainstay_config::ReloadPlan;
use mainstay_core::{config::Config, event::EventKind, ids::ServerName};
pub use mainstay_platform::config_history::{ChangedBy, Version};
use mainstay_platform::{
    blocking::off_the_runtime,
    config_history::ConfigHistory,
    environment::{ConfigurationSource, LoadError, Loaded},
    state::StateDir,
};
use parking_lot::RwLock;
use tokio::sync::{Mutex, mpsc, watch as tokio_watch};
use tokio_util::sync::CancellationToken;

use crate::{
    access::AccessControl,
    alerts,
    registry::{Announcement, Registry},
};

pub use self::{
    check::{Checked, ConfigFinding, Proposal, Severity},
    edit::{FileChange, change_file, create_file, entry_changed, restored},
    save::schema_beside,
    text::FileText,
    versions::{
        FileHistory, ShownVersion, UndoResult, change_with_history, file_history, show_version,
        undo_file, unknown_version,
    },
};
pub use crate::registry::OnDuplicate;

/// Delay between a change of the file and the reload, because editors write a file in several
/// steps.
const DEBOUNCE: Duration = Duration::from_millis(300);

/// The result of a reload, or of its plan.
#[derive(Clone, Debug)]
pub struct Reloaded {
    pub plan: ReloadPlan,
    /// Errors and warnings of the file. An error in a server's entry fails only that server.
    pub findings: Vec<ConfigFinding>,
    /// The warnings among the findings, one line each, with their places. Empty if the file has
    /// changed but its text is the same as before.
    pub warnings: Vec<String>,
}

/// Interval at which a missing or unreadable file is read again.
const LOOK: Duration = Duration::from_secs(1);

/// The cause of a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Occasion {
    /// The file has changed, or is missing.
    Change,
    /// A person has requested the reload. A missing file means that there are no servers.
    Request,
}

/// The reason why the configuration in force differs from the file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ConfigTrouble {
    /// The file cannot be used. The former configuration stays in force. One line for each finding.
    Rejected {
        findings: Vec<String>,
        /// True if the file must be polled. It cannot be read, and its folder may be missing, so the
        /// system may report no event when the file is back.
        needs_polling: bool,
    },
    /// Files that entries refer to cannot be read. One line for each server that continues with its
    /// former values.
    Awaiting(Vec<String>),
}

impl ConfigTrouble {
    fn from_error(error: &LoadError) -> Self {
        Self::Rejected {
            findings: error.findings(),
            needs_polling: !matches!(error, LoadError::Invalid { .. }),
        }
    }

    /// Keeps the former launch of each server in `new` whose referenced files are missing. `None` if
    /// no file is missing.
    fn from_missing_files(in_force: &Config, new: &mut Config) -> Option<Self> {
        let retained = new.keep_launches(in_force);
        if retained.is_empty() && !new.awaits_files() {
            return None;
        }
        let lines = retained.into_iter().map(|(name, problems)| {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            let problems = problems.join("; ");
            format!("{name} goes on with what it was started with: {problems}")
        });
        Some(Self::Awaiting(lines.collect()))
    }

    fn needs_polling(&self) -> bool {
        match self {
            Self::Rejected { needs_polling, .. } => *needs_polling,
            Self::Awaiting(_) => true,
        }
    }
}

/// Reads the configuration and applies it, and writes the configuration file.
#[derive(Debug)]
pub struct Reloader {
    origin: ConfigurationSource,
    /// The state directory with the versions of the file. `None`: no versions are stored.
    history: Option<StateDir>,
    registry: Arc<Registry>,
    access: Arc<AccessControl>,
    alerts: alerts::Choice,
    /// The configuration in force. The lock is held during a whole reload, so that reloads run one
    /// after the other.
    current: Mutex<Config>,
    /// The present trouble. The lock is held only to copy or replace the value.
    trouble: RwLock<Option<ConfigTrouble>>,
    /// The number of reloads that a person or a program has requested.
    requests: tokio_watch::Sender<u64>,
}

impl Reloader {
    pub fn new(
        origin: ConfigurationSource,
        history: Option<StateDir>,
        registry: Arc<Registry>,
        access: Arc<AccessControl>,
        alerts: alerts::Choice,
        current: Config,
    ) -> Self {
        let awaited = current
            .awaits_files()
            .then(|| ConfigTrouble::Awaiting(Vec::new()));
        Self {
            origin,
            history,
            registry,
            access,
            alerts,
            current: Mutex::new(current),
            trouble: RwLock::new(awaited),
            requests: tokio_watch::Sender::new(0),
        }
    }

    /// The path of the configuration file, whether or not it exists. Reads the file system.
    pub fn path(&self) -> Option<PathBuf> {
        self.origin.path()
    }

    /// The plan of a reload, without carrying it out.
    pub async fn plan(&self) -> Result<Reloaded, LoadError> {
        let (_, mut loaded) = self.read(Occasion::Request).await?;
        let current = self.current.lock().await;
        let findings = ConfigFinding::of_loaded(&loaded);
        let warnings = loaded.told_warnings().collect();
        loaded.config.keep_launches(&current);
        let plan = ReloadPlan::between(&current, &loaded.config);
        Ok(Reloaded {
            plan,
            findings,
            warnings,
        })
    }

    /// Reloads the configuration, and returns the plan that was carried out. Without a file, all
    /// servers are removed.
    pub async fn reload(&self) -> Result<Reloaded, LoadError> {
        self.requests.send_modify(|count| *count += 1);
        self.reload_at(Occasion::Request).await
    }

    /// Changes at each reload that is requested, for those who keep files of their own.
    pub fn requests(&self) -> tokio_watch::Receiver<u64> {
        self.requests.subscribe()
    }

    /// Explains why the configuration in force differs from the file.
    pub fn warning(&self) -> Option<String> {
        match self.trouble()? {
            ConfigTrouble::Rejected { findings, .. } => {
                let findings = findings.join("; ");
                Some(format!("the configuration stays as it was: {findings}"))
            }
            // No line for servers that never ran: their status names the missing files.
            ConfigTrouble::Awaiting(lines) => (!lines.is_empty()).then(|| lines.join("; ")),
        }
    }

    fn trouble(&self) -> Option<ConfigTrouble> {
        let trouble = self.trouble.read();
        trouble.clone()
    }

    fn set_trouble(&self, trouble: Option<ConfigTrouble>) {
        let mut current = self.trouble.write();
        *current = trouble;
    }

    async fn reload_at(&self, occasion: Occasion) -> Result<Reloaded, LoadError> {
        let mut current = self.current.lock().await;
        let mut read = self.read(occasion).await;
        let findings = match &read {
            Ok((_, loaded)) => ConfigFinding::of_loaded(loaded),
            Err(_) => Vec::new(),
        };
        if read.is_ok() {
            self.store_version().await;
        }
        let trouble = match &mut read {
            Ok((_, loaded)) => ConfigTrouble::from_missing_files(&current, &mut loaded.config),
            Err(error) => Some(ConfigTrouble::from_error(error)),
        };
        let has_trouble_changed = trouble != self.trouble();
        if let (true, Some(ConfigTrouble::Awaiting(lines))) = (has_trouble_changed, &trouble) {
            for line in lines {
                tracing::warn!("{line}");
            }
        }
        self.set_trouble(trouble);
        let (text, loaded) = read.inspect_err(|error| {
            if !has_trouble_changed && occasion == Occasion::Change {
                return;
            }
            // Only `info`: the caller prints the error.
            tracing::info!(
                error = error as &dyn std::error::Error,
                "the configuration stays as it was"
            );
            let reason = error.findings().join("; ");
            let kind = EventKind::ConfigRejected { reason };
            self.registry.events().publish(None, kind);
        })?;
        let has_warnings =
            occasion == Occasion::Request || self.registry.text().as_deref() != text.as_ref();
        let warnings = if has_warnings {
            loaded.told_warnings().collect()
        } else {
            Vec::new()
        };
        let plan = ReloadPlan::between(&current, &loaded.config);
        if plan.is_empty() {
            // Only comments or white space have changed. Store the new text.
            self.registry.set_text(text);
        } else {
            self.apply(&mut current, text, loaded.config, None).await;
        }
        if has_trouble_changed || !plan.is_empty() || occasion == Occasion::Request {
            tracing::info!(%plan, "the configuration was reloaded");
        }
        Ok(Reloaded {
            plan,
            findings,
            warnings,
        })
    }

    /// Stores the file as a new version, unless it equals the newest version.
    async fn store_version(&self) {
        self.with_history(|history| history.note(ChangedBy::Hand))
            .await;
    }

    /// Runs work on the versions of the file, off the runtime. `None` if no versions are stored.
    async fn with_history<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ConfigHistory) -> T + Send + 'static,
    ) -> Option<T> {
        let (state, origin) = (self.history.clone()?, self.origin.clone());
        // `path` may read the file system, so it is called off the runtime, too.
        off_the_runtime(move || Some(work(&ConfigHistory::for_file(&state, &origin.path()?)))).await
    }

    async fn read(&self, occasion: Occasion) -> Result<(Option<String>, Loaded), LoadError> {
        let origin = self.origin.clone();
        let had_file = self.registry.text().is_some();
        let read = move || {
            let text = origin.text()?;
            let has_gone = had_file && text.is_none() && occasion == Occasion::Change;
            if let (true, Some(path)) = (has_gone, origin.path()) {
                return Err(LoadError::Gone { path });
            }
            let loaded = origin.parse(text.as_deref())?;
            Ok((text, loaded))
        };
        off_the_runtime(read).await
    }

    /// Applies a configuration. Drops run-time changes of the server `settled`, because the file has
    /// its new entry.
    async fn apply(
        &self,
        current: &mut Config,
        text: Option<String>,
        new: Config,
        settled: Option<&ServerName>,
    ) {
        self.alerts.set(&new.alerts);
        let has_access_changed = new.access != current.access;
        // New servers must not be seen before their rules are in force.
        if has_access_changed {
            self.access.set_policy(new.access.clone());
        }
        self.registry.reload(&new, text, settled).await;
        if has_access_changed {
            self.registry.announce(Announcement::AccessChanged);
        }
        // The other settings need a restart. Every plan until then says so.
        current.servers = new.servers;
        current.alerts = new.alerts;
        current.access = new.access;
        current.naming = new.naming;
        current.max_name_length = new.max_name_length;
        current.profiles = new.profiles;
    }

    /// Reloads whenever the file changes, until `stop` is cancelled. Passes each result to `tell`,
    /// except results without news. Retries a file that cannot be read every second.
    pub async fn watch(&self, stop: CancellationToken, tell: impl Fn(Result<Reloaded, LoadError>)) {
        let Some(path) = self.origin.path() else {
            return stop.cancelled().await;
        };
        // The file may have changed while no Mainstay was running.
        self.store_version().await;
        let (changed, mut news) = mpsc::channel(1);
        let watching = watch::start(&path, changed);
        if let Err(error) = &watching {
            tracing::warn!(path = %path.display(), %error, "the configuration is not watched");
        }
        loop {
            let before = self.trouble();
            let needs_polling = before.as_ref().is_some_and(ConfigTrouble::needs_polling);
            tokio::select! {
                () = stop.cancelled() => return,
                Some(()) = news.recv() => {
                    tokio::time::sleep(DEBOUNCE).await;
                    news.try_recv().ok();
                }
                () = tokio::time::sleep(LOOK), if needs_polling => {}
            }
            // Read the trouble again: a command may have ended it during the wait. An error of this
            // reload is then new.
            let latest = self.trouble();
            match self.reload_at(Occasion::Change).await {
                Ok(Reloaded { plan, warnings, .. })
                    if plan.is_empty() && warnings.is_empty() && self.trouble() == before => {}
                Err(_) if self.trouble() == latest => {}
                outcome => tell(outcome),
            }
        }
    }
}
