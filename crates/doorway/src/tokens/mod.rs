//! The control token, which opens all doors, and clients' tokens, which open the MCP endpoints. They
//! are read for every new connection, and may change meanwhile.

mod book;

use std::{
    io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwap;
use mainstay_api as api;
use mainstay_core::{
    config::Secret,
    principal::{ClientName, InvalidClientName},
};
use mainstay_platform::{
    state::{self, StateDir, StateError},
    utc,
};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::tokens::book::{Book, Fingerprint};
pub use crate::tokens::book::{ClientToken, Pass, same};

/// The beginning of clients' tokens, by which a token that was left somewhere can be recognised. A more
/// general one, `mcp_`, would be taken for another program's.
pub const PREFIX: &str = "mst_";

/// All tokens of one daemon; cloning shares them.
#[derive(Clone, Debug)]
pub struct Tokens(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Where changes are kept; without one they end with this run.
    dir: Option<StateDir>,
    book: ArcSwap<Book>,
    changes: watch::Sender<()>,
    /// Changes come one after the other; held by threads that may block, while a file is written.
    changing: Mutex<()>,
}

/// Those of one moment: as long as [`Edition::is_current`], what was found in it holds.
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
    #[error("a token lasts from a second to {0} days, or until it is removed")]
    Lifetime(u64),
    /// The file of tokens cannot be read. It does not count as empty, which could open the door.
    #[error("{} cannot be read", path.display())]
    Unreadable {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error(transparent)]
    State(#[from] StateError),
}

impl TokenError {
    /// The word that programs compare.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Name(_) => "invalid_token_name",
            Self::Lifetime(_) => "invalid_lifetime",
            Self::Taken(_) => "token_exists",
            Self::Unknown(_) => "token_not_found",
            Self::TooMany(_) => "too_many_tokens",
            Self::Unreadable { .. } | Self::State(_) => "state_unusable",
        }
    }
}

/// A control token that is kept nowhere.
impl From<Secret> for Tokens {
    fn from(control: Secret) -> Self {
        Self::of(None, &control, Vec::new())
    }
}

impl Tokens {
    fn of(dir: Option<StateDir>, control: &Secret, clients: Vec<ClientToken>) -> Self {
        let control = Fingerprint::of(control.expose().as_bytes());
        Self(Arc::new(Shared {
            dir,
            book: ArcSwap::from_pointee(Book { control, clients }),
            changes: watch::Sender::new(()),
            changing: Mutex::default(),
        }))
    }

    /// Those of a state directory, which must be the caller's own.
    pub fn open(dir: StateDir, control: &Secret) -> Result<Self, TokenError> {
        let clients = read(&dir)?;
        Ok(Self::of(Some(dir), control, clients))
    }

    /// The bearer of this token now.
    pub fn bearer(&self, token: &[u8]) -> Option<Pass> {
        self.0.book.load().bearer(token, SystemTime::now())
    }

    pub fn edition(&self) -> Edition {
        Edition(self.0.book.load_full())
    }

    /// Whether clients have tokens, expired ones among them: a door does not open because a time has come.
    pub fn has_clients(&self) -> bool {
        !self.0.book.load().clients.is_empty()
    }

    pub fn clients(&self) -> Vec<ClientToken> {
        self.0.book.load().clients.clone()
    }

    /// Changes whenever a token does.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.0.changes.subscribe()
    }

    /// Makes a client's token, which only the caller learns. Blocks while a file is written, as the
    /// other changing methods do.
    pub fn add(
        &self,
        name: &str,
        lifetime: Option<Duration>,
    ) -> Result<(Secret, ClientToken), TokenError> {
        let name = ClientName::new(name)?;
        let token = Secret::new(format!("{PREFIX}{}", state::random_token()?.expose()));
        self.change(|book, dir| {
            let bytes = token.expose().as_bytes();
            let client = book.add(name, bytes, lifetime, SystemTime::now())?;
            keep(dir, &book.clients)?;
            Ok((token.clone(), client))
        })
    }

    pub fn remove(&self, name: &str) -> Result<ClientToken, TokenError> {
        self.change(|book, dir| {
            let client = book.remove(name)?;
            keep(dir, &book.clients)?;
            Ok(client)
        })
    }

    /// Makes a new control token; the old one opens nothing any more.
    pub fn rotate(&self) -> Result<Secret, TokenError> {
        self.change(|book, dir| {
            let token = state::random_token()?;
            if let Some(dir) = dir {
                dir.replace_token(&token)?;
            }
            book.control = Fingerprint::of(token.expose().as_bytes());
            Ok(token)
        })
    }

    /// What was not kept does not hold either.
    fn change<T>(
        &self,
        edit: impl FnOnce(&mut Book, Option<&StateDir>) -> Result<T, TokenError>,
    ) -> Result<T, TokenError> {
        let _turn = self.0.changing.lock();
        let mut book = Book::clone(&self.0.book.load());
        let done = edit(&mut book, self.0.dir.as_ref())?;
        self.0.book.store(Arc::new(book));
        self.0.changes.send_replace(());
        Ok(done)
    }
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
    }
}

/// The clients' tokens of a state directory. What is not there has none.
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

fn keep(dir: Option<&StateDir>, clients: &[ClientToken]) -> Result<(), TokenError> {
    let Some(dir) = dir else { return Ok(()) };
    let path = dir.client_tokens();
    let written = book::to_json(clients)
        .map_err(io::Error::from)
        .and_then(|text| state::write_private(&path, &text));
    Ok(written.map_err(|source| StateError::Io { path, source })?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// What changes holds at once, and for the runs that come.
    #[test]
    fn changes_hold_at_once_and_are_kept() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dir = StateDir::new(folder.path());
        let owner = dir.clone().own().expect("owned");
        let tokens = Tokens::open(dir.clone(), &owner.token).expect("none yet");
        let before = tokens.edition();
        let (token, _) = tokens.add("laptop", None).expect("added");
        let opens = |tokens: &Tokens, token: &Secret| {
            let pass = tokens.bearer(token.expose().as_bytes());
            pass.map(|pass| pass.principal.to_string())
        };
        assert!(token.expose().starts_with(PREFIX) && !before.is_current(&tokens));
        assert_eq!(opens(&tokens, &token).as_deref(), Some("client:laptop"));

        let old = owner.token.clone();
        let new = tokens.rotate().expect("rotated");
        assert_eq!(opens(&tokens, &old), None);
        assert_eq!(opens(&tokens, &new).as_deref(), Some("operator"));

        drop(owner);
        let owner = dir.clone().own().expect("owned again");
        assert_eq!(owner.token, new);
        let again = Tokens::open(dir.clone(), &owner.token).expect("readable");
        assert_eq!(opens(&again, &token).as_deref(), Some("client:laptop"));
        again.remove("laptop").expect("removed");
        assert_eq!(opens(&again, &token), None);
        assert!(read(&dir).expect("readable").is_empty());
    }

    /// A list that cannot be read must not open the door, nor one that cannot be written.
    #[test]
    fn what_cannot_be_kept_does_not_hold() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dir = StateDir::new(folder.path());
        fs::write(dir.client_tokens(), "{").expect("written");
        let control = Secret::new("control");
        let opened = Tokens::open(dir.clone(), &control);
        assert!(matches!(opened, Err(TokenError::Unreadable { .. })));
        fs::remove_file(dir.client_tokens()).expect("removed");

        let tokens = Tokens::open(dir.clone(), &control).expect("none");
        folder.close().expect("removed");
        tokens.add("a", None).expect_err("nowhere to keep it");
        tokens.rotate().expect_err("nowhere to keep it");
        assert!(!tokens.has_clients() && tokens.bearer(b"control").is_some());
    }
}
