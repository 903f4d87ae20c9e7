//! The part of a server's entry on which a login depends.

use mainstay_core::{
    config::{Grant, Launch, NetworkSettings, OAuth, ServerConfig},
    ids::ServerName,
    principal::ClientName,
};
use oauth2::url::Url;

use crate::{identity::ClientIdentity, scopes::Scopes, stored::StoredLogin};

/// Separates the server from the client in the name of a client's login. Server names never contain it.
pub(crate) const OWNER_MARK: char = '@';

/// A remote server to which Mainstay can log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginServer {
    pub name: ServerName,
    /// The client that owns the login. `None` for the login of Mainstay itself, which all clients share unless
    /// `oauth.perPrincipal` is set.
    pub client: Option<ClientName>,
    /// The URL of the MCP endpoint.
    pub url: Url,
    pub oauth: OAuth,
    pub network: NetworkSettings,
}

impl LoginServer {
    /// `None` for a stdio server, or a server with credentials of another kind.
    pub fn from_config(server: &ServerConfig) -> Option<Self> {
        let Launch::Http(launch) = &server.launch else {
            return None;
        };
        let oauth = launch.oauth()?;
        Some(Self {
            name: server.name.clone(),
            client: None,
            url: Url::parse(&launch.url).ok()?,
            oauth: oauth.clone(),
            network: launch.network.clone(),
        })
    }

    /// The same server with a client's own login.
    #[must_use]
    pub fn of_client(self, client: Option<ClientName>) -> Self {
        Self { client, ..self }
    }

    /// The name of the login in the vault.
    pub fn entry(&self) -> String {
        match &self.client {
            Some(client) => format!("{}{OWNER_MARK}{client}", self.name),
            None => self.name.to_string(),
        }
    }

    pub fn grant(&self) -> Grant {
        self.oauth.grant
    }

    /// The client of a stored login. The entry may have got another secret for this client since.
    pub(crate) fn client_of(&self, login: &StoredLogin) -> ClientIdentity {
        let mut client = login.client.clone();
        if self.oauth.client_id.as_ref() == Some(&client.id) {
            client.secret.clone_from(&self.oauth.client_secret);
        }
        client
    }

    pub fn configured_scopes(&self) -> Scopes {
        self.oauth.scopes.iter().map(String::as_str).collect()
    }
}
