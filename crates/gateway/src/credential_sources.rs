//! The source of credentials of each server. `supervisor` gives it to the server's sessions.

use std::{fmt, sync::Arc};

use mainstay_core::config::ServerConfig;
use mainstay_transport::CredentialSource;

/// Finds the source of credentials of a server, such as a login.
pub trait CredentialSources: fmt::Debug + Send + Sync {
    /// The source for all sessions of a server that is reached over HTTP, and for its health URL. It is asked for
    /// whenever a session opens. `None`: the headers of the entry are all that requests have.
    fn source(&self, server: &ServerConfig) -> Option<Arc<dyn CredentialSource>>;

    /// True if a person has to log in to the server.
    fn needs_login(&self, server: &ServerConfig) -> bool {
        let _ = server;
        false
    }
}
