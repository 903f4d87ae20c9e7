//! Logins of people: in a browser, and with a code on another device.

use std::{sync::Arc, time::SystemTime};

use mainstay_core::{
    config::{Grant, Secret},
    ids::ServerName,
};
use oauth2::url::Url;
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    challenge::Challenge,
    discovery::{IssuerMetadata, scopes_to_request},
    find::{Discovery, DiscoveryError, Finder},
    flow::{Arrival, LOGIN_LIMIT, PendingLogin, Redirect, RedirectError, StateError},
    grant_answer::{GrantError, means_unknown_client},
    grants::{DeviceCodes, TokenEndpoint},
    identity::{
        ClientIdentity, IdentityChoice, NeedsClientId, RegistrationError, choose_identity,
        read_registration, registration_body,
    },
    keeper::OtherServer,
    logins::Logins,
    scopes::Scopes,
    server::LoginServer,
    shared::Shared,
    started::PendingContext,
    store::StoreError,
    web::{Web, proxy_note},
};

/// A started login in a browser.
#[derive(Clone, Debug)]
pub struct BrowserLogin {
    /// The URL to open in a browser.
    pub authorization_url: Url,
    /// The URL to which the browser is redirected.
    pub redirect: Url,
    pub expires_at: SystemTime,
}

/// A started login on another device.
#[derive(Clone, Debug)]
pub struct DeviceLogin {
    /// The code that the user enters at `verification_url`.
    pub user_code: String,
    pub verification_url: String,
    /// The URL that includes the code.
    pub complete_url: Option<String>,
    pub expires_at: SystemTime,
}

/// The reason that a login was not started or not completed. The texts are for users.
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

impl Logins {
    /// Starts a login in a browser. The browser is redirected to `redirect`.
    pub async fn begin(
        &self,
        server: &LoginServer,
        redirect: Url,
        scopes: &Scopes,
    ) -> Result<BrowserLogin, LoginError> {
        let prepared = self.prepared(server, &redirect, scopes, false).await?;
        let now = self.shared.now();
        let endpoint = prepared.endpoint(now);
        let request = endpoint.authorization_request(&redirect, &prepared.context.scopes)?;
        let PreparedLogin {
            discovery, context, ..
        } = prepared;
        // A later login replaces an earlier one.
        self.started.cancel_device(&context.keeper.entry);
        let pending = PendingLogin {
            name: context.keeper.entry.clone(),
            redirect: redirect.clone(),
            authorization_url: request.url.clone(),
            verifier: request.verifier,
            issuer: discovery.issuer,
            context,
        };
        self.started
            .pending
            .lock()
            .begin(&request.state, pending, now);
        Ok(BrowserLogin {
            authorization_url: request.url,
            redirect,
            expires_at: now + LOGIN_LIMIT,
        })
    }

    /// The URL at which a person can log in: that of a started login, else of a new one. Calls that lack the same login
    /// share the URL.
    pub async fn offer(&self, server: &LoginServer, redirect: Url) -> Result<Url, LoginError> {
        let keeper = self.keeper(server);
        let _turn = keeper.offering.lock().await;
        let scopes = keeper.scopes_for_next_login();
        let now = self.shared.now();
        if let Some(url) = self.started.offered_url(&keeper.entry, &scopes, now) {
            return Ok(url);
        }
        let login = self.begin(server, redirect, &Scopes::default()).await?;
        Ok(login.authorization_url)
    }

    /// Completes the login of a redirect, even if the caller stops waiting.
    pub async fn complete(
        &self,
        redirect: Redirect,
        arrival: Arrival<'_>,
    ) -> Result<ServerName, LoginError> {
        let now = self.shared.now();
        let pending = self.started.take(redirect.state()?, arrival, now)?;
        let entry = pending.name.clone();
        let (sender, receiver) = oneshot::channel();
        let (shared, started) = (Arc::clone(&self.shared), Arc::clone(&self.started));
        self.shared.spawn(Box::pin(async move {
            let keeper = Arc::clone(&pending.context.keeper);
            let name = pending.context.server.name.clone();
            let outcome = redeem(&shared, pending, redirect).await;
            if let Err(error) = &outcome {
                tracing::warn!(server = %name, %error, "a login failed");
                keeper.set_login_error(Some(error.to_string()));
            }
            started.redeeming.lock().remove(&entry);
            // The caller may have stopped waiting.
            let _ = sender.send(outcome.map(|()| name));
        }));
        receiver.await.unwrap_or(Err(LoginError::Stopping))
    }

    /// Completes the login of a redirect's query. The error is for users.
    pub async fn complete_query(
        &self,
        query: &str,
        arrival: Arrival<'_>,
    ) -> Result<ServerName, String> {
        let redirect = Redirect::from_query(query).map_err(|error| error.to_string())?;
        self.complete(redirect, arrival)
            .await
            .map_err(|error| error.to_string())
    }

    /// True if a task already receives browsers at this port.
    pub(crate) fn is_listening(&self, port: u16) -> bool {
        self.started.ports.lock().contains(&port)
    }

    /// Runs the task that receives browsers at a port, until it ends or Mainstay stops.
    pub(crate) fn listen<F: Future<Output = ()> + Send + 'static>(
        self: &Arc<Self>,
        port: u16,
        serve: impl FnOnce(Arc<Self>) -> F,
    ) {
        self.started.ports.lock().insert(port);
        let (shared, started) = (Arc::clone(&self.shared), Arc::clone(&self.started));
        let serving = serve(Arc::clone(self));
        self.shared.spawn(Box::pin(async move {
            tokio::select! {
                () = shared.stop.cancelled() => {}
                () = serving => {}
            }
            started.ports.lock().remove(&port);
        }));
    }

    /// Requests a new token with the client's own credentials at once.
    pub async fn renew(&self, server: &LoginServer) -> Result<(), LoginError> {
        let keeper = self.keeper(server);
        keeper.loaded().await;
        Ok(keeper.renew().await?)
    }

    /// Starts a login on another device. The login completes when the user has entered the code.
    pub async fn begin_on_device(
        &self,
        server: &LoginServer,
        scopes: &Scopes,
    ) -> Result<DeviceLogin, LoginError> {
        // The registration requires a redirect URL, although this grant does not use it.
        let redirect = Url::parse("http://127.0.0.1/callback").expect("a valid URL");
        let prepared = self.prepared(server, &redirect, scopes, true).await?;
        let now = self.shared.now();
        let endpoint = prepared.endpoint(now);
        let codes = endpoint.device_codes(&prepared.context.scopes).await?;
        let login = DeviceLogin {
            user_code: codes.user_code().to_owned(),
            verification_url: codes.verification_uri().to_owned(),
            complete_url: codes.complete_uri().map(str::to_owned),
            expires_at: now + codes.lifetime(),
        };
        let entry = prepared.context.keeper.entry.clone();
        self.started.pending.lock().cancel(&entry, now);
        let cancel = CancellationToken::new();
        let mut devices = self.started.devices.lock();
        let older = devices.insert(entry.clone(), cancel.clone());
        drop(devices);
        if let Some(older) = older {
            older.cancel();
        }
        let (shared, started) = (Arc::clone(&self.shared), Arc::clone(&self.started));
        let server = server.clone();
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
            started.devices.lock().remove(&entry);
        }));
        Ok(login)
    }

    /// Prepares a login. Stores a failure for the login's report.
    async fn prepared(
        &self,
        server: &LoginServer,
        redirect: &Url,
        scopes: &Scopes,
        is_on_device: bool,
    ) -> Result<PreparedLogin, LoginError> {
        let prepared = self.prepare(server, redirect, scopes, is_on_device).await;
        if let Err(error) = &prepared {
            let keeper = self.keeper(server);
            keeper.set_login_error(Some(error.to_string()));
        }
        prepared
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
                server,
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

    /// The client for the authorization server. The flag is true if the client was registered dynamically.
    async fn identity(
        &self,
        server: &LoginServer,
        issuer: &IssuerMetadata,
        web: &dyn Web,
        redirect: &Url,
        scopes: &Scopes,
        is_on_device: bool,
    ) -> Result<(ClientIdentity, bool), LoginError> {
        let now = self.shared.now();
        let store = &self.shared.store;
        let stored = store
            .registration(&issuer.issuer, redirect.as_str(), server.client.as_ref())
            .await?;
        let stored = stored
            .filter(|registration| registration.is_valid(&issuer.issuer, redirect.as_str(), now));
        // If the client needs more scopes, register it again for all scopes.
        let all_scopes = match &stored {
            Some(stored) => scopes.union(&stored.scopes),
            None => scopes.clone(),
        };
        let stored = stored.filter(|registration| registration.has_scopes(scopes));
        let endpoint = match choose_identity(&server.oauth, issuer, stored.as_ref())? {
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
        );
        let with_note = |reason: String| reason + &proxy_note(&response);
        let registration = registration.map_err(|error| match error {
            RegistrationError::Refused(reason) => RegistrationError::Refused(with_note(reason)),
            RegistrationError::Unavailable(reason) => {
                RegistrationError::Unavailable(with_note(reason))
            }
            error => error,
        })?;
        if let Err(error) = store
            .save_registration(&registration, server.client.as_ref())
            .await
        {
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
    fn endpoint(&self, now: SystemTime) -> TokenEndpoint<'_> {
        self.context
            .endpoint(self.web.as_ref(), &self.discovery.issuer, now)
    }
}

/// Gets the challenge of a server, by a request that has no effect.
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
    let registered_for = context.is_registered.then_some(redirect_url.as_str());
    let code = redirect.code(&issuer);
    if let Err(RedirectError::Refused { error, .. }) = &code
        && means_unknown_client(error)
    {
        shared
            .forget_registration(&context.server, &issuer, registered_for)
            .await;
    }
    let code: Secret = code?;
    let web = shared.web(&context.server);
    let now = shared.now();
    let tokens = context
        .endpoint(web.as_ref(), &issuer, now)
        .redeem_code(&code, &verifier, &redirect_url, &context.scopes)
        .await;
    if tokens.as_ref().is_err_and(GrantError::is_client_unknown) {
        shared
            .forget_registration(&context.server, &issuer, registered_for)
            .await;
    }
    let registered_for = registered_for.map(str::to_owned);
    let keeper = Arc::clone(&context.keeper);
    let login = context.into_login(tokens?, issuer, registered_for, now);
    Ok(keeper.log_in(login).await?)
}

/// Waits until a person has logged in on another device, and applies the login.
async fn await_device(
    shared: &Shared,
    server: &LoginServer,
    prepared: PreparedLogin,
    codes: DeviceCodes,
) {
    let endpoint = prepared.endpoint(shared.now());
    let tokens = endpoint
        .await_device(&codes, &prepared.context.scopes, sleep)
        .await;
    let keeper = Arc::clone(&prepared.context.keeper);
    match tokens {
        Ok(mut tokens) => {
            // The lifetime starts at the answer, not at the first request.
            let now = shared.now();
            let waited = now.duration_since(tokens.obtained_at).unwrap_or_default();
            tokens.expires_at = tokens.expires_at.map(|end| end + waited);
            tokens.obtained_at = now;
            let issuer = prepared.discovery.issuer;
            let login = prepared.context.into_login(tokens, issuer, None, now);
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
