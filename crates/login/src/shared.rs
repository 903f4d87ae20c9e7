//! State that all keepers of a Mainstay share.

use std::{collections::VecDeque, pin::Pin, sync::Arc, time::SystemTime};

use mainstay_core::ids::ServerName;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    discovery::IssuerMetadata, server::LoginServer, store::LoginStore, web::Web,
    web_client::WebSource,
};

pub(crate) type LoginClock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// A change of Mainstay's own login to a server. The sessions of the server must react to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginChange {
    pub server: ServerName,
    pub kind: LoginChangeKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginChangeKind {
    LoggedIn,
    LoggedOut,
    /// The login has ended by itself: its grant was revoked or has expired.
    Ended,
}

/// State that all keepers share.
pub(crate) struct Shared {
    pub store: LoginStore,
    pub web_source: Arc<dyn WebSource>,
    pub clock: LoginClock,
    /// Changes that were not taken yet, without duplicates.
    pub changes: Mutex<VecDeque<LoginChange>>,
    pub has_changes: Notify,
    pub wakes_ticker: Notify,
    pub tasks: TaskTracker,
    pub stop: CancellationToken,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    pub fn now(&self) -> SystemTime {
        (self.clock)()
    }

    pub fn web(&self, server: &LoginServer) -> Arc<dyn Web> {
        self.web_source.web(server)
    }

    /// Runs a task to its end, even if the daemon stops meanwhile. After the stop, drops the task and returns `false`.
    pub fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) -> bool {
        let is_open = !self.tasks.is_closed();
        if is_open {
            self.tasks.spawn(task);
        }
        is_open
    }

    /// Removes the registration of a login's client, so that the next login registers a new client. `registered_for`
    /// is the client's redirect URL. Does nothing for a client that Mainstay did not register.
    pub async fn forget_registration(
        &self,
        server: &LoginServer,
        issuer: &IssuerMetadata,
        registered_for: Option<&str>,
    ) {
        let Some(redirect) = registered_for else {
            return;
        };
        let owner = server.client.as_ref();
        let removed = self
            .store
            .remove_registration(&issuer.issuer, redirect, owner);
        if let Err(error) = removed.await {
            tracing::warn!(%error, "the registration cannot be removed");
        }
    }

    pub fn wake(&self) {
        self.wakes_ticker.notify_one();
    }

    pub fn publish(&self, change: LoginChange) {
        let mut changes = self.changes.lock();
        if !changes.contains(&change) {
            changes.push_back(change);
        }
        drop(changes);
        self.has_changes.notify_one();
    }
}
