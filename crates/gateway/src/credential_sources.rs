//! The source of credentials of each server, such as a login. `supervisor` passes the source to the
//! server's sessions.

use std::{fmt, pin::Pin, sync::Arc};

use arc_swap::ArcSwapOption;
use mainstay_core::{config::ServerConfig, principal::Principal};
use mainstay_transport::{
    CredentialSource, HeaderLines, RefusedCredentials, RenewedLines,
    logs::{CredentialMark, ServerLog},
};

/// Provides the source of credentials of a server, such as a login.
pub trait CredentialSources: fmt::Debug + Send + Sync {
    /// The source for a principal's sessions with a server that is reached over HTTP. Called whenever
    /// a session opens. The principal of the shared session and of requests to the health URL is
    /// [`Principal::Anonymous`]. `None`: requests have only the headers of the entry.
    fn source(
        &self,
        server: &ServerConfig,
        principal: &Principal,
    ) -> Option<Arc<dyn CredentialSource>>;

    /// True if a person has to log in to the server for this principal.
    fn needs_login(&self, server: &ServerConfig, principal: &Principal) -> bool {
        let _ = (server, principal);
        false
    }

    /// Begins a login of this principal. The error is a text for people.
    fn offer_login<'s>(
        &'s self,
        server: &'s ServerConfig,
        principal: &'s Principal,
    ) -> Offering<'s> {
        let _ = (server, principal);
        Box::pin(async { Err("this Mainstay keeps no logins".to_owned()) })
    }
}

/// The future of [`CredentialSources::offer_login`].
pub type Offering<'s> = Pin<Box<dyn Future<Output = Result<OfferedLogin, String>> + Send + 's>>;

/// A login that a person can complete.
pub struct OfferedLogin {
    /// The address to open in a browser.
    pub url: String,
    /// Resolves when the login exists, even if a person logged in without this address.
    pub completed: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl fmt::Debug for OfferedLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address contains the secret of the login.
        f.debug_struct("OfferedLogin").finish_non_exhaustive()
    }
}

/// A source of credentials that adds its credentials to the redacted secrets of the server's log.
/// The server may quote them in its output.
#[derive(Debug)]
pub struct LoggedSource {
    source: Arc<dyn CredentialSource>,
    log: Arc<ServerLog>,
    mark: Arc<CredentialMark>,
    /// The lines that the log redacts already.
    last_lines: ArcSwapOption<HeaderLines>,
}

impl LoggedSource {
    pub fn new(source: Arc<dyn CredentialSource>, log: Arc<ServerLog>) -> Self {
        Self {
            source,
            log,
            mark: Arc::default(),
            last_lines: ArcSwapOption::empty(),
        }
    }

    fn protect(&self, lines: &HeaderLines) {
        if lines.as_bytes().is_empty() {
            return;
        }
        let last_lines = self.last_lines.load();
        let is_known = last_lines
            .as_ref()
            .is_some_and(|last_lines| last_lines.is_clone_of(lines));
        if !is_known {
            self.log.protect_credentials(&self.mark, lines.values());
            self.last_lines.store(Some(Arc::new(lines.clone())));
        }
    }
}

impl CredentialSource for LoggedSource {
    fn ready_lines(&self) -> Option<HeaderLines> {
        let lines = self.source.ready_lines()?;
        self.protect(&lines);
        Some(lines)
    }

    fn lines(&self) -> RenewedLines<'_> {
        Box::pin(async {
            let lines = self.source.lines().await?;
            self.protect(&lines);
            Ok(lines)
        })
    }

    fn refresh(&self, refused: RefusedCredentials) -> RenewedLines<'_> {
        Box::pin(async {
            let lines = self.source.refresh(refused).await?;
            self.protect(&lines);
            Ok(lines)
        })
    }
}
