//! All logins of a Mainstay: their keepers, the ticks of their refreshes, and logouts.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use mainstay_core::ids::ServerName;
use mainstay_platform::vault::Vault;
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    grants::TokenEndpoint,
    keeper::LoginKeeper,
    server::LoginServer,
    shared::{Clock, LoginChange, Shared},
    source::LoginSource,
    store::{LoginStore, StoreError},
    web_client::WebSource,
};

/// Longest time between two looks at the clock. A machine that was asleep refreshes its tokens within this time.
const TICK: Duration = Duration::from_secs(30);

/// Shortest time between two ticks.
const SHORTEST_TICK: Duration = Duration::from_millis(100);

/// Time that refreshes have to end at a stop, so that no rotated token is lost: that of a request.
const STOP_LIMIT: Duration = Duration::from_secs(16);

/// Time limit for the revocation of a token at a logout.
const REVOKE_LIMIT: Duration = Duration::from_secs(10);

/// The consequence of a logout for the authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// The tokens are not valid any more.
    Revoked,
    /// The authorization server has no endpoint for revocations. The tokens stay valid there until they expire.
    Unsupported,
    /// There was no login.
    NoLogin,
    Failed(String),
}

/// All logins. Ends its tasks at [`Self::stop`].
#[derive(Debug)]
pub struct Logins {
    pub(crate) shared: Arc<Shared>,
    /// Keepers by the entries of their logins.
    keepers: Mutex<BTreeMap<String, Arc<LoginKeeper>>>,
}

impl Logins {
    pub fn new(vault: Arc<Vault>, web_source: Arc<dyn WebSource>) -> Self {
        Self::with_clock(vault, web_source, Arc::new(SystemTime::now))
    }

    pub fn with_clock(vault: Arc<Vault>, web_source: Arc<dyn WebSource>, clock: Clock) -> Self {
        Self {
            shared: Arc::new(Shared {
                store: LoginStore::new(vault),
                web_source,
                clock,
                pending: Mutex::default(),
                redeeming: Mutex::default(),
                devices: Mutex::default(),
                changes: Mutex::default(),
                has_changes: Notify::new(),
                ports: Mutex::default(),
                wakes_ticker: Notify::new(),
                tasks: TaskTracker::new(),
                stop: CancellationToken::new(),
            }),
            keepers: Mutex::default(),
        }
    }

    /// The keeper of the login that all clients share.
    pub fn keeper(&self, server: &LoginServer) -> Arc<LoginKeeper> {
        let entry = server.name.to_string();
        let mut keepers = self.keepers.lock();
        let keeper = keepers.entry(entry.clone()).or_insert_with(|| {
            let shared = Arc::clone(&self.shared);
            Arc::new(LoginKeeper::new(entry, server.clone(), shared))
        });
        let keeper = Arc::clone(keeper);
        drop(keepers);
        keeper.set_server(server.clone());
        keeper
    }

    pub fn source(&self, server: &LoginServer) -> LoginSource {
        LoginSource::new(self.keeper(server))
    }

    /// True if a person has to log in to this server: it has refused a request for want of a login, or the login has
    /// ended.
    pub fn needs_login(&self, server: &LoginServer) -> bool {
        let keepers = self.keepers.lock();
        let keeper = keepers.get(server.name.as_str());
        keeper.is_some_and(|keeper| keeper.needs_person())
    }

    /// Takes the next change. Must be cancel-safe.
    pub async fn next_change(&self) -> LoginChange {
        loop {
            let change = self.shared.changes.lock().pop_front();
            if let Some(change) = change {
                return change;
            }
            self.shared.has_changes.notified().await;
        }
    }

    /// Refreshes tokens whose time has come, until the stop. Keepers of servers that are not configured any more are
    /// dropped.
    pub async fn run(&self, is_configured: impl Fn(&ServerName) -> bool) {
        loop {
            let now = self.shared.now();
            let keepers: Vec<_> = {
                let mut keepers = self.keepers.lock();
                keepers.retain(|_, keeper| is_configured(&keeper.server().name));
                keepers.values().cloned().collect()
            };
            let next = keepers
                .iter()
                .filter_map(|keeper| keeper.tick(now))
                .min()
                .and_then(|time| time.duration_since(now).ok());
            let pause = next.unwrap_or(TICK).clamp(SHORTEST_TICK, TICK);
            tokio::select! {
                () = self.shared.stop.cancelled() => return,
                () = self.shared.wakes_ticker.notified() => {
                    // Many requests may wake the ticker at the same time.
                    sleep(SHORTEST_TICK).await;
                }
                () = sleep(pause) => {}
            }
        }
    }

    /// Ends all tasks. Refreshes have a few seconds to save their tokens.
    pub async fn stop(&self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        if timeout(STOP_LIMIT, self.shared.tasks.wait()).await.is_err() {
            tracing::warn!("a login was still being refreshed when Mainstay ended");
        }
    }

    /// Gives up the login of this server that has begun. `false` if there is none.
    pub fn cancel(&self, server: &LoginServer) -> bool {
        let entry = self.keeper(server).entry.clone();
        let is_cancelled = self.shared.pending.lock().cancel(&entry, self.shared.now());
        let device = self.shared.devices.lock().remove(&entry);
        if let Some(device) = &device {
            device.cancel();
        }
        is_cancelled || device.is_some()
    }

    /// Forgets the login of a server and its registration, and revokes the tokens where that is possible.
    pub async fn log_out(&self, server: &LoginServer) -> Result<Revocation, StoreError> {
        let keeper = self.keeper(server);
        self.cancel(server);
        keeper.loaded().await;
        let lock = self.shared.store.lock_login(&keeper.entry).await;
        let login = keeper.log_out();
        let is_removed = self.shared.store.remove_login(&keeper.entry).await;
        drop(lock);
        self.shared
            .publish(LoginChange::LoggedOut(server.name.clone()));
        let Some(login) = login else {
            is_removed?;
            return Ok(Revocation::NoLogin);
        };
        self.shared
            .forget_registration(&login.issuer, login.registered_for.as_deref())
            .await;
        let web = self.shared.web(server);
        let endpoint = TokenEndpoint {
            web: web.as_ref(),
            issuer: &login.issuer,
            client: &server.client_of(&login),
            private_key: server.oauth.private_key.as_ref(),
            resource: &login.resource,
            now: self.shared.now(),
        };
        let token = login
            .tokens
            .refresh
            .as_ref()
            .unwrap_or(&login.tokens.access);
        let revocation = timeout(REVOKE_LIMIT, endpoint.revoke(token)).await;
        is_removed?;
        Ok(match revocation {
            Ok(Ok(true)) => Revocation::Revoked,
            Ok(Ok(false)) => Revocation::Unsupported,
            Ok(Err(error)) => Revocation::Failed(error.to_string()),
            Err(_) => Revocation::Failed("the authorization server does not answer".to_owned()),
        })
    }
}
