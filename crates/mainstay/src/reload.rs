//! Hot reload: the configuration is read again, a plan is made of what differs, and carried out.
//!
//! A file that cannot be used changes nothing (invariant 11).

mod edit;
mod save;

use std::{path::Path, sync::Arc, time::Duration};

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

/// Reads the configuration anew and takes it into force, and writes it.
#[derive(Debug)]
pub struct Reloader {
    origin: Origin,
    registry: Arc<Registry>,
    alerts: alerts::Choice,
    /// What is in force; held through a reload, so that one comes after the other.
    current: Mutex<Config>,
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
        }
    }

    /// What a reload would do now.
    pub async fn plan(&self) -> Result<Plan, LoadError> {
        let (_, Loaded { config: new, .. }) = self.read().await?;
        Ok(Plan::between(&*self.current.lock().await, &new))
    }

    /// Reloads; returns what was done.
    pub async fn reload(&self) -> Result<Plan, LoadError> {
        let mut current = self.current.lock().await;
        let (text, loaded) = self.read().await.inspect_err(|error| {
            tracing::error!(
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

    async fn read(&self) -> Result<(Option<String>, Loaded), LoadError> {
        let origin = self.origin.clone();
        let read = move || {
            let text = origin.text()?;
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

    /// Reloads whenever the file changes, until told to stop; `tell` hears what came of it.
    pub async fn watch(&self, stop: CancellationToken, tell: impl Fn(Result<Plan, LoadError>)) {
        let Some(path) = self.origin.path() else {
            return stop.cancelled().await;
        };
        let (changed, mut news) = mpsc::channel(1);
        let watching = watch(&path, changed);
        if let Err(error) = &watching {
            tracing::warn!(path = %path.display(), %error, "the configuration is not watched");
        }
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                Some(()) = news.recv() => {}
            }
            tokio::time::sleep(DEBOUNCE).await;
            news.try_recv().ok();
            match self.reload().await {
                Ok(plan) if plan.is_empty() => {}
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
