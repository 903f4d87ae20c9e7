//! Adds, removes and changes servers.
//!
//! Changes are tasks of the registry, which run one after the other. A change runs to its end even
//! if its caller leaves. A server that is ending delays only a change that adds its name again, and
//! the changes behind that change.

use std::sync::Arc;

use foldhash::HashMap;
use futures_util::FutureExt as _;
use mainstay_config::{
    Approval, ParsedEntry, References, Runtime, RuntimeChange, ServerStanding, ServerTarget,
    edit::Entry,
};
use mainstay_core::{
    config::Config,
    event::EventKind,
    failure::{Failure, FailureKind},
    ids::ServerName,
};
use mainstay_platform::{
    blocking::off_the_runtime,
    environment::{self, ConfigurationSource},
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{
    Registry,
    announcement::Announcement,
    desired::{DesiredServers, NewServer, OnDuplicate, duplicate, watch},
    profiles::Rules,
    run_to_end::{Changing, RunToEnd},
    servers::Servers,
};
use crate::supervisor::{self, KeptDown, Operation, ServerHandle};

/// The servers that a change has added, removed and changed.
#[derive(Debug, Default)]
struct Changes {
    added: Vec<ServerName>,
    removed: Vec<(ServerName, CancellationToken)>,
    changed: Vec<ServerName>,
}

impl Changes {
    /// Resolves when the removed servers have ended.
    async fn complete(&self) {
        for (_, gone) in &self.removed {
            gone.cancelled().await;
        }
    }
}

impl Registry {
    /// Parses an entry as if it were in the configuration file. Fails if the entry is invalid.
    /// References in a pending entry are not replaced.
    pub async fn read_entry(
        &self,
        name: &str,
        entry: Entry,
        approval: Approval,
    ) -> Result<NewServer, Failure> {
        let invalid =
            |message| Failure::new(FailureKind::InvalidConfig, message).with("name", name);
        let legal = ServerName::new(name).map_err(|error| invalid(error.to_string()))?;
        let references = match approval {
            Approval::Given => References::Replaced,
            Approval::Pending => References::Kept,
        };
        let (origin, text) = (self.origin.clone(), self.text());
        let entry = Arc::new(entry);
        let parsed = off_the_runtime({
            let entry = Arc::clone(&entry);
            move || match &origin {
                Some(origin) => {
                    let text = text.as_deref().map(String::as_str);
                    origin.entry(&legal, &entry, text, references)
                }
                None => environment::entry_alone(&legal, &entry, references),
            }
        });
        let ParsedEntry { config, warnings } = parsed.await.map_err(|error| error.failure())?;
        if let Some(first) = config.problems().next() {
            // The entry is a JSON value, so positions would be meaningless.
            let problems = config.problems().cloned();
            let findings: Vec<_> = problems
                .map(|problem| problem.without_position().to_json())
                .collect();
            let message = format!("Invalid configuration: {}", first.message);
            return Err(invalid(message).with("findings", findings));
        }
        Ok(NewServer {
            runtime: Runtime {
                config,
                target: ServerTarget::of_entry(&entry),
                entry,
                approval,
                formerly: None,
                requested: None,
            },
            warnings: warnings.iter().map(ToString::to_string).collect(),
        })
    }

    /// True if there is any configuration, even one without servers.
    pub fn is_configured(&self) -> bool {
        !self.servers.load().list.is_empty()
            || self.text().is_some()
            || self
                .origin
                .as_ref()
                .is_some_and(ConfigurationSource::is_stated)
    }

    /// The origin of a server's entry.
    pub fn standing(&self, name: &ServerName) -> ServerStanding {
        let servers = self.servers.load();
        let standing = servers.standings.get(name);
        standing.cloned().unwrap_or(ServerStanding::Configured)
    }

    /// Adds a server until a restart. Starts it if its entry says so.
    pub fn add(self: &Arc<Self>, new: Runtime) -> Changing<Arc<ServerHandle>> {
        self.enter(new, OnDuplicate::Refuse)
    }

    /// Adds or replaces a server until a restart, or until its entry in the file changes.
    pub fn replace(self: &Arc<Self>, new: Runtime) -> Changing<Arc<ServerHandle>> {
        self.enter(new, OnDuplicate::Replace)
    }

    fn enter(
        self: &Arc<Self>,
        new: Runtime,
        on_duplicate: OnDuplicate,
    ) -> Changing<Arc<ServerHandle>> {
        let this = Arc::clone(self);
        self.run_to_end(async move {
            let name = new.config.name.clone();
            let mut desired = this.open_desired().await?;
            this.apply_change(
                &mut desired,
                &name,
                RuntimeChange::Entry(Arc::new(new)),
                on_duplicate,
            )
            .await
        })
    }

    /// Adds a server and connects it. If the server cannot be connected, removes it again and
    /// restores the entry that it replaced.
    pub fn connect(
        self: &Arc<Self>,
        new: Runtime,
        on_duplicate: OnDuplicate,
    ) -> Changing<Arc<ServerHandle>> {
        let this = Arc::clone(self);
        self.run_to_end(async move {
            let (name, new) = (new.config.name.clone(), Arc::new(new));
            let mut desired = this.open_desired().await?;
            let before = desired.overlay.change(&name).cloned();
            let was_up = this.named(&name).is_some_and(|server| server.is_desired_up());
            let server = this
                .apply_change(
                    &mut desired,
                    &name,
                    RuntimeChange::Entry(Arc::clone(&new)),
                    on_duplicate,
                )
                .await?;
            drop(desired);
            let Err(failure) = server.operate(Operation::Start).await else {
                return Ok(server);
            };
            let mut desired = this.desired.lock().await;
            // Restore only if no other change has replaced this entry in the meantime.
            let present_change = desired.overlay.change(&name);
            if matches!(present_change, Some(RuntimeChange::Entry(entry)) if Arc::ptr_eq(entry, &new)) {
                if !was_up {
                    // The server was down before, so the restored entry must not be connected.
                    server.operate(Operation::Stop).await.ok();
                }
                let DesiredServers { overlay, file, .. } = &mut *desired;
                match before {
                    Some(change) => overlay.record(&name, change, file),
                    None => overlay.forget(&name),
                }
                let changes = this.apply_desired(&mut desired).await;
                drop(desired);
                changes.complete().await;
                if was_up {
                    // The call fails in any case, even if the former server comes up.
                    server.operate(Operation::Start).await.ok();
                }
            }
            // The entry was removed, so remove the details about further attempts.
            let mut failure = failure.with("name", name.as_str());
            for detail in ["status", "attempt", "nextRetryMs"] {
                failure.details.shift_remove(detail);
            }
            Err(failure)
        })
    }

    /// Ends a server and removes it. A server of the file stays removed until a restart, or until its
    /// entry in the file changes. Returns when the server has ended.
    pub fn remove(self: &Arc<Self>, name: &str) -> Changing<()> {
        let (this, server) = (Arc::clone(self), self.server(name));
        self.run_to_end(async move {
            let server = server?;
            let mut desired = this.open_desired().await?;
            let DesiredServers { overlay, file, .. } = &mut *desired;
            if file.iter().any(|configured| configured.name == server.name) {
                overlay.record(&server.name, RuntimeChange::Removed, file);
            } else {
                overlay.forget(&server.name);
            }
            let changes = this.apply_desired(&mut desired).await;
            drop(desired);
            changes.complete().await;
            Ok(())
        })
    }

    /// Enables a server until a restart. Starts it if its entry says so. Fails for a server that
    /// waits for approval.
    pub fn enable(self: &Arc<Self>, name: &str) -> Changing<Arc<ServerHandle>> {
        self.set_enabled(name, true)
    }

    /// Disables a server until a restart. The server is stopped, and its items are not listed.
    pub fn disable(self: &Arc<Self>, name: &str) -> Changing<Arc<ServerHandle>> {
        self.set_enabled(name, false)
    }

    fn set_enabled(self: &Arc<Self>, name: &str, enabled: bool) -> Changing<Arc<ServerHandle>> {
        let (this, server) = (Arc::clone(self), self.server(name));
        self.run_to_end(async move {
            let server = server?;
            if enabled && server.kept_down() == Some(KeptDown::Unapproved) {
                return Err(server.not_connected());
            }
            let mut desired = this.open_desired().await?;
            let change = match desired.overlay.change(&server.name) {
                Some(RuntimeChange::Entry(entry)) => {
                    RuntimeChange::Entry(Arc::new(entry.switched(enabled)))
                }
                Some(RuntimeChange::Removed | RuntimeChange::Switched { .. }) | None => {
                    RuntimeChange::Switched { enabled }
                }
            };
            this.apply_change(&mut desired, &server.name, change, OnDuplicate::Replace)
                .await
        })
    }

    /// Applies another configuration. Unchanged servers keep their sessions and calls. Drops run-time
    /// changes of the server `settled`, because the file has its new entry. Returns when removed
    /// servers have ended.
    pub fn reload(
        self: &Arc<Self>,
        config: &Config,
        text: Option<String>,
        settled: Option<&ServerName>,
    ) -> RunToEnd<()> {
        let (this, file) = (Arc::clone(self), config.servers.clone());
        let rules = Rules::new(config);
        let settled = settled.cloned();
        self.run_to_end(async move {
            let mut desired = this.desired.lock().await;
            if desired.closed {
                return;
            }
            desired.file = file;
            this.set_text(text);
            this.profiles.set(rules);
            if let Some(name) = &settled {
                desired.overlay.forget(name);
            }
            this.record_file_targets(&mut desired).await;
            let changes = this.apply_desired(&mut desired).await;
            drop(desired);
            changes.complete().await;
            let Changes {
                added,
                removed,
                changed,
            } = changes;
            let removed = removed.into_iter().map(|(name, _)| name).collect();
            this.events().publish(
                None,
                EventKind::ConfigReloaded {
                    added,
                    removed,
                    changed,
                },
            );
        })
    }

    /// Runs work as a task of the registry, to its end even if the caller leaves.
    pub fn run_to_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> RunToEnd<T> {
        RunToEnd::begin(&self.operations, work)
    }

    /// Locks the desired servers. Fails if the registry is stopping.
    pub(super) async fn open_desired(
        &self,
    ) -> Result<tokio::sync::MutexGuard<'_, DesiredServers>, Failure> {
        let desired = self.desired.lock().await;
        if desired.closed {
            let message = "Mainstay is shutting down";
            return Err(Failure::new(FailureKind::ShuttingDown, message));
        }
        Ok(desired)
    }

    /// Records a change in the overlay and applies it. Returns the server.
    pub(super) async fn apply_change(
        &self,
        desired: &mut DesiredServers,
        name: &ServerName,
        change: RuntimeChange,
        on_duplicate: OnDuplicate,
    ) -> Result<Arc<ServerHandle>, Failure> {
        if on_duplicate == OnDuplicate::Refuse && self.named(name).is_some() {
            return Err(duplicate(name));
        }
        desired.overlay.record(name, change, &desired.file);
        self.apply_desired(desired).await;
        self.server(name.as_str())
    }

    /// Starts, ends and configures servers so that they match the desired servers. Returns the
    /// changes.
    async fn apply_desired(&self, desired: &mut DesiredServers) -> Changes {
        // Join the supervisors that have ended, so that they do not accumulate.
        while desired.supervisors.try_join_next().is_some() {}
        desired.leaving.retain(|_, gone| !gone.is_cancelled());
        let before = self.servers.load_full();
        let desired_servers = desired.overlay.apply_to(&desired.file);
        self.events().fit_to_servers(desired_servers.len());
        self.learn(desired, &desired_servers);
        let mut changes = Changes::default();
        let (mut list, mut standings) = (
            Vec::with_capacity(desired_servers.len()),
            HashMap::default(),
        );
        for (config, standing) in &desired_servers {
            if *standing != ServerStanding::Configured {
                standings.insert(config.name.clone(), standing.clone());
            }
            let server = match before.named(&config.name) {
                Some(server) => Arc::clone(server),
                None => {
                    // Invariant 9: the processes of the old server must have ended before new ones
                    // start.
                    if let Some(gone) = desired.leaving.remove(&config.name) {
                        gone.cancelled().await;
                    }
                    self.events()
                        .publish(Some(&config.name), EventKind::ServerAdded {});
                    changes.added.push(config.name.clone());
                    let (config, fleet) = (Arc::new(config.clone()), Arc::clone(&self.fleet));
                    // Off the runtime, because this reads the stored catalog from a file.
                    let supervised =
                        off_the_runtime(move || supervisor::supervise(config, fleet)).await;
                    watch(supervised, &mut desired.supervisors)
                }
            };
            list.push(server);
        }
        let after = Arc::new(Servers::new(list, standings));
        self.servers.store(Arc::clone(&after));
        // An error means that there is no listener.
        self.announcements.send(Announcement::ServersChanged).ok();
        let is_gone = |server: &&Arc<ServerHandle>| after.named(&server.name).is_none();
        for server in before.list.iter().filter(is_gone) {
            let end = self
                .end_server(Arc::clone(server), &mut desired.supervisors)
                .await;
            desired.leaving.insert(server.name.clone(), end.clone());
            changes.removed.push((server.name.clone(), end));
        }
        for (config, _) in desired_servers {
            if let Some(server) = before.named(&config.name)
                && **server.config() != config
            {
                changes.changed.push(config.name.clone());
                server.configure(Arc::new(config)).await;
            }
        }
        // Merge here: a removed or disabled server has no session that would report the change.
        self.merge().await;
        changes
    }

    /// Begins the end of a server. The returned token is cancelled when the server has ended.
    async fn end_server(
        &self,
        server: Arc<ServerHandle>,
        tasks: &mut JoinSet<()>,
    ) -> CancellationToken {
        server.end().await;
        let gone = CancellationToken::new();
        let (end, fleet) = (gone.clone(), Arc::clone(&self.fleet));
        let removal = async move {
            server.gone().await;
            fleet
                .events
                .publish(Some(&server.name), EventKind::ServerRemoved {});
            end.cancel();
        };
        tasks.spawn(removal.boxed());
        gone
    }
}
