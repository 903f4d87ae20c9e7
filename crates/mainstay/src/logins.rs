//! The logins of a daemon: gives them to the sessions of servers, and tells servers of their changes.

use std::{sync::Arc, time::Duration};

use mainstay_core::config::ServerConfig;
use mainstay_gateway::{
    CredentialSources,
    registry::Registry,
    supervisor::{Operation, ServerHandle},
};
use mainstay_login::{
    logins::Logins, server::LoginServer, shared::LoginChange, web_client::Network,
};
use mainstay_platform::{state::StateDir, vault};
use mainstay_transport::CredentialSource;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

/// Time that calls in flight have to end after their login has ended.
const IDLE_LIMIT: Duration = Duration::from_secs(30);

/// Pause between two looks for calls in flight.
const IDLE_PAUSE: Duration = Duration::from_millis(100);

/// The logins as sources of credentials.
#[derive(Debug)]
pub struct LoginSources(pub Arc<Logins>);

impl CredentialSources for LoginSources {
    fn source(&self, server: &ServerConfig) -> Option<Arc<dyn CredentialSource>> {
        let server = LoginServer::from_config(server)?;
        Some(Arc::new(self.0.source(&server)))
    }

    fn needs_login(&self, server: &ServerConfig) -> bool {
        LoginServer::from_config(server).is_some_and(|server| self.0.needs_login(&server))
    }
}

/// The logins of a state directory. Nothing is read or written before the first login.
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
                    if let Ok(server) = registry.server(change.server().as_str()) {
                        reconnections.spawn(apply(change, server));
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
        () = logins.run(|name| registry.server(name.as_str()).is_ok()) => {}
        () = watching => {}
    }
}

async fn apply(change: LoginChange, server: Arc<ServerHandle>) {
    if !server.is_desired_up() {
        return;
    }
    match &change {
        // A session that works takes the new token with its next request.
        LoginChange::LoggedIn(_) if server.view().session.is_some() => return,
        LoginChange::LoggedIn(_) => {}
        // A new attempt says in the server's status what is missing.
        LoginChange::LoggedOut(_) | LoginChange::Ended(_) => wait_until_idle(&server).await,
    }
    let is_logged_out = !matches!(change, LoginChange::LoggedIn(_));
    if is_logged_out && server.view().status.unauthorized {
        // A request has already met the end of the login.
        return;
    }
    if let Err(error) = server.operate(Operation::Reconnect).await {
        tracing::info!(server = %server.name, %error, "not connected after a change of the login");
    }
}

/// Waits for calls in flight, which have a token.
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
