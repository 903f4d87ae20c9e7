//! All logins of a Mainstay: their keepers, periodic refreshes, and logouts.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime},
};

use mainstay_core::principal::ClientName;
use mainstay_platform::vault::Vault;
use oauth2::url::Url;
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    grants::TokenEndpoint,
    keeper::LoginKeeper,
    report::LoginReport,
    server::{LoginServer, OWNER_MARK},
    shared::{LoginChange, LoginChangeKind, LoginClock, Shared},
    source::LoginSource,
    started::StartedLogins,
    store::{LoginStore, StoreError},
    web_client::WebSource,
};

/// Maximum time between two reads of the clock. After a sleep of the machine, tokens are refreshed within this time.
const TICK: Duration = Duration::from_secs(30);

/// Minimum time between two ticks.
const SHORTEST_TICK: Duration = Duration::from_millis(100);

/// Time limit of running refreshes at the stop: that of one request. A refresh that is cut off could lose a rotated
/// token.
const STOP_LIMIT: Duration = Duration::from_secs(16);

/// Time limit for the revocation of a token at a logout.
const REVOKE_LIMIT: Duration = Duration::from_secs(10);

/// The result of the revocation at a logout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// The tokens are not valid any more.
    Revoked,
    /// The authorization server has no revocation endpoint. The tokens stay valid until they expire.
    Unsupported,
    /// There was no login.
    NoLogin,
    Failed(String),
}

/// All logins. [`Self::stop`] ends their tasks.
#[derive(Debug)]
pub struct Logins {
    pub(crate) shared: Arc<Shared>,
    pub(crate) started: Arc<StartedLogins>,
    /// The default redirect URL for browsers. An entry or a request may name another one.
    callback: OnceLock<Url>,
    /// Keepers by the names of their logins in the vault.
    keepers: Mutex<BTreeMap<String, Arc<LoginKeeper>>>,
}

impl Logins {
    pub fn new(vault: Arc<Vault>, web_source: Arc<dyn WebSource>) -> Self {
        Self::with_clock(vault, web_source, Arc::new(SystemTime::now))
    }

    pub fn with_clock(
        vault: Arc<Vault>,
        web_source: Arc<dyn WebSource>,
        clock: LoginClock,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                store: LoginStore::new(vault),
                web_source,
                clock,
                changes: Mutex::default(),
                has_changes: Notify::new(),
                wakes_ticker: Notify::new(),
                tasks: TaskTracker::new(),
                stop: CancellationToken::new(),
            }),
            started: Arc::default(),
            callback: OnceLock::new(),
            keepers: Mutex::default(),
        }
    }

    /// Sets the default redirect URL. Only the first call has an effect.
    pub fn set_callback(&self, callback: Url) {
        // The daemon has a second listener, whose URL is not used.
        drop(self.callback.set(callback));
    }

    pub fn callback(&self) -> Option<&Url> {
        self.callback.get()
    }

    pub fn keeper(&self, server: &LoginServer) -> Arc<LoginKeeper> {
        let entry = server.entry();
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

    /// True if a person must log in to this server: it has refused a request because a login is missing, or the
    /// login has ended.
    pub fn needs_login(&self, server: &LoginServer) -> bool {
        let keepers = self.keepers.lock();
        let keeper = keepers.get(&server.entry());
        keeper.is_some_and(|keeper| keeper.needs_person())
    }

    /// The state of a login, after it was loaded.
    pub async fn report(&self, server: &LoginServer) -> LoginReport {
        let keeper = self.keeper(server);
        keeper.loaded().await;
        let is_pending = self.started.is_pending(&keeper.entry, self.shared.now());
        keeper.report(is_pending)
    }

    /// The clients that have their own logins or need one, by server name.
    pub async fn clients(&self) -> Result<HashMap<String, BTreeSet<String>>, StoreError> {
        let mut clients: HashMap<String, BTreeSet<String>> = HashMap::new();
        let stored = self.shared.store.login_entries().await?;
        let needed: Vec<String> = {
            let keepers = self.keepers.lock();
            let needed = keepers.iter().filter(|(_, keeper)| keeper.needs_person());
            needed.map(|(entry, _)| entry.clone()).collect()
        };
        for entry in stored.iter().chain(&needed) {
            if let Some((server, client)) = entry.split_once(OWNER_MARK) {
                let of_server = clients.entry(server.to_owned()).or_default();
                of_server.insert(client.to_owned());
            }
        }
        Ok(clients)
    }

    /// Waits for the next change and takes it. Cancel-safe: a dropped future loses no change.
    pub async fn next_change(&self) -> LoginChange {
        loop {
            let change = self.shared.changes.lock().pop_front();
            if let Some(change) = change {
                return change;
            }
            self.shared.has_changes.notified().await;
        }
    }

    /// Refreshes tokens that are due, until the stop. Drops the keepers of servers that are no longer configured.
    pub async fn run(&self, is_configured: impl Fn(&LoginServer) -> bool) {
        loop {
            let now = self.shared.now();
            let keepers: Vec<_> = {
                let mut keepers = self.keepers.lock();
                keepers.retain(|_, keeper| is_configured(&keeper.server()));
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

    /// Stops all tasks. Running refreshes have a few seconds to save their tokens.
    pub async fn stop(&self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        if timeout(STOP_LIMIT, self.shared.tasks.wait()).await.is_err() {
            tracing::warn!("a login was still being refreshed when Mainstay ended");
        }
        let keepers: Vec<_> = self.keepers.lock().values().cloned().collect();
        for keeper in keepers.iter().filter(|keeper| keeper.is_unsaved()) {
            keeper.save().await;
        }
    }

    /// Cancels a started login to this server. Returns `false` if there is none.
    pub fn cancel(&self, server: &LoginServer) -> bool {
        self.started.cancel(&server.entry(), self.shared.now())
    }

    /// Removes the logins of all clients that are not in this list, so that a later client with the same name does
    /// not get them.
    pub async fn keep_clients(&self, clients: &[ClientName]) -> Result<(), StoreError> {
        for entry in self.shared.store.login_entries().await? {
            let owner = entry.split_once(OWNER_MARK).map(|(_, client)| client);
            let is_orphan =
                owner.is_some_and(|owner| clients.iter().all(|client| client.as_str() != owner));
            if !is_orphan {
                continue;
            }
            let keeper = self.keepers.lock().get(&entry).cloned();
            match keeper {
                Some(keeper) => drop(self.log_out(&keeper.server()).await?),
                None => drop(self.shared.store.remove_login(&entry).await?),
            }
            self.keepers.lock().remove(&entry);
            tracing::info!(
                login = entry,
                "forgotten, because its client has no token any more"
            );
        }
        Ok(())
    }

    /// Removes the login of a server and its registration, and revokes the tokens if possible.
    pub async fn log_out(&self, server: &LoginServer) -> Result<Revocation, StoreError> {
        let keeper = self.keeper(server);
        self.cancel(server);
        keeper.loaded().await;
        let lock = self.shared.store.lock_login(&keeper.entry).await;
        let login = keeper.log_out();
        let is_removed = self.shared.store.remove_login(&keeper.entry).await;
        drop(lock);
        keeper.publish(LoginChangeKind::LoggedOut);
        let Some(login) = login else {
            is_removed?;
            return Ok(Revocation::NoLogin);
        };
        self.shared
            .forget_registration(server, &login.issuer, login.registered_for.as_deref())
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
