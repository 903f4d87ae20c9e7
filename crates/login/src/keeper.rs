//! The owner of one login: its state, its tasks and its report. `source` passes its token to requests, and `refresh`
//! renews it.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwapOption;
use mainstay_core::config::{Grant, Secret};
use mainstay_transport::HeaderLines;
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

use crate::{
    challenge::Challenge,
    report::{LoginReport, LoginState},
    scopes::Scopes,
    server::LoginServer,
    shared::{LoginChange, LoginChangeKind, Shared},
    store::StoreError,
    stored::StoredLogin,
    upkeep::{LoginUpkeep, NextToken, RefreshReport},
};

/// Maximum time that a request waits for a token.
pub(crate) const WAIT_LIMIT: Duration = Duration::from_secs(10);

/// The owner of one login.
#[derive(Debug)]
pub struct LoginKeeper {
    /// The name of the login in the vault.
    pub entry: String,
    pub(crate) shared: Arc<Shared>,
    pub(crate) state: Mutex<KeeperState>,
    /// The header lines of the current token, if it can be used at once.
    pub(crate) ready: ArcSwapOption<ReadyToken>,
    /// Marked as changed after each change of the state.
    pub(crate) changed: watch::Sender<()>,
    /// Held while a login is offered to calls.
    pub(crate) offering: tokio::sync::Mutex<()>,
    /// A number from 0 to 1 that spreads the refreshes of many logins.
    jitter: f64,
}

/// Header lines that requests take without locking the state.
#[derive(Debug)]
pub(crate) struct ReadyToken {
    pub lines: HeaderLines,
    pub expires_at: Option<SystemTime>,
}

#[derive(Debug)]
pub(crate) struct KeeperState {
    pub server: LoginServer,
    pub upkeep: LoginUpkeep,
    pub is_loaded: bool,
    /// The last failure to read the stored login.
    pub load_failure: Option<VaultFailure>,
    /// Time at which the vault was last checked for a login of another process.
    looked_at: Option<SystemTime>,
    /// True while a task loads or refreshes the login.
    is_busy: bool,
    /// The challenge of the server's last refusal.
    pub challenge: Option<Challenge>,
    /// Scopes that the server has requested and the login lacks.
    pub missing_scopes: Scopes,
    /// True if the server has refused a request because a login is missing.
    pub is_required: bool,
    /// The last failure to write the login. While it is set, the newest tokens are not on the disk.
    pub save_failure: Option<VaultFailure>,
    /// The reason that the last login attempt of a person failed.
    login_error: Option<String>,
}

/// A failure to read or write the vault. The next attempt follows after [`VAULT_PAUSE`].
#[derive(Debug)]
pub(crate) struct VaultFailure {
    time: SystemTime,
    pub reason: String,
}

impl VaultFailure {
    pub fn new(error: &StoreError, time: SystemTime) -> Self {
        let reason = error.to_string();
        Self { time, reason }
    }

    pub fn is_recent(&self, now: SystemTime) -> bool {
        is_recent(self.time, now)
    }
}

/// The URL of the entry has changed since the login began. The tokens are not valid for the new server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the entry of the server has another URL now; begin the login again")]
pub struct OtherServer;

impl LoginKeeper {
    pub(crate) fn new(entry: String, server: LoginServer, shared: Arc<Shared>) -> Self {
        let grant = server.grant();
        Self {
            entry,
            shared,
            state: Mutex::new(KeeperState {
                upkeep: LoginUpkeep::new(grant, None),
                server,
                is_loaded: false,
                load_failure: None,
                looked_at: None,
                is_busy: false,
                challenge: None,
                missing_scopes: Scopes::default(),
                is_required: false,
                save_failure: None,
                login_error: None,
            }),
            ready: ArcSwapOption::empty(),
            changed: watch::Sender::new(()),
            offering: tokio::sync::Mutex::default(),
            jitter: random_share(),
        }
    }

    pub fn server(&self) -> LoginServer {
        self.state.lock().server.clone()
    }

    pub fn challenge(&self) -> Option<Challenge> {
        self.state.lock().challenge.clone()
    }

    pub fn login(&self) -> Option<StoredLogin> {
        self.state.lock().upkeep.login().cloned()
    }

    /// The scopes of the current login, and those that the server has requested since.
    pub fn scopes_for_next_login(&self) -> Scopes {
        let state = self.state.lock();
        let requested = state.upkeep.login().map(|login| &login.requested_scopes);
        requested
            .cloned()
            .unwrap_or_default()
            .union(&state.missing_scopes)
    }

    /// Applies the settings of an entry. A login for another URL is dropped.
    pub(crate) fn set_server(&self, server: LoginServer) {
        let mut state = self.state.lock();
        if state.server == server {
            return;
        }
        let login = state.upkeep.login().cloned();
        let login = login.filter(|login| login.server_url == server.url.as_str());
        state.upkeep = LoginUpkeep::new(server.grant(), login);
        state.server = server;
        // Another login may be stored for the new settings.
        state.is_loaded = state.upkeep.login().is_some();
        drop(state);
        self.notify();
    }

    /// Waits for a login that requests can use.
    pub async fn logged_in(&self) {
        let mut changed = self.changed.subscribe();
        loop {
            changed.borrow_and_update();
            {
                let state = self.state.lock();
                if state.upkeep.login().is_some() && !state.needs_person() {
                    return;
                }
            }
            if changed.changed().await.is_err() {
                return;
            }
        }
    }

    /// Publishes a change of Mainstay's own login. A change of a client's login is not published, because the
    /// sessions of that client notice it themselves.
    pub(crate) fn publish(&self, kind: LoginChangeKind) {
        let LoginServer { name, client, .. } = self.server();
        if client.is_none() {
            self.shared.publish(LoginChange { server: name, kind });
        }
    }

    /// Publishes the token and wakes all waiters after a change of the state.
    fn notify(&self) {
        self.ready
            .store(self.state.lock().ready_token(self.shared.now()));
        self.changed.send_replace(());
        self.shared.wake();
    }

    /// Starts the task that loads or refreshes the login, unless it is running. Returns `false` after the stop, when
    /// no task can get a token any more.
    pub(crate) fn start_task(self: &Arc<Self>) -> bool {
        if std::mem::replace(&mut self.state.lock().is_busy, true) {
            return true;
        }
        let task = KeeperTask(Arc::clone(self));
        self.shared
            .spawn(Box::pin(async move { task.0.run_task().await }))
    }

    async fn run_task(self: &Arc<Self>) {
        self.load().await;
        // Publish the stored token before a refresh: it may still be valid, so that no request waits.
        self.notify();
        let now = self.shared.now();
        let is_due = {
            let state = self.state.lock();
            let is_retry_due =
                |retry_at: Option<SystemTime>| retry_at.is_none_or(|time| time <= now);
            match state.upkeep.next_token(now) {
                NextToken::AfterRefresh(retry_at) => is_retry_due(retry_at),
                NextToken::Ready(_) => {
                    let refresh_at = state.upkeep.refresh_at(self.jitter);
                    refresh_at.is_some_and(|time| time <= now)
                }
                NextToken::NoLogin | NextToken::Ended(_) => false,
            }
        };
        if is_due {
            self.refresh().await;
        }
    }

    /// Reads the stored login, once.
    async fn load(&self) {
        if self.state.lock().is_loaded {
            return;
        }
        let stored = self.shared.store.login(&self.entry).await;
        let mut state = self.state.lock();
        if state.is_loaded {
            // A person has logged in or out meanwhile.
            return;
        }
        match stored {
            Ok(stored) => {
                state.is_loaded = true;
                state.load_failure = None;
                let stored = stored.filter(|login| login.server_url == state.server.url.as_str());
                if let Some(login) = stored {
                    state.upkeep.replace(login);
                }
            }
            Err(error) => {
                tracing::warn!(server = %state.server.name, %error, "the stored login cannot be read");
                state.load_failure = Some(VaultFailure::new(&error, self.shared.now()));
            }
        }
    }

    /// Takes a login that another process has stored, if this keeper has none or its login has ended.
    async fn look_for_login(&self) {
        let before = self.login();
        let Ok(Some(stored)) = self.shared.store.login(&self.entry).await else {
            return;
        };
        {
            let mut state = self.state.lock();
            let is_usable = stored.server_url == state.server.url.as_str()
                && stored.ended.is_none()
                && before.is_none_or(|before| before.tokens.access != stored.tokens.access);
            if !is_usable || !state.is_idle() {
                return;
            }
            state.upkeep.replace(stored);
            state.is_required = false;
        }
        self.notify();
        self.publish(LoginChangeKind::LoggedIn);
    }

    /// Refreshes a token that is due, and retries a failed save. Returns the time of the next refresh.
    pub(crate) fn tick(self: &Arc<Self>, now: SystemTime) -> Option<SystemTime> {
        let (refresh_at, is_time_to_save) = {
            let state = self.state.lock();
            let failure = state.save_failure.as_ref();
            (
                state.upkeep.refresh_at(self.jitter),
                failure.is_some_and(|failure| !failure.is_recent(now)),
            )
        };
        if refresh_at.is_some_and(|time| time <= now) {
            self.start_task();
            return None;
        }
        if self.state.lock().is_time_to_look(now) {
            let keeper = Arc::clone(self);
            self.shared
                .spawn(Box::pin(async move { keeper.look_for_login().await }));
        }
        if is_time_to_save {
            let keeper = Arc::clone(self);
            self.shared
                .spawn(Box::pin(async move { keeper.save().await }));
        }
        refresh_at
    }

    /// Applies and saves the login of a person.
    pub(crate) async fn log_in(&self, login: StoredLogin) -> Result<(), OtherServer> {
        // Without the lock, a refresh of another process could write its older tokens over this login.
        let lock = self.shared.store.lock_login(&self.entry).await;
        {
            let mut state = self.state.lock();
            if state.server.url.as_str() != login.server_url {
                return Err(OtherServer);
            }
            state.upkeep.replace(login);
            (state.is_loaded, state.is_required) = (true, false);
            state.missing_scopes = Scopes::default();
            state.login_error = None;
        }
        self.save().await;
        drop(lock);
        self.notify();
        self.publish(LoginChangeKind::LoggedIn);
        Ok(())
    }

    /// Sets the reason that the last login attempt of a person failed. `None` when a new attempt begins.
    pub(crate) fn set_login_error(&self, reason: Option<String>) {
        self.state.lock().login_error = reason;
        self.notify();
    }

    /// Removes the login. Returns it, so that its tokens can be revoked.
    pub(crate) fn log_out(&self) -> Option<StoredLogin> {
        let login = {
            let mut state = self.state.lock();
            let login = state.upkeep.login().cloned();
            state.upkeep.log_out();
            state.is_loaded = true;
            (state.save_failure, state.login_error) = (None, None);
            state.missing_scopes = Scopes::default();
            login
        };
        self.notify();
        login
    }

    /// Loads the login unless it is loaded, and waits for that.
    pub async fn loaded(self: &Arc<Self>) {
        let mut changed = self.changed.subscribe();
        let deadline = Instant::now() + WAIT_LIMIT;
        while self.is_unread() {
            let is_started = self.start_task();
            if !is_started || timeout_at(deadline, changed.changed()).await.is_err() {
                return;
            }
        }
    }

    /// True if the stored login is not read yet, and no attempt failed recently.
    fn is_unread(&self) -> bool {
        let now = self.shared.now();
        let state = self.state.lock();
        let has_failed = state
            .load_failure
            .as_ref()
            .is_some_and(|failure| failure.is_recent(now));
        !state.is_loaded && !has_failed
    }

    /// True if the newest tokens are not on the disk.
    pub(crate) fn is_unsaved(&self) -> bool {
        self.state.lock().save_failure.is_some()
    }

    pub(crate) fn needs_person(&self) -> bool {
        self.state.lock().needs_person()
    }

    pub(crate) fn report(&self, is_pending: bool) -> LoginReport {
        let now = self.shared.now();
        let state = self.state.lock();
        let login = state.upkeep.login();
        let tokens = login.map(|login| &login.tokens);
        LoginReport {
            server: state.server.name.clone(),
            client: state.server.client.clone(),
            state: match (state.upkeep.end(), tokens) {
                (Some(reason), _) => LoginState::Ended(reason.to_owned()),
                (None, None) => LoginState::LoggedOut,
                (None, Some(tokens)) if tokens.has_expired(now) => LoginState::Expired,
                (None, Some(_)) => LoginState::LoggedIn,
            },
            is_required: state.is_required,
            is_pending,
            grant: state.server.grant(),
            issuer: login.map(|login| login.issuer.issuer.clone()),
            client_id: login.map(|login| login.client.id.clone()),
            scopes: tokens
                .map(|tokens| tokens.scopes.clone())
                .unwrap_or_default(),
            missing_scopes: state.missing_scopes.clone(),
            logged_in_at: login.map(|login| login.logged_in_at),
            token_expires_at: tokens.and_then(|tokens| tokens.expires_at),
            is_renewable: state.server.grant() == Grant::ClientCredentials
                || tokens.is_some_and(|tokens| tokens.refresh.is_some()),
            last_refresh: state.upkeep.last_refresh().cloned().or_else(|| {
                let login = login.filter(|login| login.tokens.obtained_at > login.logged_in_at);
                login.map(|login| RefreshReport {
                    at: login.tokens.obtained_at,
                    error: None,
                })
            }),
            login_error: state.login_error.clone(),
            save_error: state
                .save_failure
                .as_ref()
                .or(state.load_failure.as_ref())
                .map(|failure| failure.reason.clone()),
        }
    }
}

/// Pause between two attempts to read or to write a login in the vault.
const VAULT_PAUSE: Duration = Duration::from_secs(25);

/// True if less than [`VAULT_PAUSE`] has passed since this time. False after the clock was set back.
fn is_recent(time: SystemTime, now: SystemTime) -> bool {
    now.duration_since(time).is_ok_and(|age| age < VAULT_PAUSE)
}

/// A task of a keeper. Its drop wakes all waiting requests, even if the task panics or never runs.
struct KeeperTask(Arc<LoginKeeper>);

impl Drop for KeeperTask {
    fn drop(&mut self) {
        self.0.state.lock().is_busy = false;
        self.0.notify();
    }
}

impl KeeperState {
    /// True if no login is usable.
    fn is_idle(&self) -> bool {
        self.is_loaded && (self.upkeep.login().is_none() || self.upkeep.end().is_some())
    }

    fn needs_person(&self) -> bool {
        self.server.grant() == Grant::Person
            && (self.is_required || self.upkeep.end().is_some() || !self.missing_scopes.is_empty())
    }

    /// True if another process may have logged in since the vault was last read.
    fn is_time_to_look(&mut self, now: SystemTime) -> bool {
        let is_time = self.is_idle()
            && self.server.grant() == Grant::Person
            && !self.looked_at.is_some_and(|time| is_recent(time, now));
        if is_time {
            self.looked_at = Some(now);
        }
        is_time
    }

    /// The token that requests take without waiting. `None` without a login.
    pub fn ready_token(&self, now: SystemTime) -> Option<Arc<ReadyToken>> {
        if !self.is_loaded {
            return None;
        }
        match self.upkeep.next_token(now) {
            NextToken::Ready(token) => {
                let login = self.upkeep.login();
                Some(Arc::new(ReadyToken {
                    lines: header_lines(&token),
                    expires_at: login.and_then(|login| login.tokens.expires_at),
                }))
            }
            NextToken::NoLogin => Some(Arc::new(ReadyToken {
                lines: HeaderLines::new([]),
                expires_at: None,
            })),
            NextToken::AfterRefresh(_) | NextToken::Ended(_) => None,
        }
    }

    /// The reason with the command that fixes the problem.
    pub fn advised(&self, reason: &str) -> String {
        match self.server.grant() {
            Grant::Person => {
                let client = self.server.client.as_ref();
                let client = client.map(|client| format!(" --client {client}"));
                format!(
                    "{reason}; log in with `mainstay auth login {}{}`",
                    self.server.name,
                    client.unwrap_or_default()
                )
            }
            Grant::ClientCredentials => format!(
                "{reason}; correct `oauth` in the entry of {}, then reload",
                self.server.name
            ),
        }
    }
}

/// The header lines of a request with this token (RFC 6750, 2.1).
pub(crate) fn header_lines(token: &Secret) -> HeaderLines {
    let value = format!("Bearer {}", token.expose());
    HeaderLines::new([("authorization", value.as_str())])
}

/// A random number from 0 to 1.
pub(crate) fn random_share() -> f64 {
    let mut bytes = [0; 4];
    // Without randomness, all logins are refreshed after the same share of their lifetimes.
    let _ = getrandom::fill(&mut bytes);
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}
