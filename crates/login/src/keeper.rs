//! Owns one login: hands out its token, refreshes it, and saves what a refresh brings. A refresh runs in a task of
//! its own, so that a call that is given up never loses a rotated token.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwapOption;
use mainstay_core::config::{Grant, Secret};
use mainstay_transport::{
    CredentialSource, HeaderLines, NoCredentials, RefusedCredentials, RenewedLines,
};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

use crate::{
    challenge::Challenge,
    find::Finder,
    grants::{GrantError, TokenEndpoint},
    identity::{IdentityChoice, choose_identity},
    logins::{LoginChange, Shared},
    report::{LoginReport, LoginState},
    scopes::Scopes,
    server::LoginServer,
    stored::StoredLogin,
    upkeep::{AfterRefresh, AfterRefusal, LoginUpkeep, NextToken},
};

/// Time that a request waits for a token.
const WAIT_LIMIT: Duration = Duration::from_secs(10);

/// The owner of one login.
#[derive(Debug)]
pub struct LoginKeeper {
    /// The name of the login in the vault.
    pub entry: String,
    shared: Arc<Shared>,
    state: Mutex<KeeperState>,
    /// The lines of the present token, if it can be used at once.
    ready: ArcSwapOption<ReadyToken>,
    /// Marked as changed after each change of the state.
    changed: watch::Sender<()>,
    /// Spreads the refreshes of many logins: a number from 0 to 1.
    jitter: f64,
}

/// Lines that every request takes.
#[derive(Debug)]
struct ReadyToken {
    lines: HeaderLines,
    expires_at: Option<SystemTime>,
}

#[derive(Debug)]
struct KeeperState {
    server: LoginServer,
    upkeep: LoginUpkeep,
    is_loaded: bool,
    /// The time and the reason of the last failure to read the stored login.
    load_failure: Option<(SystemTime, String)>,
    /// Time at which the vault was last read for a login of another process.
    looked_at: Option<SystemTime>,
    /// True while a task loads or refreshes the login.
    is_busy: bool,
    /// The challenge of the server's last refusal.
    challenge: Option<Challenge>,
    /// Scopes that the server asked for and the login lacks.
    missing_scopes: Scopes,
    /// True if the server has refused a request for want of a login.
    is_required: bool,
    /// The reason that the newest tokens are not on the disk.
    save_error: Option<String>,
    /// The reason that the last login of a person failed.
    login_error: Option<String>,
}

/// The entry has got another URL since the login was begun. The tokens are not for that server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the entry of the server has another URL now; begin the login again")]
pub struct OtherServer;

/// The next step of a request.
enum RequestStep {
    Send(Secret),
    Fail(NoCredentials),
    /// Wait for a task, at most until this time.
    Wait(Option<SystemTime>),
}

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
                save_error: None,
                login_error: None,
            }),
            ready: ArcSwapOption::empty(),
            changed: watch::Sender::new(()),
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

    /// Scopes of the present login, and those that the server has asked for since.
    pub fn scopes_for_next_login(&self) -> Scopes {
        let state = self.state.lock();
        let requested = state.upkeep.login().map(|login| &login.requested_scopes);
        requested
            .cloned()
            .unwrap_or_default()
            .union(&state.missing_scopes)
    }

    /// Takes the settings of an entry. A login for other settings does not count.
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

    /// Publishes the state after a change.
    fn notify(&self) {
        self.ready
            .store(self.state.lock().ready_token(self.shared.now()));
        self.changed.send_replace(());
        self.shared.wake();
    }

    /// Starts the task that loads the login or refreshes it, unless a task runs.
    fn start_task(self: &Arc<Self>) {
        if std::mem::replace(&mut self.state.lock().is_busy, true) {
            return;
        }
        let task = KeeperTask(Arc::clone(self));
        self.shared
            .spawn(Box::pin(async move { task.0.run_task().await }));
    }

    async fn run_task(self: &Arc<Self>) {
        self.load().await;
        // A token that is due for a refresh may still be good: no request waits for the refresh.
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
                state.load_failure = Some((self.shared.now(), error.to_string()));
            }
        }
    }

    /// Takes a login that another process has stored, where there is none or where it has ended.
    async fn look_for_login(&self) {
        let before = self.login();
        let Ok(Some(stored)) = self.shared.store.login(&self.entry).await else {
            return;
        };
        let name = {
            let mut state = self.state.lock();
            let is_usable = stored.server_url == state.server.url.as_str()
                && stored.ended.is_none()
                && before.is_none_or(|before| before.tokens.access != stored.tokens.access);
            if !is_usable || !state.is_idle() {
                return;
            }
            state.upkeep.replace(stored);
            state.is_required = false;
            state.server.name.clone()
        };
        self.notify();
        self.shared.publish(LoginChange::LoggedIn(name));
    }

    /// Refreshes the login, in turn with other processes that share the vault.
    async fn refresh(&self) {
        let (server, before) = {
            let state = self.state.lock();
            (state.server.clone(), state.upkeep.login().cloned())
        };
        // A vault that cannot be written to must not end a login that works.
        let lock = self.shared.store.lock_login(&self.entry).await;
        if let Err(error) = &lock
            && error.is_locked
        {
            // The other process may have used the refresh token already.
            let error = GrantError::Unavailable {
                reason: error.to_string(),
                is_sent: false,
            };
            let now = self.shared.now();
            let mut state = self.state.lock();
            state.upkeep.handle_refresh(Err(error), now, random_share());
            return;
        }
        if let Ok(stored) = self.shared.store.login(&self.entry).await {
            let stored = stored.filter(|login| login.server_url == server.url.as_str());
            let is_saved = self.state.lock().save_error.is_none();
            match (stored, &before) {
                (Some(stored), Some(before))
                    if is_saved
                        && (stored.tokens.access != before.tokens.access
                            || stored.ended.is_some()) =>
                {
                    // Another process has refreshed the login, or has met its end.
                    self.state.lock().upkeep.replace(stored);
                    return;
                }
                (Some(stored), None) => {
                    self.state.lock().upkeep.replace(stored);
                    return;
                }
                (None, Some(_)) if server.grant() == Grant::Person && is_saved => {
                    // Another process has logged out.
                    self.state.lock().upkeep.log_out();
                    return;
                }
                _ => {}
            }
        }
        let answer = match (server.grant(), &before) {
            (Grant::Person, Some(login)) => self.refreshed(&server, login).await,
            (Grant::Person, None) => return,
            (Grant::ClientCredentials, login) => self.machine_login(&server, login.as_ref()).await,
        };
        let now = self.shared.now();
        let after = {
            let mut state = self.state.lock();
            if state.server.url != server.url {
                // The tokens are for the server at the former URL of the entry.
                return;
            }
            state.upkeep.handle_refresh(answer, now, random_share())
        };
        let name = &server.name;
        match after {
            AfterRefresh::Save => {
                self.save().await;
                tracing::debug!(server = %name, "the token was refreshed");
            }
            AfterRefresh::Retry(_) => {
                let state = self.state.lock();
                let report = state.upkeep.last_refresh();
                let error = report.and_then(|report| report.error.clone());
                drop(state);
                let error = error.unwrap_or_default();
                tracing::warn!(server = %name, %error, "the token could not be refreshed and is tried again");
            }
            AfterRefresh::Ended(reason) => {
                tracing::warn!(server = %name, %reason, "the login has ended");
                self.save().await;
                if reason.contains("invalid_client")
                    && let Some(login) = before
                {
                    // The authorization server has forgotten the client.
                    self.shared.forget_registration(&login).await;
                }
                self.shared.publish(LoginChange::Ended(name.clone()));
            }
        }
    }

    /// Saves the present login. A failure is kept for the report, and saving is tried again at the next tick.
    pub(crate) async fn save(&self) {
        let Some(login) = self.login() else {
            return;
        };
        let saved = self.shared.store.save_login(&self.entry, &login).await;
        let mut state = self.state.lock();
        state.save_error = saved.err().map(|error| error.to_string());
        if let Some(error) = &state.save_error {
            tracing::error!(server = %state.server.name, %error, "the login cannot be saved and lasts until Mainstay ends");
        }
    }

    async fn refreshed(
        &self,
        server: &LoginServer,
        login: &StoredLogin,
    ) -> Result<StoredLogin, GrantError> {
        let web = self.shared.web(server);
        let mut client = login.client.clone();
        if server.oauth.client_id.as_ref() == Some(&client.id) {
            // The entry may have got another secret since.
            client.secret = server.oauth.client_secret.clone();
        }
        let endpoint = TokenEndpoint {
            web: web.as_ref(),
            issuer: &login.issuer,
            client: &client,
            private_key: server.oauth.private_key.as_ref(),
            resource: &login.resource,
            now: self.shared.now(),
        };
        let Some(refresh) = &login.tokens.refresh else {
            return Err(GrantError::NoRefreshToken);
        };
        let tokens = endpoint.refresh(refresh, &login.tokens.scopes).await?;
        Ok(StoredLogin {
            tokens,
            ended: None,
            ..login.clone()
        })
    }

    /// A token for the client itself (RFC 6749, 4.4).
    async fn machine_login(
        &self,
        server: &LoginServer,
        before: Option<&StoredLogin>,
    ) -> Result<StoredLogin, GrantError> {
        let web = self.shared.web(server);
        let challenge = self.challenge();
        let discovery = Finder {
            web: web.as_ref(),
            server: &server.url,
            challenge: challenge.as_ref(),
            configured_issuer: server.oauth.issuer.as_deref(),
            registered_issuer: None,
        };
        let discovery = discovery
            .find()
            .await
            .map_err(|error| GrantError::from_discovery(&error))?;
        let choice = choose_identity(&server.oauth, &discovery.issuer, None);
        let Ok(IdentityChoice::Ready(client)) = choice else {
            return Err(GrantError::NoMachineIdentity);
        };
        let challenged = challenge
            .as_ref()
            .and_then(|challenge| challenge.scopes.clone());
        let configured = server.configured_scopes();
        let scopes = if configured.is_empty() {
            let scopes = challenged.or(discovery.resource_scopes).unwrap_or_default();
            let before = before.map(|login| login.requested_scopes.clone());
            before.unwrap_or_default().union(&scopes)
        } else {
            configured
        };
        let now = self.shared.now();
        let endpoint = TokenEndpoint {
            web: web.as_ref(),
            issuer: &discovery.issuer,
            client: &client,
            private_key: server.oauth.private_key.as_ref(),
            resource: &discovery.resource,
            now,
        };
        let tokens = endpoint.client_credentials(&scopes).await?;
        Ok(StoredLogin {
            server_url: server.url.to_string(),
            resource: discovery.resource,
            issuer: discovery.issuer,
            client,
            requested_scopes: scopes,
            tokens,
            logged_in_at: now,
            registered_for: None,
            ended: None,
        })
    }

    /// Refreshes a token whose time has come, and saves one that could not be saved. Returns the time of the next
    /// refresh.
    pub(crate) fn tick(self: &Arc<Self>, now: SystemTime) -> Option<SystemTime> {
        let (refresh_at, is_unsaved) = {
            let state = self.state.lock();
            let refresh_at = state.upkeep.refresh_at(self.jitter);
            (
                refresh_at,
                state.save_error.is_some() && state.upkeep.login().is_some(),
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
        if is_unsaved {
            let keeper = Arc::clone(self);
            self.shared
                .spawn(Box::pin(async move { keeper.save().await }));
        }
        refresh_at
    }

    /// Takes the login of a person, and saves it.
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
        self.shared
            .publish(LoginChange::LoggedIn(self.server().name));
        Ok(())
    }

    /// Gets a token with the client's own credentials, even if the last attempt has ended the login.
    pub(crate) async fn renew(&self) -> Result<(), GrantError> {
        let (server, before) = {
            let state = self.state.lock();
            (state.server.clone(), state.upkeep.login().cloned())
        };
        let login = self.machine_login(&server, before.as_ref()).await?;
        self.log_in(login)
            .await
            .map_err(|error| GrantError::Unavailable {
                reason: error.to_string(),
                is_sent: true,
            })
    }

    /// Sets the reason that the last login of a person failed. `None` when another one begins.
    pub(crate) fn set_login_error(&self, reason: Option<String>) {
        self.state.lock().login_error = reason;
        self.notify();
    }

    /// Forgets the login. Returns it, so that its tokens can be revoked.
    pub(crate) fn log_out(&self) -> Option<StoredLogin> {
        let login = {
            let mut state = self.state.lock();
            let login = state.upkeep.login().cloned();
            state.upkeep.log_out();
            state.is_loaded = true;
            (state.save_error, state.login_error) = (None, None);
            state.missing_scopes = Scopes::default();
            login
        };
        self.notify();
        login
    }

    /// Loads the login if that has not happened, and waits for it.
    pub async fn loaded(self: &Arc<Self>) {
        let mut changed = self.changed.subscribe();
        let deadline = Instant::now() + WAIT_LIMIT;
        while self.is_unread() {
            self.start_task();
            if timeout_at(deadline, changed.changed()).await.is_err() {
                return;
            }
        }
    }

    /// True if the stored login was not read, and reading it has not failed just now.
    fn is_unread(&self) -> bool {
        let now = self.shared.now();
        let state = self.state.lock();
        let has_failed = state
            .load_failure
            .as_ref()
            .is_some_and(|(time, _)| is_recent(*time, now));
        !state.is_loaded && !has_failed
    }

    fn next_step(&self) -> RequestStep {
        let now = self.shared.now();
        let state = self.state.lock();
        if !state.is_loaded {
            return match &state.load_failure {
                Some((time, reason)) if is_recent(*time, now) => {
                    let reason = format!("the login cannot be read: {reason}");
                    RequestStep::Fail(NoCredentials::Unavailable(reason))
                }
                _ => RequestStep::Wait(None),
            };
        }
        match state.upkeep.next_token(now) {
            NextToken::NoLogin => RequestStep::Fail(NoCredentials::Unknown),
            NextToken::Ready(token) => RequestStep::Send(token),
            NextToken::AfterRefresh(retry_at) => RequestStep::Wait(retry_at),
            NextToken::Ended(reason) => {
                RequestStep::Fail(NoCredentials::NoLongerValid(state.advised(&reason)))
            }
        }
    }

    fn step_after_refusal(
        &self,
        refused: &RefusedCredentials,
        token: Option<&Secret>,
    ) -> RequestStep {
        let now = self.shared.now();
        let challenge = Challenge::parse(refused.challenges.iter().map(String::as_str));
        let mut state = self.state.lock();
        let after = state
            .upkeep
            .handle_refusal(refused.status, token, challenge.as_ref(), now);
        if challenge.is_some() {
            state.challenge = challenge;
        }
        // A refused token is not sent again before the refresh.
        self.ready.store(state.ready_token(now));
        match after {
            AfterRefusal::Use(token) => RequestStep::Send(token),
            AfterRefusal::Refresh => RequestStep::Wait(state.upkeep.retry_at(now)),
            AfterRefusal::LogIn(reason) => {
                state.is_required = true;
                RequestStep::Fail(NoCredentials::NoLongerValid(state.advised(&reason)))
            }
            AfterRefusal::StepUp(scopes) => {
                state.missing_scopes = state.missing_scopes.union(&scopes);
                let reason = format!("the login lacks the scopes {scopes}");
                RequestStep::Fail(NoCredentials::NoLongerValid(state.advised(&reason)))
            }
            // Another login would get the same scopes, so that none is advised.
            AfterRefusal::Denied(reason) => RequestStep::Fail(NoCredentials::NoLongerValid(reason)),
            AfterRefusal::NotOurs => RequestStep::Fail(NoCredentials::Unknown),
        }
    }

    /// Repeats a step until it ends the wait of a request.
    async fn token(
        self: &Arc<Self>,
        mut step: impl FnMut() -> RequestStep,
    ) -> Result<Secret, NoCredentials> {
        let deadline = Instant::now() + WAIT_LIMIT;
        let mut changed = self.changed.subscribe();
        loop {
            changed.borrow_and_update();
            let retry_at = match step() {
                RequestStep::Send(token) => return Ok(token),
                RequestStep::Fail(error) => return Err(error),
                RequestStep::Wait(retry_at) => retry_at,
            };
            let pause = retry_at.and_then(|time| time.duration_since(self.shared.now()).ok());
            let until = pause.map_or(deadline, |pause| Instant::now() + pause);
            if until > deadline {
                return Err(self.unavailable());
            }
            if pause.is_none() {
                self.start_task();
            }
            if timeout_at(until, changed.changed()).await.is_err() && until == deadline {
                return Err(self.unavailable());
            }
        }
    }

    fn unavailable(&self) -> NoCredentials {
        let state = self.state.lock();
        let report = state.upkeep.last_refresh();
        let reason = report.and_then(|report| report.error.clone());
        let reason = reason
            .unwrap_or_else(|| format!("there was no answer within {} s", WAIT_LIMIT.as_secs()));
        NoCredentials::Unavailable(format!("no token for {}: {reason}", state.server.name))
    }

    pub(crate) fn needs_person(&self) -> bool {
        let state = self.state.lock();
        state.server.grant() == Grant::Person
            && (state.is_required
                || state.upkeep.end().is_some()
                || !state.missing_scopes.is_empty())
    }

    pub fn report(&self) -> LoginReport {
        let now = self.shared.now();
        let state = self.state.lock();
        let login = state.upkeep.login();
        let tokens = login.map(|login| &login.tokens);
        LoginReport {
            server: state.server.name.clone(),
            state: match (state.upkeep.end(), tokens) {
                (Some(reason), _) => LoginState::Ended(reason.to_owned()),
                (None, None) => LoginState::LoggedOut,
                (None, Some(tokens)) if tokens.has_expired(now) => LoginState::Expired,
                (None, Some(_)) => LoginState::LoggedIn,
            },
            is_required: state.is_required,
            is_pending: self.shared.is_pending(&self.entry),
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
            last_refresh: state.upkeep.last_refresh().cloned(),
            login_error: state.login_error.clone(),
            save_error: state
                .save_error
                .clone()
                .or_else(|| Some(state.load_failure.as_ref()?.1.clone())),
        }
    }
}

/// Pause between two attempts to read a stored login.
const LOOK_PAUSE: Duration = Duration::from_secs(25);

/// False after a clock was set back.
fn is_recent(time: SystemTime, now: SystemTime) -> bool {
    now.duration_since(time).is_ok_and(|age| age < LOOK_PAUSE)
}

/// A task of a keeper. Its end wakes all requests that wait, even if the task panics or is never run.
struct KeeperTask(Arc<LoginKeeper>);

impl Drop for KeeperTask {
    fn drop(&mut self) {
        self.0.state.lock().is_busy = false;
        self.0.notify();
    }
}

impl KeeperState {
    /// True if there is no login that could be used.
    fn is_idle(&self) -> bool {
        self.is_loaded && (self.upkeep.login().is_none() || self.upkeep.end().is_some())
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

    /// The token that requests take without waiting. Without a login, they have none.
    fn ready_token(&self, now: SystemTime) -> Option<Arc<ReadyToken>> {
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

    /// A reason with the command that mends it.
    fn advised(&self, reason: &str) -> String {
        match self.server.grant() {
            Grant::Person => format!(
                "{reason}; log in with `mainstay auth login {}`",
                self.server.name
            ),
            Grant::ClientCredentials => format!(
                "{reason}; correct `oauth` in the entry of {}, then reload",
                self.server.name
            ),
        }
    }
}

/// The credentials of a server's requests, from one login.
#[derive(Clone, Debug)]
pub struct LoginSource(Arc<LoginKeeper>);

impl LoginSource {
    pub fn new(keeper: Arc<LoginKeeper>) -> Self {
        Self(keeper)
    }
}

const AUTHORIZATION: &str = "authorization";

fn header_lines(token: &Secret) -> HeaderLines {
    let value = format!("Bearer {}", token.expose());
    HeaderLines::new([(AUTHORIZATION, value.as_str())])
}

/// The token in the lines of a request.
fn token_of(lines: &HeaderLines) -> Option<Secret> {
    let lines = std::str::from_utf8(lines.as_bytes()).ok()?;
    let token = lines.strip_prefix("authorization: Bearer ")?;
    Some(Secret::new(token.trim_end()))
}

impl CredentialSource for LoginSource {
    fn ready_lines(&self) -> Option<HeaderLines> {
        let ready = self.0.ready.load();
        let ready = ready.as_ref()?;
        let is_valid = ready.expires_at.is_none_or(|end| self.0.shared.now() < end);
        is_valid.then(|| ready.lines.clone())
    }

    fn lines(&self) -> RenewedLines<'_> {
        Box::pin(async {
            let token = self.0.token(|| self.0.next_step()).await?;
            Ok(header_lines(&token))
        })
    }

    fn refresh(&self, refused: RefusedCredentials) -> RenewedLines<'_> {
        Box::pin(async move {
            let token = token_of(&refused.lines);
            let step = || self.0.step_after_refusal(&refused, token.as_ref());
            Ok(header_lines(&self.0.token(step).await?))
        })
    }
}

/// A random number from 0 to 1.
fn random_share() -> f64 {
    let mut bytes = [0; 4];
    // Without randomness, all logins are refreshed at the same share of their lifetimes.
    let _ = getrandom::fill(&mut bytes);
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}
