//! Tokens and browser sessions. The control token opens all doors. A client's token opens the MCP
//! endpoints. A browser session lets the web page use the REST API. Tokens may change at any time.

mod book;
mod browsers;
mod codes;

use std::{
    io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use arc_swap::ArcSwap;
use mainstay_api as api;
use mainstay_core::{
    access::TokenLimits,
    config::Secret,
    ids::{InvalidProfileName, ProfileName},
    principal::{ClientName, InvalidClientName},
};
use mainstay_platform::{
    state::{self, StateDir, StateError},
    utc,
};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{
    book::{Book, Fingerprint},
    codes::Codes,
};
pub use crate::{
    book::{ClientToken, Pass, same},
    browsers::{BrowserSession, LIFETIME as SESSION_LIFETIME},
    codes::LIFETIME as CODE_LIFETIME,
};

/// The prefix of clients' tokens, by which tools recognise a leaked token. Other programs may use a
/// more general prefix such as `mcp_`.
pub const PREFIX: &str = "mst_";

/// Lifetime of a download ticket. A browser begins a download at once.
const TICKET_LIFETIME: Duration = Duration::from_mins(1);

/// A session of a browser that has just signed in. Only the caller gets the two secrets.
#[derive(Debug)]
pub struct NewSession {
    /// The secret in the cookie.
    pub secret: Secret,
    /// The key that Mainstay's page stores.
    pub page_key: Secret,
    pub expires_at: SystemTime,
}

/// All tokens and browser sessions of one daemon. Clones share them.
#[derive(Clone, Debug)]
pub struct Tokens(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The directory in which changes are stored. Without one, changes end with this run.
    dir: Option<StateDir>,
    book: ArcSwap<Book>,
    changes: watch::Sender<()>,
    /// One-time codes for sign-ins. Locked for one operation, never across an await.
    codes: Mutex<Codes>,
    /// Tickets for downloads. Locked for one operation, never across an await.
    tickets: Mutex<Codes>,
    /// Serialises changes. A blocking thread holds the lock while it writes a file.
    changing: Mutex<()>,
}

/// The tokens at one moment. A decision based on them is valid while [`Edition::is_current`].
#[derive(Clone, Debug)]
pub struct Edition(Arc<Book>);

#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error(transparent)]
    Name(#[from] InvalidClientName),
    #[error("there is a token named {0} already; remove it first")]
    Taken(ClientName),
    #[error("there is no token named {0}")]
    Unknown(String),
    #[error("there are {0} tokens already; remove one first")]
    TooMany(usize),
    #[error(transparent)]
    Profile(#[from] InvalidProfileName),
    #[error("a token lasts from a second to {0} days, or until it is removed")]
    Lifetime(u64),
    /// The file with the tokens cannot be read. It must not count as empty, because without tokens
    /// every client has access.
    #[error("{} cannot be read", path.display())]
    Unreadable {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error(transparent)]
    State(#[from] StateError),
}

impl TokenError {
    /// The machine-readable error code of REST.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Name(_) => "invalid_token_name",
            Self::Lifetime(_) => "invalid_lifetime",
            Self::Profile(_) => "profile_not_found",
            Self::Taken(_) => "token_exists",
            Self::Unknown(_) => "token_not_found",
            Self::TooMany(_) => "too_many_tokens",
            Self::Unreadable { .. } | Self::State(_) => "state_unusable",
        }
    }
}

/// Creates tokens with only this control token. Changes are not stored.
impl From<Secret> for Tokens {
    fn from(control: Secret) -> Self {
        let control = Fingerprint::new(control.expose().as_bytes());
        Self::with_book(None, Book::new(control, Vec::new()))
    }
}

impl Tokens {
    fn with_book(dir: Option<StateDir>, book: Book) -> Self {
        Self(Arc::new(Shared {
            dir,
            book: ArcSwap::from_pointee(book),
            changes: watch::Sender::new(()),
            codes: Mutex::default(),
            tickets: Mutex::default(),
            changing: Mutex::default(),
        }))
    }

    /// Reads the tokens of a state directory. The caller must own the directory.
    pub fn open(dir: StateDir, control: &Secret) -> Result<Self, TokenError> {
        let control = Fingerprint::new(control.expose().as_bytes());
        let mut book = Book::new(control, read(&dir)?);
        book.sessions = read_sessions(&dir, &book.control);
        Ok(Self::with_book(Some(dir), book))
    }

    /// The principal of this token now.
    pub fn bearer(&self, token: &[u8]) -> Option<Pass> {
        self.0.book.load().bearer(token, SystemTime::now())
    }

    pub fn edition(&self) -> Edition {
        Edition(self.0.book.load_full())
    }

    /// True if any client has a token. Expired tokens count: otherwise, an expiry would give every
    /// client access.
    pub fn has_clients(&self) -> bool {
        !self.0.book.load().clients().is_empty()
    }

    /// The limits of a client's token. `None` if there is no token of this name.
    pub fn limits_of(&self, client: &ClientName) -> Option<Arc<TokenLimits>> {
        self.0.book.load().limits_of(client).cloned()
    }

    pub fn clients(&self) -> Vec<ClientToken> {
        self.0.book.load().clients().to_vec()
    }

    /// Notifies of every change of tokens and sessions.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.0.changes.subscribe()
    }

    /// Creates a client's token. Only the caller gets it. Blocks while a file is written, like all
    /// methods that change tokens.
    pub fn add(
        &self,
        name: &str,
        lifetime: Option<Duration>,
    ) -> Result<(Secret, ClientToken), TokenError> {
        self.add_limited(name, lifetime, TokenLimits::default())
    }

    /// Creates a client's token with limits.
    pub fn add_limited(
        &self,
        name: &str,
        lifetime: Option<Duration>,
        limits: TokenLimits,
    ) -> Result<(Secret, ClientToken), TokenError> {
        let name = ClientName::new(name)?;
        let token = Secret::new(format!("{PREFIX}{}", state::random_token()?.expose()));
        self.change(|book, dir| {
            let bytes = token.expose().as_bytes();
            let client = book.add(name, bytes, lifetime, limits, SystemTime::now())?;
            keep(dir, book.clients())?;
            Ok((token.clone(), client))
        })
    }

    pub fn remove(&self, name: &str) -> Result<ClientToken, TokenError> {
        self.change(|book, dir| {
            let client = book.remove(name)?;
            keep(dir, book.clients())?;
            Ok(client)
        })
    }

    /// Replaces the control token. The old token becomes invalid, and all browsers are signed out.
    pub fn rotate(&self) -> Result<Secret, TokenError> {
        self.change(|book, dir| {
            let token = state::random_token()?;
            if let Some(dir) = dir {
                dir.replace_token(&token)?;
            }
            book.control = Fingerprint::new(token.expose().as_bytes());
            book.sessions.clear();
            self.0.codes.lock().clear();
            keep_sessions(dir, book);
            Ok(token)
        })
    }

    /// The browser session with this secret, unless it has expired.
    pub fn session(&self, secret: &[u8]) -> Option<BrowserSession> {
        let book = self.0.book.load();
        book.session(secret, SystemTime::now()).cloned()
    }

    /// Starts a browser session. Ends `former`, the earlier session of the same browser.
    pub fn sign_in(
        &self,
        former: Option<&Secret>,
        lifetime: Duration,
    ) -> Result<NewSession, TokenError> {
        let (secret, page_key) = (state::random_token()?, state::random_token()?);
        self.change(|book, dir| {
            if let Some(former) = former {
                book.sign_out(former.expose().as_bytes());
            }
            let [bytes, key] = [&secret, &page_key].map(|secret| secret.expose().as_bytes());
            let expires_at = book.sign_in(bytes, key, lifetime, SystemTime::now());
            keep_sessions(dir, book);
            Ok(NewSession {
                secret: secret.clone(),
                page_key: page_key.clone(),
                expires_at,
            })
        })
    }

    /// Ends a browser session.
    pub fn sign_out(&self, secret: &Secret) -> Result<(), TokenError> {
        self.change(|book, dir| {
            book.sign_out(secret.expose().as_bytes());
            keep_sessions(dir, book);
            Ok(())
        })
    }

    /// Creates a one-time code that signs a browser in.
    pub fn make_code(&self) -> Result<Secret, TokenError> {
        let code = state::random_token()?;
        let bytes = code.expose().as_bytes();
        self.0
            .codes
            .lock()
            .add(bytes, CODE_LIFETIME, Instant::now());
        Ok(code)
    }

    /// Creates a ticket for one request of `path` without a page key. Only the browser of this
    /// session can use it.
    pub fn make_ticket(&self, session: &Secret, path: &str) -> Result<Secret, TokenError> {
        let ticket = state::random_token()?;
        let code = ticket_code(&ticket, session, path);
        self.0
            .tickets
            .lock()
            .add(code.as_bytes(), TICKET_LIFETIME, Instant::now());
        Ok(ticket)
    }

    /// True if the ticket is valid for this path and session. The ticket becomes invalid.
    pub fn take_ticket(&self, ticket: &Secret, session: &Secret, path: &str) -> bool {
        let code = ticket_code(ticket, session, path);
        self.0.tickets.lock().take(code.as_bytes(), Instant::now())
    }

    /// True if the code is valid. The code becomes invalid.
    pub fn take_code(&self, code: &[u8]) -> bool {
        self.0.codes.lock().take(code, Instant::now())
    }

    /// The delay for the next answer to a wrong code or token.
    pub fn failure_delay(&self) -> Duration {
        self.0.codes.lock().delay(Instant::now())
    }

    /// Stores a changed copy of the book, then replaces the book. If the copy cannot be stored, the
    /// change has no effect.
    fn change<T>(
        &self,
        edit: impl FnOnce(&mut Book, Option<&StateDir>) -> Result<T, TokenError>,
    ) -> Result<T, TokenError> {
        let _turn = self.0.changing.lock();
        let mut book = Book::clone(&self.0.book.load());
        let outcome = edit(&mut book, self.0.dir.as_ref())?;
        self.0.book.store(Arc::new(book));
        self.0.changes.send_replace(());
        Ok(outcome)
    }
}

/// The text whose hash is stored for a ticket. It binds the ticket to its session and path.
fn ticket_code(ticket: &Secret, session: &Secret, path: &str) -> String {
    format!("{} {} {path}", ticket.expose(), session.expose())
}

impl Edition {
    pub fn is_current(&self, tokens: &Tokens) -> bool {
        Arc::ptr_eq(&self.0, &tokens.0.book.load())
    }
}

impl From<&ClientToken> for api::ClientToken {
    fn from(client: &ClientToken) -> Self {
        Self {
            name: client.name.to_string(),
            created_at: utc::rfc3339(client.created_at),
            expires_at: client.expires_at.map(utc::rfc3339),
            expired: client.has_expired(SystemTime::now()),
            limits: limits(client),
        }
    }
}

/// A new token, as REST shows it once.
pub fn added(token: &Secret, client: &ClientToken) -> api::AddedToken {
    api::AddedToken {
        name: client.name.to_string(),
        token: token.expose().to_owned(),
        created_at: utc::rfc3339(client.created_at),
        expires_at: client.expires_at.map(utc::rfc3339),
        limits: limits(client),
    }
}

/// The limits of a token, in the form of REST.
pub fn limits(client: &ClientToken) -> api::TokenLimits {
    api::TokenLimits {
        profiles: (client.limits.profiles.iter())
            .map(ToString::to_string)
            .collect(),
        read_only: client.limits.is_read_only,
    }
}

/// Reads the limits of a new token.
pub fn read_limits(limits: &api::TokenLimits) -> Result<TokenLimits, TokenError> {
    let profiles: Result<_, _> = limits
        .profiles
        .iter()
        .map(|name| ProfileName::new(name))
        .collect();
    Ok(TokenLimits {
        profiles: profiles?,
        is_read_only: limits.read_only,
    })
}

/// The clients' tokens of a state directory. Empty without a file.
pub fn read(dir: &StateDir) -> Result<Vec<ClientToken>, TokenError> {
    let path = dir.client_tokens();
    dir.check()?;
    match state::read_private(&path) {
        Ok(text) => {
            book::from_json(&text).map_err(|source| TokenError::Unreadable { path, source })
        }
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        Err(error) => {
            let source = error.into();
            Err(StateError::Io { path, source }.into())
        }
    }
}

/// Returns the browser sessions in a state directory. Empty if the file is missing or unreadable.
fn read_sessions(dir: &StateDir, control: &Fingerprint) -> Vec<BrowserSession> {
    let path = dir.browser_sessions();
    let sessions = match state::read_private(&path) {
        Ok(text) => browsers::from_json(&text, control).map_err(io::Error::from),
        Err(error) if error.is_not_found() => return Vec::new(),
        Err(error) => Err(error.into()),
    };
    sessions.unwrap_or_else(|error| {
        tracing::warn!(%error, "{} cannot be read: everybody has to sign in again", path.display());
        Vec::new()
    })
}

/// Stores the browser sessions for the next run. Failures are only logged: sign-ins must work on a
/// full disk.
fn keep_sessions(dir: Option<&StateDir>, book: &Book) {
    let Some(dir) = dir else { return };
    let path = dir.browser_sessions();
    let result = browsers::to_json(book)
        .map_err(io::Error::from)
        .and_then(|text| state::write_private(&path, &text));
    if let Err(error) = result {
        tracing::warn!(%error, "{} cannot be written: sign-ins and sign-outs end with this run", path.display());
    }
}

fn keep(dir: Option<&StateDir>, clients: &[ClientToken]) -> Result<(), TokenError> {
    let Some(dir) = dir else { return Ok(()) };
    let path = dir.client_tokens();
    let result = book::to_json(clients)
        .map_err(io::Error::from)
        .and_then(|text| state::write_private(&path, &text));
    Ok(result.map_err(|source| StateError::Io { path, source })?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Changes take effect at once, and are stored for later runs.
    #[test]
    fn changes_apply_at_once_and_are_stored() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dir = StateDir::new(folder.path());
        let owner = dir.clone().take_ownership().expect("owned");
        let tokens = Tokens::open(dir.clone(), &owner.token).expect("none yet");
        let old_edition = tokens.edition();
        let (token, _) = tokens.add("laptop", None).expect("added");
        let bearer_name = |tokens: &Tokens, token: &Secret| {
            let pass = tokens.bearer(token.expose().as_bytes());
            pass.map(|pass| pass.principal.to_string())
        };
        assert!(token.expose().starts_with(PREFIX) && !old_edition.is_current(&tokens));
        assert_eq!(
            bearer_name(&tokens, &token).as_deref(),
            Some("client:laptop")
        );

        let old_token = owner.token.clone();
        let new_token = tokens.rotate().expect("rotated");
        assert_eq!(bearer_name(&tokens, &old_token), None);
        assert_eq!(
            bearer_name(&tokens, &new_token).as_deref(),
            Some("operator")
        );

        drop(owner);
        let owner = dir.clone().take_ownership().expect("owned again");
        assert_eq!(owner.token, new_token);
        let reopened_tokens = Tokens::open(dir.clone(), &owner.token).expect("readable");
        assert_eq!(
            bearer_name(&reopened_tokens, &token).as_deref(),
            Some("client:laptop")
        );
        reopened_tokens.remove("laptop").expect("removed");
        assert_eq!(bearer_name(&reopened_tokens, &token), None);
        assert!(read(&dir).expect("readable").is_empty());
    }

    /// A list of tokens that cannot be read or written gives no client access.
    #[test]
    fn a_change_that_cannot_be_stored_has_no_effect() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dir = StateDir::new(folder.path());
        fs::write(dir.client_tokens(), "{").expect("written");
        let control = Secret::new("control");
        let result = Tokens::open(dir.clone(), &control);
        assert!(matches!(result, Err(TokenError::Unreadable { .. })));
        fs::remove_file(dir.client_tokens()).expect("removed");

        let tokens = Tokens::open(dir.clone(), &control).expect("none");
        folder.close().expect("removed");
        tokens.add("a", None).expect_err("nowhere to keep it");
        tokens.rotate().expect_err("nowhere to keep it");
        assert!(!tokens.has_clients() && tokens.bearer(b"control").is_some());
    }
}
