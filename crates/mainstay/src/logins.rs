//! The logins of a daemon: passes their tokens to sessions of servers, and reconnects servers after
//! changes.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use mainstay_api::LOGIN_CALLBACK;
use mainstay_core::{config::ServerConfig, principal::Principal};
use mainstay_gateway::{
    CredentialSources, OfferedLogin, Offering,
    registry::Registry,
    supervisor::{Operation, ServerHandle},
};
use mainstay_login::{
    logins::Logins,
    loopback::{self, Url},
    server::LoginServer,
    shared::LoginChangeKind,
    web_client::Network,
};
use mainstay_platform::{loopback::reachable, state::StateDir, vault};
use mainstay_tokens::Tokens;
use mainstay_transport::CredentialSource;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

/// Time limit for calls in flight after their login has ended. The server is then reconnected.
const IDLE_LIMIT: Duration = Duration::from_secs(30);

/// The interval of checks for calls in flight.
const IDLE_PAUSE: Duration = Duration::from_millis(100);

/// Provides the tokens of logins as credentials for servers.
#[derive(Debug)]
pub struct LoginSources(pub Arc<Logins>);

impl CredentialSources for LoginSources {
    fn source(
        &self,
        server: &ServerConfig,
        principal: &Principal,
    ) -> Option<Arc<dyn CredentialSource>> {
        let server = login_server(server, principal)?;
        Some(Arc::new(self.0.source(&server)))
    }

    fn needs_login(&self, server: &ServerConfig, principal: &Principal) -> bool {
        login_server(server, principal).is_some_and(|server| self.0.needs_login(&server))
    }

    fn offer_login<'s>(
        &'s self,
        server: &'s ServerConfig,
        principal: &'s Principal,
    ) -> Offering<'s> {
        Box::pin(async move {
            let logins = &self.0;
            let server = login_server(server, principal)
                .ok_or_else(|| "the server has no login".to_owned())?;
            let redirect = match server.oauth.callback_port {
                Some(port) => loopback::listen(logins, port).map_err(|error| error.to_string())?,
                None => logins
                    .callback()
                    .cloned()
                    .ok_or_else(|| NO_CALLBACK.to_owned())?,
            };
            let url = logins.offer(&server, redirect).await;
            let url = url.map_err(|error| error.to_string())?;
            let keeper = logins.keeper(&server);
            Ok(OfferedLogin {
                url: url.to_string(),
                completed: Box::pin(async move { keeper.logged_in().await }),
            })
        })
    }
}

const NO_CALLBACK: &str = "no browser could come back from a login: Mainstay does not listen on loopback, and has no `http.publicUrl`";

/// The login that this principal uses at the server.
fn login_server(server: &ServerConfig, principal: &Principal) -> Option<LoginServer> {
    let client = server.login_owner(principal).cloned();
    Some(LoginServer::from_config(server)?.of_client(client))
}

/// The address to which browsers come back: the public one, else that of a listener on loopback.
pub fn callback(public_url: Option<&str>, address: SocketAddr, is_tls: bool) -> Option<Url> {
    let base = match public_url {
        Some(url) => url.to_owned(),
        None => {
            let address = reachable(address);
            let scheme = if is_tls { "https" } else { "http" };
            address
                .ip()
                .is_loopback()
                .then(|| format!("{scheme}://{address}"))?
        }
    };
    Url::parse(&format!("{base}{LOGIN_CALLBACK}")).ok()
}

/// The logins of a state directory. Reads and writes nothing before the first login.
pub fn in_state_dir(state: &StateDir) -> Arc<Logins> {
    Arc::new(Logins::new(vault::shared(state), Arc::new(Network)))
}

/// Refreshes tokens, and reconnects servers whose logins have changed. Ends when the logins stop.
pub async fn run(logins: Arc<Logins>, registry: Arc<Registry>) {
    let mut reconnections = JoinSet::new();
    let watching = async {
        loop {
            tokio::select! {
                change = logins.next_change() => {
                    if let Ok(server) = registry.server(change.server.as_str()) {
                        reconnections.spawn(apply(change.kind, server));
                    }
                }
                Some(ended) = reconnections.join_next() => {
                    if let Err(error) = ended {
                        tracing::error!(%error, "a server did not learn of its login");
                    }
                }
            }
        }
    };
    tokio::select! {
        () = logins.run(|server| is_configured(&registry, server)) => {}
        () = watching => {}
    }
}

/// True if a configured server still uses this login.
fn is_configured(registry: &Registry, login: &LoginServer) -> bool {
    let Ok(server) = registry.server(login.name.as_str()) else {
        return false;
    };
    let principal = login.client.clone().map(Principal::Client);
    principal.is_none_or(|principal| server.has_own_login(&principal))
}

/// Removes the logins of clients that have no token, now and after each change of the tokens.
pub async fn keep_clients(logins: Arc<Logins>, tokens: Tokens) {
    let mut changes = tokens.changes();
    loop {
        changes.borrow_and_update();
        let tokens = tokens.clients().into_iter();
        let clients: Vec<_> = tokens.map(|token| token.name).collect();
        if let Err(error) = logins.keep_clients(&clients).await {
            tracing::warn!(%error, "logins of clients without a token cannot be looked for");
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

async fn apply(change: LoginChangeKind, server: Arc<ServerHandle>) {
    if !server.is_desired_up() {
        return;
    }
    match change {
        // Keep a working session: it uses the new token with its next request.
        LoginChangeKind::LoggedIn if server.view().session.is_some() => return,
        LoginChangeKind::LoggedIn => {}
        // Reconnect after the calls in flight. The new attempt shows in the server's status that a
        // login is needed.
        LoginChangeKind::LoggedOut | LoginChangeKind::Ended => wait_until_idle(&server).await,
    }
    let is_logged_out = !matches!(change, LoginChangeKind::LoggedIn);
    if is_logged_out && server.view().status.unauthorized {
        // The server's status shows this already, because a request was refused.
        return;
    }
    if let Err(error) = server.operate(Operation::Reconnect).await {
        tracing::info!(server = %server.name, %error, "not connected after a change of the login");
    }
}

/// Waits until no call is in flight. Calls in flight already have a token.
async fn wait_until_idle(server: &ServerHandle) {
    let end = Instant::now() + IDLE_LIMIT;
    while Instant::now() < end {
        let view = server.view();
        let calls = view
            .session
            .as_ref()
            .map(|session| session.liveness.in_flight());
        if calls.unwrap_or_default() == 0 {
            return;
        }
        sleep(IDLE_PAUSE).await;
    }
}
