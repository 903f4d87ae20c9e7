//! The login to a remote server with OAuth 2.1, as an entry configures it.

use super::Secret;

/// The settings of a login. Without any, Mainstay finds everything by discovery and registers itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OAuth {
    /// The id of a client that was registered beforehand.
    pub client_id: Option<String>,
    /// The secret of that client.
    pub client_secret: Option<Secret>,
    /// The URL of a Client ID Metadata Document, which is the client's id where the authorization server takes
    /// such documents.
    pub client_metadata_url: Option<String>,
    /// The authorization server, where the server names several or none.
    pub issuer: Option<String>,
    /// Scopes to ask for instead of those that the server names.
    pub scopes: Vec<String>,
    pub grant: Grant,
    /// A private key in PEM, with which the client authenticates itself (RFC 7523).
    pub private_key: Option<Secret>,
    /// The port of the redirect on the loopback address, where a registration fixes it.
    pub callback_port: Option<u16>,
}

/// The grant by which the first token is obtained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grant {
    /// A person logs in, in a browser or with a code on another device.
    #[default]
    Person,
    /// The client's own credentials, for machines without a person (RFC 6749, 4.4).
    ClientCredentials,
}
