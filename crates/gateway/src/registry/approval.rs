//! Servers that MCP clients add, and the approval of pending servers.

use std::{sync::Arc, time::SystemTime};

use futures_util::FutureExt as _;
use mainstay_config::{Approval, Requested, Runtime, RuntimeChange, ServerStanding};
use mainstay_core::{
    failure::{Failure, FailureKind},
    ids::ServerName,
    record::CallOrigin,
};
use mainstay_platform::blocking::off_the_runtime;

use super::{
    Registry,
    desired::{DesiredServers, OnDuplicate},
    run_to_end::Changing,
    targets,
};
use crate::supervisor::ServerHandle;

impl Registry {
    /// Adds a server that an MCP client requests. If the name had another target before, the server
    /// becomes pending in any case. Otherwise clients that know the name would send data for the old
    /// target to the new target.
    pub fn propose(
        self: &Arc<Self>,
        mut new: Runtime,
        by: Arc<CallOrigin>,
    ) -> Changing<Arc<ServerHandle>> {
        new.requested = Some(Requested {
            origin: by,
            at: SystemTime::now(),
        });
        let this = Arc::clone(self);
        self.run_to_end(async move {
            let name = new.config.name.clone();
            let mut desired = this.open_desired().await?;
            if !desired.targets.has_file() {
                this.record_file_targets(&mut desired).await;
            }
            new.formerly = desired.targets.other(&name, &new.target).await;
            if new.formerly.is_some() {
                new.approval = Approval::Pending;
            }
            let change = RuntimeChange::Entry(Arc::new(new));
            this.apply_change(&mut desired, &name, change, OnDuplicate::Refuse)
                .await
        })
    }

    /// Records the targets of the servers in the configuration file.
    pub(super) async fn record_file_targets(&self, desired: &mut DesiredServers) {
        let (origin, text) = (self.origin.clone(), self.text());
        let file = off_the_runtime(move || targets::file_targets(origin.as_ref(), text.as_deref()));
        desired.targets.set_file(file.await);
        let servers = desired.overlay.apply_to(&desired.file);
        self.learn(desired, &servers);
    }

    /// Records the targets of these servers, and stores new targets in the background.
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

    /// Approves a pending server, and starts it if its entry says so. Fails if `digest` is not the
    /// digest of the pending entry any more. Replaces the references in the entry. If that fails, the
    /// server stays pending. Returns the server and the approved entry.
    pub fn approve(
        self: &Arc<Self>,
        name: &str,
        digest: Option<String>,
    ) -> Changing<(Arc<ServerHandle>, Arc<Runtime>)> {
        let (this, server) = (Arc::clone(self), self.server(name));
        self.run_to_end(async move {
            let server = server?;
            let name = &server.name;
            let pending = match this.standing(name) {
                ServerStanding::Pending(runtime) => with_digest(&runtime, digest.as_deref())?,
                ServerStanding::Configured | ServerStanding::Ephemeral(_) => {
                    return Err(not_pending(name));
                }
            };
            let entry = (*pending.entry).clone();
            let approved = this.read_entry(name.as_str(), entry, Approval::Given);
            let approved = Arc::new(approved.await?.runtime);
            let mut desired = this.open_desired().await?;
            match desired.overlay.change(name) {
                // Check again: a client may have replaced the entry since.
                Some(RuntimeChange::Entry(now)) if now.approval == Approval::Pending => {
                    with_digest(now, digest.as_deref())?;
                }
                _ => return Err(not_pending(name)),
            }
            let change = RuntimeChange::Entry(Arc::clone(&approved));
            let server = this
                .apply_change(&mut desired, name, change, OnDuplicate::Replace)
                .await?;
            Ok((server, approved))
        })
    }
}

/// The pending server. Fails if its digest is not `digest`.
fn with_digest(pending: &Arc<Runtime>, digest: Option<&str>) -> Result<Arc<Runtime>, Failure> {
    let name = &pending.config.name;
    let message = match digest {
        Some(digest) if digest == pending.digest() => return Ok(Arc::clone(pending)),
        Some(_) => format!("Server '{name}' is not what was shown; look again"),
        None => format!("Server '{name}' is approved with the digest of what is shown of it"),
    };
    Err(Failure::new(FailureKind::NotAsShown, message).with_server(name))
}

fn not_pending(name: &ServerName) -> Failure {
    let message = format!("Server '{name}' waits for no approval");
    Failure::new(FailureKind::NotPending, message).with_server(name)
}
