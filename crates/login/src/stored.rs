//! A login as it is stored in the vault.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::{discovery::IssuerMetadata, identity::ClientIdentity, scopes::Scopes, tokens::Tokens};

/// A login to one server, with everything that a refresh needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredLogin {
    /// The URL of the server. The login is not used for any other URL.
    pub server_url: String,
    /// The value of the `resource` parameter.
    pub resource: String,
    pub issuer: IssuerMetadata,
    pub client: ClientIdentity,
    /// All scopes that were ever requested, so that a new login keeps them.
    pub requested_scopes: Scopes,
    pub tokens: Tokens,
    pub logged_in_at: SystemTime,
    /// The redirect URL for which the client was registered. `None` if Mainstay did not register it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registered_for: Option<String>,
    /// The reason that the login has ended. A person must log in again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

impl StoredLogin {
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a login is JSON")
    }

    /// Parses a stored login. The error has the position of the unreadable member, and no value.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, UnreadableLogin> {
        serde_json::from_slice(bytes).map_err(|error| UnreadableLogin {
            line: error.line(),
            column: error.column(),
        })
    }
}

/// A stored login that this version cannot read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stored login cannot be read (line {line}, column {column}); log in again")]
pub struct UnreadableLogin {
    line: usize,
    column: usize,
}
