//! The way to a remote server through the network.

use std::path::PathBuf;

use super::Secret;

/// The proxy and the certificates of requests to one remote server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkSettings {
    pub proxy: ProxyChoice,
    /// A file of PEM with certificates that are trusted beside those of the system. An absolute path.
    pub ca_file: Option<PathBuf>,
    /// A file of PEM with the certificate that the client shows, and those of its issuers. An absolute path.
    pub client_cert: Option<PathBuf>,
    /// A file of PEM with the key of that certificate. `None` if the key is in the certificate's file.
    pub client_key: Option<PathBuf>,
}

impl NetworkSettings {
    /// The settings for another origin than the server's: it does not get to see the client's certificate.
    #[must_use]
    pub fn without_client_certificate(&self) -> Self {
        Self {
            client_cert: None,
            client_key: None,
            ..self.clone()
        }
    }
}

/// The proxy of requests to one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProxyChoice {
    /// The proxy that Mainstay's environment names, if any.
    #[default]
    OfEnvironment,
    /// No proxy, whatever the environment says.
    None,
    /// The proxy with this URL. It was checked, and may hold a password.
    Through(Secret),
}
