//! Network settings for a remote server.

use std::path::PathBuf;

use super::Secret;

/// The proxy and the certificates for requests to one remote server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkSettings {
    pub proxy: ProxyChoice,
    /// Absolute path of a PEM file with CA certificates. They are trusted in addition to the
    /// system's.
    pub ca_file: Option<PathBuf>,
    /// Absolute path of a PEM file with the client certificate and the certificates of its issuers.
    pub client_cert: Option<PathBuf>,
    /// Absolute path of a PEM file with the client's private key. `None` if the key is in
    /// `client_cert`.
    pub client_key: Option<PathBuf>,
}

impl NetworkSettings {
    /// Returns the settings for another origin, such as a proxy. They leave out the client
    /// certificate.
    #[must_use]
    pub fn without_client_certificate(&self) -> Self {
        Self {
            client_cert: None,
            client_key: None,
            ..self.clone()
        }
    }
}

/// The proxy for requests to one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProxyChoice {
    /// The proxy from the environment variables of Mainstay, if they name one.
    #[default]
    OfEnvironment,
    /// No proxy, even if the environment variables name one.
    None,
    /// The proxy with this valid URL, which may contain a password.
    Through(Secret),
}
