//! The parts that all keepers of a Mainstay share.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    pin::Pin,
    sync::Arc,
    time::SystemTime,
};

use mainstay_core::ids::ServerName;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    discovery::IssuerMetadata, flow::PendingLogins, person::PendingContext, server::LoginServer,
    store::LoginStore, web::Web, web_client::WebSource,
};

pub(crate) type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// A change that sessions of a server have to notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginChange {
    LoggedIn(ServerName),
    LoggedOut(ServerName),
    /// The login has ended without a person: its grant was revoked or has expired.
    Ended(ServerName),
}

impl LoginChange {
    pub fn server(&self) -> &ServerName {
        match self {
            Self::LoggedIn(server) | Self::LoggedOut(server) | Self::Ended(server) => server,
        }
    }
}

/// The parts that all keepers share.
pub(crate) struct Shared {
    pub store: LoginStore,
    pub web_source: Arc<dyn WebSource>,
    pub clock: Clock,
    pub pending: Mutex<PendingLogins<PendingContext>>,
    /// Entries whose codes are being redeemed.
    pub redeeming: Mutex<BTreeSet<String>>,
    /// Logins on other devices that have begun, by the entries of the logins.
    pub devices: Mutex<HashMap<String, CancellationToken>>,
    /// Changes that nobody has taken yet, each once.
    pub changes: Mutex<VecDeque<LoginChange>>,
    pub has_changes: Notify,
    /// Ports at which browsers are received.
    pub ports: Mutex<BTreeSet<u16>>,
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

    /// Runs a task to its end, even if the daemon stops meanwhile. Returns `false` after the stop, and drops the task.
    pub fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) -> bool {
        let is_open = !self.tasks.is_closed();
        if is_open {
            self.tasks.spawn(task);
        }
        is_open
    }

    /// Removes the registration of a client for a redirect address, so that the next login registers another one.
    /// Does nothing for a client that Mainstay has not registered.
    pub async fn forget_registration(&self, issuer: &IssuerMetadata, redirect: Option<&str>) {
        let Some(redirect) = redirect else {
            return;
        };
        let removed = self.store.remove_registration(&issuer.issuer, redirect);
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

    pub fn is_pending(&self, entry: &str) -> bool {
        let is_in_browser = self.pending.lock().is_pending(entry, self.now());
        is_in_browser
            || self.redeeming.lock().contains(entry)
            || self.devices.lock().contains_key(entry)
    }
}
