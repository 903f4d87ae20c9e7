//! The part of a server's entry that a login depends on.

use mainstay_core::{
    config::{Grant, Launch, NetworkSettings, OAuth, ServerConfig, SignIn},
    ids::ServerName,
};
use oauth2::url::Url;

use crate::{identity::ClientIdentity, scopes::Scopes, stored::StoredLogin};

/// A remote server to which Mainstay can log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginServer {
    pub name: ServerName,
    /// The URL of the MCP endpoint.
    pub url: Url,
    pub oauth: OAuth,
    pub network: NetworkSettings,
}

impl LoginServer {
    /// `None` for a server that is a process, or that has credentials of another kind.
    pub fn from_config(server: &ServerConfig) -> Option<Self> {
        let Launch::Http(launch) = &server.launch else {
            return None;
        };
        let SignIn::OAuth(oauth) = &launch.sign_in else {
            return None;
        };
        if launch.has_authorization() {
            return None;
        }
        Some(Self {
            name: server.name.clone(),
            url: Url::parse(&launch.url).ok()?,
            oauth: oauth.clone(),
            network: launch.network.clone(),
        })
    }

    pub fn grant(&self) -> Grant {
        self.oauth.grant
    }

    /// The client of a stored login. The entry may have got another secret for it since.
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
