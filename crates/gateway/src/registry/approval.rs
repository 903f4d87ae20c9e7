//! Servers that MCP clients add, and the approval that some of them need.

use std::{sync::Arc, time::SystemTime};

use futures_util::FutureExt as _;
use mainstay_config::{Approval, Requested, Runtime, RuntimeChange, ServerStanding};
use mainstay_core::{
    failure::{Failure, FailureKind},
    ids::ServerName,
    record::Origin,
};
use mainstay_platform::blocking::off_the_runtime;

use super::{
    Registry,
    desired::{DesiredServers, OnDuplicate},
    run_to_end::Changing,
    targets,
};
use crate::supervisor::Server;

impl Registry {
    /// Adds a server that an MCP client wants. A name that had another target before waits for approval,
    /// whatever the entry says of itself: clients that know the name would send the new target what they
    /// mean for the old one.
    pub fn propose(self: &Arc<Self>, mut new: Runtime, by: Arc<Origin>) -> Changing<Arc<Server>> {
        new.requested = Some(Requested {
            origin: by,
            at: SystemTime::now(),
        });
        let this = Arc::clone(self);
        self.run_to_end(async move {
            let name = new.config.name.clone();
            let mut desired = this.open_desired().await?;
            if !desired.targets.has_file() {
                this.note_file(&mut desired).await;
            }
            new.formerly = desired.targets.other(&name, &new.target).await;
            if new.formerly.is_some() {
                new.approval = Approval::Pending;
            }
            let change = RuntimeChange::Entry(Arc::new(new));
            this.record(&mut desired, &name, change, OnDuplicate::Refuse)
                .await
        })
    }

    /// Takes note of what the file's servers lead to.
    pub(super) async fn note_file(&self, desired: &mut DesiredServers) {
        let (origin, text) = (self.origin.clone(), self.text());
        let file = off_the_runtime(move || targets::of_file(origin.as_ref(), text.as_deref()));
        desired.targets.set_file(file.await);
        let servers = desired.overlay.apply_to(&desired.file);
        self.learn(desired, &servers);
    }

    /// Takes note of what the servers lead to, and has it written down.
    pub(super) fn learn(
        &self,
        desired: &mut DesiredServers,
        servers: &[(mainstay_core::config::ServerConfig, ServerStanding)],
    ) {
        desired.targets.learn(servers);
        if let Some(save) = desired.targets.unsaved() {
            self.operations.spawn(save.boxed());
        }
    }

    /// Lets a pending server be started, if it still is what `digest` was shown for; one that starts by
    /// itself is being started then. What its references name is read now, and one that cannot be read
    /// leaves the server pending. Returns what was approved, too.
    pub fn approve(
        self: &Arc<Self>,
        name: &str,
        digest: Option<String>,
    ) -> Changing<(Arc<Server>, Arc<Runtime>)> {
        let (this, server) = (Arc::clone(self), self.server(name));
        self.run_to_end(async move {
            let server = server?;
            let name = &server.name;
            let shown = match this.standing(name) {
                ServerStanding::Pending(runtime) => as_shown(&runtime, digest.as_deref())?,
                ServerStanding::Configured | ServerStanding::Ephemeral(_) => {
                    return Err(not_pending(name));
                }
            };
            let entry = (*shown.entry).clone();
            let approved = this.read_entry(name.as_str(), entry, Approval::Given);
            let approved = Arc::new(approved.await?.runtime);
            let mut desired = this.open_desired().await?;
            match desired.overlay.change(name) {
                // A client may have put another in its place meanwhile.
                Some(RuntimeChange::Entry(now)) if now.approval == Approval::Pending => {
                    as_shown(now, digest.as_deref())?;
                }
                _ => return Err(not_pending(name)),
            }
            let change = RuntimeChange::Entry(Arc::clone(&approved));
            let server = this
                .record(&mut desired, name, change, OnDuplicate::Replace)
                .await?;
            Ok((server, approved))
        })
    }
}

/// A pending server, if it is the one that this digest was shown for.
fn as_shown(pending: &Arc<Runtime>, digest: Option<&str>) -> Result<Arc<Runtime>, Failure> {
    let name = &pending.config.name;
    let message = match digest {
        Some(digest) if digest == pending.digest() => return Ok(Arc::clone(pending)),
        Some(_) => format!("Server '{name}' is not what was shown; look again"),
        None => format!("Server '{name}' is approved with the digest of what is shown of it"),
    };
    Err(Failure::new(FailureKind::NotAsShown, message).of_server(name))
}

fn not_pending(name: &ServerName) -> Failure {
    let message = format!("Server '{name}' waits for no approval");
    Failure::new(FailureKind::NotPending, message).of_server(name)
}
