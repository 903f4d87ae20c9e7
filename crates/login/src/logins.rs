//! All logins of a Mainstay: their keepers, the logins of people that have begun, and the ticks of refreshes.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use mainstay_core::{
    config::{Grant, OAuth, Secret},
    ids::ServerName,
};
use mainstay_platform::vault::Vault;
use oauth2::url::Url;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, oneshot},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    challenge::Challenge,
    discovery::{IssuerMetadata, scopes_to_request},
    find::{Discovery, DiscoveryError, Finder},
    flow::{LOGIN_LIMIT, PendingLogin, PendingLogins, Redirect, RedirectError, StateError},
    grants::{DeviceCodes, GrantError, TokenEndpoint},
    identity::{
        ClientIdentity, IdentityChoice, NeedsClientId, RegistrationError, choose_identity,
        read_registration, registration_body,
    },
    keeper::{LoginKeeper, LoginSource, OtherServer},
    scopes::Scopes,
    server::LoginServer,
    store::{LoginStore, StoreError},
    stored::StoredLogin,
    web::Web,
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

type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

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
    web_source: Arc<dyn WebSource>,
    clock: Clock,
    pending: Mutex<PendingLogins<PendingContext>>,
    /// Entries whose codes are being redeemed.
    redeeming: Mutex<BTreeSet<String>>,
    /// Logins on other devices that have begun, by the entries of the logins.
    devices: Mutex<HashMap<String, CancellationToken>>,
    /// Changes that nobody has taken yet, each once.
    changes: Mutex<VecDeque<LoginChange>>,
    has_changes: Notify,
    /// Ports at which browsers are received.
    ports: Mutex<BTreeSet<u16>>,
    wakes_ticker: Notify,
    tasks: TaskTracker,
    stop: CancellationToken,
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

    /// Runs a task to its end, even if the daemon stops meanwhile. Does nothing after the stop.
    pub fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        if !self.tasks.is_closed() {
            self.tasks.spawn(task);
        }
    }

    /// Removes the registration of a login's client, so that the next login registers another one.
    pub async fn forget_registration(&self, login: &StoredLogin) {
        let Some(redirect) = &login.registered_for else {
            return;
        };
        let removed = self
            .store
            .remove_registration(&login.issuer.issuer, redirect);
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

/// The parts of a pending login that the redirect does not have.
#[derive(Debug)]
struct PendingContext {
    keeper: Arc<LoginKeeper>,
    server: LoginServer,
    resource: String,
    client: ClientIdentity,
    scopes: Scopes,
    is_registered: bool,
}

/// A login in a browser that has begun.
#[derive(Clone, Debug)]
pub struct BrowserLogin {
    /// The address to open in a browser.
    pub authorization_url: Url,
    /// The address to which the browser comes back.
    pub redirect: Url,
    pub expires_at: SystemTime,
}

/// A login on another device that has begun.
#[derive(Clone, Debug)]
pub struct DeviceLogin {
    /// The code that a person enters at `verification_url`.
    pub user_code: String,
    pub verification_url: String,
    /// The address that has the code in it.
    pub complete_url: Option<String>,
    pub expires_at: SystemTime,
}

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

/// The reason that a login was not begun or not completed. The texts are for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    #[error(transparent)]
    NeedsClientId(#[from] NeedsClientId),
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    #[error("no client could be registered: {0}")]
    NotRegistered(String),
    #[error(transparent)]
    Grant(#[from] GrantError),
    #[error(transparent)]
    Redirect(#[from] RedirectError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error("the server logs in with its own credentials, without a person")]
    NoPerson,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    OtherServer(#[from] OtherServer),
    #[error("Mainstay stops")]
    Stopping,
}

/// All logins. Ends its tasks at [`Self::stop`].
#[derive(Debug)]
pub struct Logins {
    shared: Arc<Shared>,
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

    /// Begins a login in a browser. The browser comes back to `redirect`.
    pub async fn begin(
        &self,
        server: &LoginServer,
        redirect: Url,
        scopes: &Scopes,
    ) -> Result<BrowserLogin, LoginError> {
        let prepared = self.prepare(server, &redirect, scopes, false).await?;
        let PreparedLogin {
            discovery,
            context,
            web,
        } = prepared;
        let endpoint = TokenEndpoint {
            web: web.as_ref(),
            issuer: &discovery.issuer,
            client: &context.client,
            private_key: server.oauth.private_key.as_ref(),
            resource: &context.resource,
            now: self.shared.now(),
        };
        let request = endpoint.authorization_request(&redirect, &context.scopes)?;
        let now = self.shared.now();
        let pending = PendingLogin {
            name: context.keeper.entry.clone(),
            redirect: redirect.clone(),
            verifier: request.verifier,
            issuer: discovery.issuer,
            context,
        };
        self.shared
            .pending
            .lock()
            .begin(&request.state, pending, now);
        Ok(BrowserLogin {
            authorization_url: request.url,
            redirect,
            expires_at: now + LOGIN_LIMIT,
        })
    }

    /// Completes the login of a redirect. A caller that is given up does not stop it.
    pub async fn complete(&self, redirect: Redirect) -> Result<ServerName, LoginError> {
        let state = redirect.state()?.to_owned();
        let pending = self.shared.pending.lock().take(&state, self.shared.now())?;
        let entry = pending.context.keeper.entry.clone();
        self.shared.redeeming.lock().insert(entry.clone());
        let (sender, receiver) = oneshot::channel();
        let shared = Arc::clone(&self.shared);
        self.shared.spawn(Box::pin(async move {
            let keeper = Arc::clone(&pending.context.keeper);
            let name = pending.context.server.name.clone();
            let outcome = redeem(&shared, pending, redirect).await;
            if let Err(error) = &outcome {
                tracing::warn!(server = %name, %error, "a login failed");
                keeper.set_login_error(Some(error.to_string()));
            }
            shared.redeeming.lock().remove(&entry);
            // The caller may be gone.
            let _ = sender.send(outcome.map(|()| name));
        }));
        receiver.await.unwrap_or(Err(LoginError::Stopping))
    }

    /// Completes the login of the query of a redirect. The error is for people.
    pub async fn complete_query(&self, query: &str) -> Result<ServerName, String> {
        let redirect = Redirect::from_query(query).map_err(|error| error.to_string())?;
        self.complete(redirect)
            .await
            .map_err(|error| error.to_string())
    }

    /// True if browsers are received at this port already.
    pub(crate) fn is_listening(&self, port: u16) -> bool {
        self.shared.ports.lock().contains(&port)
    }

    /// Runs the task that receives browsers at a port, until it ends or Mainstay stops.
    pub(crate) fn listen<F: Future<Output = ()> + Send + 'static>(
        self: &Arc<Self>,
        port: u16,
        serve: impl FnOnce(Arc<Self>) -> F,
    ) {
        self.shared.ports.lock().insert(port);
        let (shared, serving) = (Arc::clone(&self.shared), serve(Arc::clone(self)));
        self.shared.spawn(Box::pin(async move {
            tokio::select! {
                () = shared.stop.cancelled() => {}
                () = serving => {}
            }
            shared.ports.lock().remove(&port);
        }));
    }

    /// Gets a new token with the client's own credentials, now.
    pub async fn renew(&self, server: &LoginServer) -> Result<(), LoginError> {
        let keeper = self.keeper(server);
        keeper.loaded().await;
        Ok(keeper.renew().await?)
    }

    /// Begins a login on another device. The login is completed when the person has entered the code.
    pub async fn begin_on_device(
        &self,
        server: &LoginServer,
        scopes: &Scopes,
    ) -> Result<DeviceLogin, LoginError> {
        // The registration needs a redirect address, which this grant does not use.
        let redirect = Url::parse("http://127.0.0.1/callback").expect("a valid URL");
        let prepared = self.prepare(server, &redirect, scopes, true).await?;
        let now = self.shared.now();
        let endpoint = prepared.endpoint(server, now);
        let codes = endpoint.device_codes(&prepared.context.scopes).await?;
        let login = DeviceLogin {
            user_code: codes.user_code().to_owned(),
            verification_url: codes.verification_uri().to_owned(),
            complete_url: codes.complete_uri().map(str::to_owned),
            expires_at: now + codes.lifetime(),
        };
        let entry = prepared.context.keeper.entry.clone();
        let cancel = CancellationToken::new();
        let older = self
            .shared
            .devices
            .lock()
            .insert(entry.clone(), cancel.clone());
        if let Some(older) = older {
            older.cancel();
        }
        let (shared, server) = (Arc::clone(&self.shared), server.clone());
        let keeper = self.keeper(&server);
        self.shared.spawn(Box::pin(async move {
            let limit = codes.lifetime();
            tokio::select! {
                () = cancel.cancelled() => return,
                () = shared.stop.cancelled() => {}
                waited = timeout(limit, await_device(&shared, &server, prepared, codes)) => {
                    if waited.is_err() {
                        keeper.set_login_error(Some("the code has expired".to_owned()));
                    }
                }
            }
            shared.devices.lock().remove(&entry);
        }));
        Ok(login)
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
        self.shared.forget_registration(&login).await;
        let web = self.shared.web(server);
        let endpoint = TokenEndpoint {
            web: web.as_ref(),
            issuer: &login.issuer,
            client: &login.client,
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

    async fn prepare(
        &self,
        server: &LoginServer,
        redirect: &Url,
        scopes: &Scopes,
        is_on_device: bool,
    ) -> Result<PreparedLogin, LoginError> {
        if server.grant() == Grant::ClientCredentials {
            return Err(LoginError::NoPerson);
        }
        let keeper = self.keeper(server);
        keeper.loaded().await;
        keeper.set_login_error(None);
        let web = self.shared.web(server);
        let challenge = match keeper.challenge() {
            Some(challenge) => Some(challenge),
            None => ask_for_challenge(web.as_ref(), &server.url).await,
        };
        let login = keeper.login();
        let discovery = Finder {
            web: web.as_ref(),
            server: &server.url,
            challenge: challenge.as_ref(),
            configured_issuer: server.oauth.issuer.as_deref(),
            registered_issuer: login.as_ref().map(|login| login.issuer.issuer.as_str()),
        };
        let discovery = discovery.find().await?;
        let first_scopes = scopes_to_request(
            &server.configured_scopes(),
            challenge
                .as_ref()
                .and_then(|challenge| challenge.scopes.as_ref()),
            discovery.resource_scopes.as_ref(),
            &discovery.issuer,
        );
        let scopes = first_scopes
            .union(&keeper.scopes_for_next_login())
            .union(scopes);
        let (client, is_registered) = self
            .identity(
                &server.oauth,
                &discovery.issuer,
                web.as_ref(),
                redirect,
                &scopes,
                is_on_device,
            )
            .await?;
        let context = PendingContext {
            keeper,
            server: server.clone(),
            resource: discovery.resource.clone(),
            client,
            scopes,
            is_registered,
        };
        Ok(PreparedLogin {
            discovery,
            context,
            web,
        })
    }

    /// The client of the authorization server, and whether it was registered dynamically.
    async fn identity(
        &self,
        settings: &OAuth,
        issuer: &IssuerMetadata,
        web: &dyn Web,
        redirect: &Url,
        scopes: &Scopes,
        is_on_device: bool,
    ) -> Result<(ClientIdentity, bool), LoginError> {
        let now = self.shared.now();
        let store = &self.shared.store;
        let stored = store
            .registration(&issuer.issuer, redirect.as_str())
            .await?;
        let stored = stored
            .filter(|registration| registration.is_valid(&issuer.issuer, redirect.as_str(), now));
        // A client that needs more scopes is registered again, for all of them.
        let all_scopes = match &stored {
            Some(stored) => scopes.union(&stored.scopes),
            None => scopes.clone(),
        };
        let stored = stored.filter(|registration| registration.has_scopes(scopes));
        let endpoint = match choose_identity(settings, issuer, stored.as_ref())? {
            IdentityChoice::Ready(client) => {
                let is_registered = stored.is_some_and(|stored| stored.client == client);
                return Ok((client, is_registered));
            }
            IdentityChoice::Register(endpoint) => endpoint,
        };
        let body = registration_body(issuer, redirect, &all_scopes, is_on_device).to_string();
        let not_registered =
            |error: &dyn std::fmt::Display| LoginError::NotRegistered(error.to_string());
        let request = http::Request::post(endpoint.as_str())
            .header("content-type", "application/json")
            .header("accept", "application/json")
            .body(body.into_bytes())
            .map_err(|error| not_registered(&error))?;
        let response = web
            .send(request)
            .await
            .map_err(|error| not_registered(&error))?;
        let registration = read_registration(
            response.status().as_u16(),
            response.body(),
            issuer,
            redirect,
            &all_scopes,
        )?;
        if let Err(error) = store.save_registration(&registration).await {
            tracing::warn!(issuer = %issuer.issuer, %error, "the registered client cannot be saved");
        }
        Ok((registration.client, true))
    }
}

/// A login whose authorization server and client are known.
struct PreparedLogin {
    discovery: Discovery,
    context: PendingContext,
    web: Arc<dyn Web>,
}

impl PreparedLogin {
    fn endpoint<'a>(&'a self, server: &'a LoginServer, now: SystemTime) -> TokenEndpoint<'a> {
        TokenEndpoint {
            web: self.web.as_ref(),
            issuer: &self.discovery.issuer,
            client: &self.context.client,
            private_key: server.oauth.private_key.as_ref(),
            resource: &self.context.resource,
            now,
        }
    }
}

/// Asks a server for its challenge by a request that does nothing.
async fn ask_for_challenge(web: &dyn Web, server: &Url) -> Option<Challenge> {
    let request = http::Request::post(server.as_str())
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .body(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.to_vec())
        .ok()?;
    let response = web.send(request).await.ok()?;
    let headers = response.headers().get_all("www-authenticate");
    Challenge::parse(headers.iter().filter_map(|value| value.to_str().ok()))
}

/// Removes the registration of a client that the authorization server has forgotten, so that the next login registers
/// another one.
async fn forget_unknown_client(
    shared: &Shared,
    context: &PendingContext,
    issuer: &IssuerMetadata,
    redirect: &Url,
    code: &str,
) {
    if !context.is_registered || !matches!(code, "invalid_client" | "unauthorized_client") {
        return;
    }
    let removed = shared
        .store
        .remove_registration(&issuer.issuer, redirect.as_str());
    if let Err(error) = removed.await {
        tracing::warn!(%error, "the registration cannot be removed");
    }
}

async fn redeem(
    shared: &Shared,
    pending: PendingLogin<PendingContext>,
    redirect: Redirect,
) -> Result<(), LoginError> {
    let PendingLogin {
        redirect: redirect_url,
        verifier,
        issuer,
        context,
        ..
    } = pending;
    let code = redirect.code(&issuer);
    if let Err(RedirectError::Refused { error, .. }) = &code {
        forget_unknown_client(shared, &context, &issuer, &redirect_url, error).await;
    }
    let code: Secret = code?;
    let web = shared.web(&context.server);
    let now = shared.now();
    let endpoint = TokenEndpoint {
        web: web.as_ref(),
        issuer: &issuer,
        client: &context.client,
        private_key: context.server.oauth.private_key.as_ref(),
        resource: &context.resource,
        now,
    };
    let tokens = endpoint
        .redeem_code(&code, &verifier, &redirect_url, &context.scopes)
        .await;
    if let Err(GrantError::Refused { code, .. }) = &tokens {
        forget_unknown_client(shared, &context, &issuer, &redirect_url, code).await;
    }
    let login = StoredLogin {
        server_url: context.server.url.to_string(),
        resource: context.resource,
        tokens: tokens?,
        issuer,
        client: context.client,
        requested_scopes: context.scopes,
        logged_in_at: now,
        registered_for: context.is_registered.then(|| redirect_url.to_string()),
        ended: None,
    };
    Ok(context.keeper.log_in(login).await?)
}

/// Waits for a person on another device, and takes the login.
async fn await_device(
    shared: &Shared,
    server: &LoginServer,
    prepared: PreparedLogin,
    codes: DeviceCodes,
) {
    let endpoint = prepared.endpoint(server, shared.now());
    let tokens = endpoint
        .await_device(&codes, &prepared.context.scopes, sleep)
        .await;
    let keeper = Arc::clone(&prepared.context.keeper);
    match tokens {
        Ok(mut tokens) => {
            // The lifetime counts from the answer, not from the first request.
            let now = shared.now();
            let waited = now.duration_since(tokens.obtained_at).unwrap_or_default();
            tokens.expires_at = tokens.expires_at.map(|end| end + waited);
            tokens.obtained_at = now;
            let login = StoredLogin {
                server_url: server.url.to_string(),
                resource: prepared.context.resource,
                issuer: prepared.discovery.issuer,
                client: prepared.context.client,
                requested_scopes: prepared.context.scopes,
                tokens,
                logged_in_at: now,
                registered_for: None,
                ended: None,
            };
            if let Err(error) = keeper.log_in(login).await {
                keeper.set_login_error(Some(error.to_string()));
            }
        }
        Err(error) => {
            tracing::warn!(server = %server.name, %error, "a login failed");
            keeper.set_login_error(Some(error.to_string()));
        }
    }
}
