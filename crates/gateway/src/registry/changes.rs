//! Changes which servers there are.
//!
//! A change that has begun runs to its end, even if its client has left: changes are tasks of the
//! registry, one after the other. A server that is ending delays only changes of its own name.

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
    environment::{self, Origin},
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
use crate::supervisor::{self, KeptDown, Operation, Server};

/// The servers that a change has added, removed and changed.
#[derive(Debug, Default)]
struct Changes {
    added: Vec<ServerName>,
    removed: Vec<(ServerName, CancellationToken)>,
    changed: Vec<ServerName>,
}

impl Changes {
    /// Resolves when the servers that are gone have ended.
    async fn complete(&self) {
        for (_, gone) in &self.removed {
            gone.cancelled().await;
        }
    }
}

impl Registry {
    /// Reads an entry that is not in the file, as if it were. One that cannot be used is refused.
    /// Nothing is looked at that the references of a pending one name.
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
            // The entry comes as a value, which has no lines.
            let problems = config.problems().cloned();
            let findings: Vec<_> = problems
                .map(|problem| problem.without_position().told())
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

    /// Whether there is anything to say which servers there are.
    pub fn is_configured(&self) -> bool {
        !self.servers.load().list.is_empty()
            || self.text().is_some()
            || self.origin.as_ref().is_some_and(Origin::is_stated)
    }

    /// Where a server's entry comes from.
    pub fn standing(&self, name: &ServerName) -> ServerStanding {
        let servers = self.servers.load();
        let standing = servers.standings.get(name);
        standing.cloned().unwrap_or(ServerStanding::Configured)
    }

    /// Adds a server until the end of this run; one that starts by itself is being started then.
    pub fn add(self: &Arc<Self>, new: Runtime) -> Changing<Arc<Server>> {
        self.enter(new, OnDuplicate::Refuse)
    }

    /// Adds or replaces a server. A server of that name has this entry until the file changes that
    /// server.
    pub fn replace(self: &Arc<Self>, new: Runtime) -> Changing<Arc<Server>> {
        self.enter(new, OnDuplicate::Replace)
    }

    fn enter(self: &Arc<Self>, new: Runtime, on_duplicate: OnDuplicate) -> Changing<Arc<Server>> {
        let this = Arc::clone(self);
        self.run_to_end(async move {
            let name = new.config.name.clone();
            let mut desired = this.open_desired().await?;
            this.record(
                &mut desired,
                &name,
                RuntimeChange::Entry(Arc::new(new)),
                on_duplicate,
            )
            .await
        })
    }

    /// Adds a server and connects it. One that cannot be connected is not kept, and what it
    /// replaced is back.
    pub fn connect(
        self: &Arc<Self>,
        new: Runtime,
        on_duplicate: OnDuplicate,
    ) -> Changing<Arc<Server>> {
        let this = Arc::clone(self);
        self.run_to_end(async move {
            let (name, new) = (new.config.name.clone(), Arc::new(new));
            let mut desired = this.open_desired().await?;
            let before = desired.overlay.change(&name).cloned();
            let was_wanted = this.named(&name).is_some_and(|server| server.is_wanted());
            let server = this
                .record(
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
            // Another change may have come meanwhile.
            let still = desired.overlay.change(&name);
            if matches!(still, Some(RuntimeChange::Entry(entry)) if Arc::ptr_eq(entry, &new)) {
                if !was_wanted {
                    // It is down, and is not to be tried again with the entry that it gets back.
                    server.operate(Operation::Stop).await.ok();
                }
                let DesiredServers { overlay, file, .. } = &mut *desired;
                match before {
                    Some(change) => overlay.record(&name, change, file),
                    None => overlay.forget(&name),
                }
                let changes = this.take_effect(&mut desired).await;
                drop(desired);
                changes.complete().await;
                if was_wanted {
                    // As far as it can be.
                    server.operate(Operation::Start).await.ok();
                }
            }
            // It is not kept, and so not tried again.
            let mut failure = failure.with("name", name.as_str());
            for detail in ["status", "attempt", "nextRetryMs"] {
                failure.details.shift_remove(detail);
            }
            Err(failure)
        })
    }

    /// Ends a server and forgets it: one of the file until a restart, or until the file says something
    /// else of it. Returns when nothing of it is left.
    pub fn remove(self: &Arc<Self>, name: &str) -> Changing<()> {
        let (this, server) = (Arc::clone(self), self.server(name));
        self.run_to_end(async move {
            let server = server?;
            let mut desired = this.open_desired().await?;
            let DesiredServers { overlay, file, .. } = &mut *desired;
            if file.iter().any(|known| known.name == server.name) {
                overlay.record(&server.name, RuntimeChange::Removed, file);
            } else {
                overlay.forget(&server.name);
            }
            let changes = this.take_effect(&mut desired).await;
            drop(desired);
            changes.complete().await;
            Ok(())
        })
    }

    /// Enables a server until a restart; one that starts by itself is being started then. One that waits
    /// for approval is refused: nothing but the approval helps.
    pub fn enable(self: &Arc<Self>, name: &str) -> Changing<Arc<Server>> {
        self.switch(name, true)
    }

    /// Disables a server until a restart: it is stopped, and listed no longer.
    pub fn disable(self: &Arc<Self>, name: &str) -> Changing<Arc<Server>> {
        self.switch(name, false)
    }

    fn switch(self: &Arc<Self>, name: &str, enabled: bool) -> Changing<Arc<Server>> {
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
            this.record(&mut desired, &server.name, change, OnDuplicate::Replace)
                .await
        })
    }

    /// Takes the servers of another configuration into force: what did not change keeps its sessions
    /// and calls. Of `settled` it says all there is to say. Returns when the servers that are gone have
    /// ended.
    pub fn reload(
        self: &Arc<Self>,
        config: &Config,
        text: Option<String>,
        settled: Option<&ServerName>,
    ) -> RunToEnd<()> {
        let (this, file) = (Arc::clone(self), config.servers.clone());
        let rules = Rules::of(config);
        let settled = settled.cloned();
        self.run_to_end(async move {
            let mut desired = this.desired.lock().await;
            if desired.closed {
                return;
            }
            desired.file = file;
            this.note_text(text);
            this.profiles.set(rules);
            if let Some(name) = &settled {
                desired.overlay.forget(name);
            }
            this.note_file(&mut desired).await;
            let changes = this.take_effect(&mut desired).await;
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

    /// Runs work to its end, even if the caller leaves.
    pub fn run_to_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> RunToEnd<T> {
        RunToEnd::begin(&self.operations, work)
    }

    /// Locks the desired servers, unless the registry has stopped.
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

    /// Records a change and puts it into force; returns the changed server.
    pub(super) async fn record(
        &self,
        desired: &mut DesiredServers,
        name: &ServerName,
        change: RuntimeChange,
        on_duplicate: OnDuplicate,
    ) -> Result<Arc<Server>, Failure> {
        if on_duplicate == OnDuplicate::Refuse && self.named(name).is_some() {
            return Err(duplicate(name));
        }
        desired.overlay.record(name, change, &desired.file);
        self.take_effect(desired).await;
        self.server(name.as_str())
    }

    /// Starts, ends and configures servers until they are the desired ones.
    async fn take_effect(&self, desired: &mut DesiredServers) -> Changes {
        // Those that ended since are joined here, so that they do not pile up.
        while desired.supervisors.try_join_next().is_some() {}
        desired.leaving.retain(|_, gone| !gone.is_cancelled());
        let before = self.servers.load_full();
        let wanted = desired.overlay.apply_to(&desired.file);
        self.events().keep_for(wanted.len());
        self.learn(desired, &wanted);
        let mut changes = Changes::default();
        let (mut list, mut standings) = (Vec::with_capacity(wanted.len()), HashMap::default());
        for (config, standing) in &wanted {
            if *standing != ServerStanding::Configured {
                standings.insert(config.name.clone(), standing.clone());
            }
            let server = match before.named(&config.name) {
                Some(server) => Arc::clone(server),
                None => {
                    // Invariant 9: its processes, too, are gone before new ones come.
                    if let Some(gone) = desired.leaving.remove(&config.name) {
                        gone.cancelled().await;
                    }
                    self.events()
                        .publish(Some(&config.name), EventKind::ServerAdded {});
                    changes.added.push(config.name.clone());
                    let (config, fleet) = (Arc::new(config.clone()), Arc::clone(&self.fleet));
                    // What was kept of the server is read from a file.
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
        let gone = before.list.iter();
        for server in gone.filter(|server| after.named(&server.name).is_none()) {
            let end = self
                .end_server(Arc::clone(server), &mut desired.supervisors)
                .await;
            desired.leaving.insert(server.name.clone(), end.clone());
            changes.removed.push((server.name.clone(), end));
        }
        for (config, _) in wanted {
            if let Some(server) = before.named(&config.name)
                && **server.config() != config
            {
                changes.changed.push(config.name.clone());
                server.configure(Arc::new(config)).await;
            }
        }
        // A server may have gone or come without a session of its own to announce it.
        self.merge().await;
        changes
    }

    /// Tells a server to end; the token says when it has.
    async fn end_server(&self, server: Arc<Server>, tasks: &mut JoinSet<()>) -> CancellationToken {
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
