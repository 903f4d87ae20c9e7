//! Credentials for requests to a remote server, in addition to the headers of its entry.

use std::time::Duration;

use super::Secret;

/// The source of a remote server's credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignIn {
    /// A login with OAuth 2.1, if the server requires one.
    OAuth(OAuth),
    /// A command that writes headers.
    Helper(HeadersHelper),
    /// Only the headers of the entry.
    HeadersOnly,
}

impl Default for SignIn {
    fn default() -> Self {
        Self::OAuth(OAuth::default())
    }
}

/// A command whose output becomes headers of requests (`headersHelper`).
#[derive(Clone, PartialEq, Eq)]
pub struct HeadersHelper {
    /// A command line for the shell. It may contain secrets, which `Debug` hides.
    pub command: String,
    /// Time limit of the command (default 10 s).
    pub time_limit: Duration,
    /// Time for which the headers are reused. `None` reuses them until the server refuses them.
    pub ttl: Option<Duration>,
}

impl std::fmt::Debug for HeadersHelper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeadersHelper")
            .field("command", &format_args!("***"))
            .field("time_limit", &self.time_limit)
            .field("ttl", &self.ttl)
            .finish()
    }
}

/// The settings of a login. Mainstay discovers the missing settings and registers itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OAuth {
    /// The id of a client that was registered in advance.
    pub client_id: Option<String>,
    /// The secret of that client.
    pub client_secret: Option<Secret>,
    /// The URL of a Client ID Metadata Document. The URL is used as the client id if the
    /// authorization server accepts such documents.
    pub client_metadata_url: Option<String>,
    /// The URL of the authorization server. Needed if the server names several or none.
    pub issuer: Option<String>,
    /// Scopes to request instead of those that the server names.
    pub scopes: Vec<String>,
    pub grant: Grant,
    /// True if each client with a token has its own login.
    pub per_principal: bool,
    /// A private key in PEM, for the authentication of the client (RFC 7523).
    pub private_key: Option<Secret>,
    /// The port of the loopback redirect URI. Needed if the client's registration fixes the port.
    pub callback_port: Option<u16>,
}

/// The grant that obtains the first token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grant {
    /// A person logs in with a browser, or with a code on another device.
    #[default]
    Person,
    /// The client's own credentials, for machines without a person (RFC 6749, 4.4).
    ClientCredentials,
}
