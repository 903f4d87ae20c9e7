//! A login as the vault keeps it.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::{discovery::IssuerMetadata, identity::ClientIdentity, scopes::Scopes, tokens::Tokens};

/// A login to one server, with all that a refresh needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredLogin {
    /// The URL of the server. The login is not used for another one.
    pub server_url: String,
    /// The value of the `resource` parameter.
    pub resource: String,
    pub issuer: IssuerMetadata,
    pub client: ClientIdentity,
    /// All scopes that were ever asked for, so that a further login does not lose any.
    pub requested_scopes: Scopes,
    pub tokens: Tokens,
    pub logged_in_at: SystemTime,
    /// The redirect address for which the client was registered. `None` if Mainstay has not registered it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registered_for: Option<String>,
    /// The reason that the login has ended. A person has to log in again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

impl StoredLogin {
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a login is JSON")
    }

    /// The error names the member that cannot be read, and no value.
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
