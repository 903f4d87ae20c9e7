//! Hot reload: reads the configuration again, plans the differences, and carries them out.
//!
//! A file that cannot be used changes nothing (invariant 11), and neither does a missing one. What runs
//! goes on, and the trouble is shown until the file is back or a person reloads.

mod edit;
mod save;

use std::{
    path::Path,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use mainstay_core::{
    config::{Config, Plan},
    event::EventKind,
    ids::ServerName,
};
use notify::{RecursiveMode, Watcher as _};
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

use crate::{
    alerts,
    registry::Registry,
    surroundings::{LoadError, Loaded, Origin, off_the_runtime},
};

pub use self::edit::{Change, change_file, restored};
pub use crate::registry::Known;

/// Editors write a file in several steps; it is read once they are through.
const DEBOUNCE: Duration = Duration::from_millis(300);

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
struct Trouble {
    /// A line each.
    findings: Vec<String>,
    /// Nothing may say that it is over: the file cannot be read, and its folder may have gone.
    is_looked_for: bool,
}

/// Reads the configuration anew and takes it into force, and writes it.
#[derive(Debug)]
pub struct Reloader {
    origin: Origin,
    registry: Arc<Registry>,
    alerts: alerts::Choice,
    /// What is in force; held through a reload, so that one comes after the other.
    current: Mutex<Config>,
    /// Locked for a copy only.
    trouble: RwLock<Option<Trouble>>,
}

impl Reloader {
    pub fn new(
        origin: Origin,
        registry: Arc<Registry>,
        alerts: alerts::Choice,
        current: Config,
    ) -> Self {
        Self {
            origin,
            registry,
            alerts,
            current: Mutex::new(current),
            trouble: RwLock::default(),
        }
    }

    /// What a reload would do now.
    pub async fn plan(&self) -> Result<Plan, LoadError> {
        let (_, Loaded { config: new, .. }) = self.read(Occasion::Request).await?;
        Ok(Plan::between(&*self.current.lock().await, &new))
    }

    /// Reloads; returns what was done. Without a file there are no servers any more.
    pub async fn reload(&self) -> Result<Plan, LoadError> {
        self.reload_at(Occasion::Request).await
    }

    /// Why the configuration in force is not the file's, in words.
    pub fn warning(&self) -> Option<String> {
        let findings = self.trouble()?.findings.join("; ");
        Some(format!("the configuration stays as it was: {findings}"))
    }

    fn trouble(&self) -> Option<Trouble> {
        let trouble = self.trouble.read().unwrap_or_else(PoisonError::into_inner);
        trouble.clone()
    }

    fn set_trouble(&self, trouble: Option<Trouble>) {
        let mut known = self.trouble.write().unwrap_or_else(PoisonError::into_inner);
        *known = trouble;
    }

    async fn reload_at(&self, occasion: Occasion) -> Result<Plan, LoadError> {
        let mut current = self.current.lock().await;
        let read = self.read(occasion).await;
        let trouble = read.as_ref().err().map(|error| Trouble {
            findings: error.findings(),
            is_looked_for: !matches!(error, LoadError::Invalid { .. }),
        });
        let is_news = trouble != self.trouble();
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
        let plan = Plan::between(&current, &loaded.config);
        if plan.is_empty() {
            // What changed means nothing, and comments are kept as well.
            self.registry.note_text(text);
        } else {
            self.take(&mut current, text, loaded.config, None).await;
        }
        tracing::info!(%plan, "the configuration was reloaded");
        Ok(plan)
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
    pub async fn watch(&self, stop: CancellationToken, tell: impl Fn(Result<Plan, LoadError>)) {
        let Some(path) = self.origin.path() else {
            return stop.cancelled().await;
        };
        let (changed, mut news) = mpsc::channel(1);
        let start = || {
            let watching = watch(&path, changed.clone());
            if let Err(error) = &watching {
                tracing::warn!(path = %path.display(), %error, "the configuration is not watched");
            }
            watching
        };
        let mut watching = start();
        loop {
            let before = self.trouble();
            let is_looked_for = before.as_ref().is_some_and(|it| it.is_looked_for);
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
            let outcome = self.reload_at(Occasion::Change).await;
            if is_looked_for && outcome.is_ok() {
                // The watch goes with the folder, and another folder may have come.
                drop(watching);
                watching = start();
            }
            match outcome {
                Ok(plan) if plan.is_empty() && before.is_none() => {}
                Err(_) if self.trouble() == latest => {}
                outcome => tell(outcome),
            }
        }
    }
}

/// Watches the file's folder, for many editors replace the file; ends when the watcher is dropped.
fn watch(path: &Path, changed: mpsc::Sender<()>) -> notify::Result<notify::RecommendedWatcher> {
    let path = std::path::absolute(path)?;
    let name = path.file_name().map(ToOwned::to_owned);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let Ok(event) = event else { return };
        let ours = event
            .paths
            .iter()
            .any(|path| path.file_name() == name.as_deref());
        if ours && !event.kind.is_access() {
            // Full: it is about to be read anyway.
            changed.try_send(()).ok();
        }
    })?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    watcher.watch(folder, RecursiveMode::NonRecursive)?;
    Ok(watcher)
}
