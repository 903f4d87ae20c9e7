//! Hot reload: reads the configuration again, plans the differences, and carries them out.
//!
//! A file that cannot be used changes nothing (invariant 11), and neither does a missing one. What runs
//! goes on, and the trouble is shown until the file is back or a person reloads.

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
    environment::{LoadError, Loaded, Origin},
    state::StateDir,
};
use parking_lot::RwLock;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

use crate::{alerts, registry::Registry};

pub use self::{
    check::{Checked, Finding, Proposal, Severity},
    edit::{Change, change_file, create_file, entry_changed, restored},
    save::schema_beside,
    text::FileText,
    versions::{
        History, ShownVersion, Undone, change_around, history_of, show_version, undo_file,
        unknown_version,
    },
};
pub use crate::registry::OnDuplicate;

/// Editors write a file in several steps; it is read once they are through.
const DEBOUNCE: Duration = Duration::from_millis(300);

/// What a reload does, or would do.
#[derive(Clone, Debug)]
pub struct Reloaded {
    pub plan: ReloadPlan,
    /// What is wrong or odd about the file. An entry with an error is a server that shows it; the others
    /// run.
    pub findings: Vec<Finding>,
    /// The warnings among them, a line each with its place. Empty where nobody asked and the file's text is
    /// the same as before.
    pub warnings: Vec<String>,
}

/// How often a file is looked for that has gone or cannot be read.
const LOOK: Duration = Duration::from_secs(1);

/// Why the configuration is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Occasion {
    /// The file has changed, or has gone.
    Change,
    /// A person wants the content of the file, and no servers if there is none.
    Request,
}

/// Why the configuration in force is not the file's.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Trouble {
    /// The file cannot be used, and nothing of it is in force. A line for each finding.
    Rejected {
        findings: Vec<String>,
        /// Nothing may say that it is over: the file cannot be read, and its folder may have gone.
        is_looked_for: bool,
    },
    /// Files that entries refer to cannot be read. A line for each server that runs as it was started.
    Awaiting(Vec<String>),
}

impl Trouble {
    fn of_error(error: &LoadError) -> Self {
        Self::Rejected {
            findings: error.findings(),
            is_looked_for: !matches!(error, LoadError::Invalid { .. }),
        }
    }

    /// Keeps the launches of running servers in `new` where only files are missing.
    fn of_files(in_force: &Config, new: &mut Config) -> Option<Self> {
        let kept = new.keep_launches(in_force);
        if kept.is_empty() && !new.awaits_files() {
            return None;
        }
        let lines = kept.into_iter().map(|(name, problems)| {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            let problems = problems.join("; ");
            format!("{name} goes on with what it was started with: {problems}")
        });
        Some(Self::Awaiting(lines.collect()))
    }

    fn is_looked_for(&self) -> bool {
        match self {
            Self::Rejected { is_looked_for, .. } => *is_looked_for,
            Self::Awaiting(_) => true,
        }
    }
}

/// Reads the configuration anew and takes it into force, and writes it.
#[derive(Debug)]
pub struct Reloader {
    origin: Origin,
    /// Where versions of the file are kept.
    history: Option<StateDir>,
    registry: Arc<Registry>,
    alerts: alerts::Choice,
    /// The configuration in force. Locked for the whole of a reload, so that one comes after the other.
    current: Mutex<Config>,
    /// Locked for a copy only.
    trouble: RwLock<Option<Trouble>>,
}

impl Reloader {
    pub fn new(
        origin: Origin,
        history: Option<StateDir>,
        registry: Arc<Registry>,
        alerts: alerts::Choice,
        current: Config,
    ) -> Self {
        let awaited = current
            .awaits_files()
            .then(|| Trouble::Awaiting(Vec::new()));
        Self {
            origin,
            history,
            registry,
            alerts,
            current: Mutex::new(current),
            trouble: RwLock::new(awaited),
        }
    }

    /// The configuration's file, whether it is there or not. Looks at the file system.
    pub fn path(&self) -> Option<PathBuf> {
        self.origin.path()
    }

    /// The plan that a reload would carry out now.
    pub async fn plan(&self) -> Result<Reloaded, LoadError> {
        let (_, mut loaded) = self.read(Occasion::Request).await?;
        let current = self.current.lock().await;
        let findings = Finding::all_of(&loaded);
        let warnings = loaded.told_warnings().collect();
        loaded.config.keep_launches(&current);
        let plan = ReloadPlan::between(&current, &loaded.config);
        Ok(Reloaded {
            plan,
            findings,
            warnings,
        })
    }

    /// Reloads; returns what was done. Without a file there are no servers any more.
    pub async fn reload(&self) -> Result<Reloaded, LoadError> {
        self.reload_at(Occasion::Request).await
    }

    /// Why the configuration in force is not the file's, in words.
    pub fn warning(&self) -> Option<String> {
        match self.trouble()? {
            Trouble::Rejected { findings, .. } => {
                let findings = findings.join("; ");
                Some(format!("the configuration stays as it was: {findings}"))
            }
            // Servers that never ran say by themselves what they lack.
            Trouble::Awaiting(kept) => (!kept.is_empty()).then(|| kept.join("; ")),
        }
    }

    fn trouble(&self) -> Option<Trouble> {
        let trouble = self.trouble.read();
        trouble.clone()
    }

    fn set_trouble(&self, trouble: Option<Trouble>) {
        let mut known = self.trouble.write();
        *known = trouble;
    }

    async fn reload_at(&self, occasion: Occasion) -> Result<Reloaded, LoadError> {
        let mut current = self.current.lock().await;
        let mut read = self.read(occasion).await;
        let findings = match &read {
            Ok((_, loaded)) => Finding::all_of(loaded),
            Err(_) => Vec::new(),
        };
        if read.is_ok() {
            self.note_version().await;
        }
        let trouble = match &mut read {
            Ok((_, loaded)) => Trouble::of_files(&current, &mut loaded.config),
            Err(error) => Some(Trouble::of_error(error)),
        };
        let is_news = trouble != self.trouble();
        if let (true, Some(Trouble::Awaiting(kept))) = (is_news, &trouble) {
            for line in kept {
                tracing::warn!("{line}");
            }
        }
        self.set_trouble(trouble);
        let (text, loaded) = read.inspect_err(|error| {
            if !is_news && occasion == Occasion::Change {
                return;
            }
            // The caller tells its person.
            tracing::info!(
                error = error as &dyn std::error::Error,
                "the configuration stays as it was"
            );
            let reason = error.findings().join("; ");
            let kind = EventKind::ConfigRejected { reason };
            self.registry.events().publish(None, kind);
        })?;
        let is_told =
            occasion == Occasion::Request || self.registry.text().as_deref() != text.as_ref();
        let warnings = if is_told {
            loaded.told_warnings().collect()
        } else {
            Vec::new()
        };
        let plan = ReloadPlan::between(&current, &loaded.config);
        if plan.is_empty() {
            // Only comments or spaces have changed; the text with them is kept.
            self.registry.note_text(text);
        } else {
            self.take(&mut current, text, loaded.config, None).await;
        }
        if is_news || !plan.is_empty() || occasion == Occasion::Request {
            tracing::info!(%plan, "the configuration was reloaded");
        }
        Ok(Reloaded {
            plan,
            findings,
            warnings,
        })
    }

    /// Keeps the file as a version of its own, unless Mainstay has seen it so.
    async fn note_version(&self) {
        self.with_history(|history| history.note(ChangedBy::Hand))
            .await;
    }

    /// Does work on the versions of the file, off the runtime. `None` where none are kept.
    async fn with_history<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ConfigHistory) -> T + Send + 'static,
    ) -> Option<T> {
        let (state, origin) = (self.history.clone()?, self.origin.clone());
        // To find the file takes a look at the disk.
        off_the_runtime(move || Some(work(&ConfigHistory::of(&state, &origin.path()?)))).await
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

    /// Takes a configuration into force; of `settled` it says all there is to say.
    async fn take(
        &self,
        current: &mut Config,
        text: Option<String>,
        new: Config,
        settled: Option<&ServerName>,
    ) {
        self.alerts.set(&new.alerts);
        self.registry.reload(&new, text, settled).await;
        // The other settings wait for a restart, and every plan until then says so.
        current.servers = new.servers;
        current.alerts = new.alerts;
        current.naming = new.naming;
        current.max_name_length = new.max_name_length;
        current.profiles = new.profiles;
    }

    /// Reloads whenever the file changes, until told to stop; `tell` hears what came of it. A file that
    /// cannot be read is looked for until it is back.
    pub async fn watch(&self, stop: CancellationToken, tell: impl Fn(Result<Reloaded, LoadError>)) {
        let Some(path) = self.origin.path() else {
            return stop.cancelled().await;
        };
        // What was changed while no Mainstay ran is a version, too.
        self.note_version().await;
        let (changed, mut news) = mpsc::channel(1);
        let watching = watch::start(&path, changed);
        if let Err(error) = &watching {
            tracing::warn!(path = %path.display(), %error, "the configuration is not watched");
        }
        loop {
            let before = self.trouble();
            let is_looked_for = before.as_ref().is_some_and(Trouble::is_looked_for);
            tokio::select! {
                () = stop.cancelled() => return,
                Some(()) = news.recv() => {
                    tokio::time::sleep(DEBOUNCE).await;
                    news.try_recv().ok();
                }
                () = tokio::time::sleep(LOOK), if is_looked_for => {}
            }
            // A change by a command may have ended the trouble meanwhile: then this is another one.
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
