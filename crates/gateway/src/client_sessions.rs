//! The clients' sessions, as reported by the doors that have them. Nothing is stored here: the
//! doors are queried on demand, so that calls cost nothing.

use std::{
    fmt,
    sync::{Arc, OnceLock, Weak},
    time::SystemTime,
};

use futures_util::future::BoxFuture;
use mainstay_core::{era::Revision, ids::ServerName, record::CallOrigin};

/// A client session.
#[derive(Clone, Debug)]
pub struct OpenSession {
    pub revision: Revision,
    /// The client in its records, which includes the session's name.
    pub origin: Arc<CallOrigin>,
    /// The server of a transparent endpoint.
    pub server: Option<ServerName>,
    /// The name under which the client's switches are stored.
    pub client_name: Box<str>,
    pub opened_at: SystemTime,
    /// Time at which a call or a stream of the session last started or ended.
    pub used_at: SystemTime,
    pub streams: usize,
    pub calls: usize,
}

/// The outcome of ending a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    Ended,
    /// There is no session of this name.
    Unknown,
    /// A session on stdio ends only with its client.
    OnStdio,
}

/// A query for sessions.
#[derive(Clone, Copy, Debug)]
pub struct SessionQuery<'a> {
    /// Only sessions of this server's transparent endpoint.
    pub server: Option<&'a str>,
    /// Only older sessions: the [`Page::next`] of the previous page.
    pub before: Option<u64>,
    /// Maximum number of sessions, at least 1.
    pub limit: usize,
}

/// Sessions, the newest first.
#[derive(Clone, Debug, Default)]
pub struct SessionPage {
    pub sessions: Vec<OpenSession>,
    /// Number of sessions on all pages.
    pub total: usize,
    /// The value of `before` for older sessions. `None` on the last page.
    pub next: Option<u64>,
}

/// The doors that have sessions.
pub trait SessionDoors: fmt::Debug + Send + Sync {
    /// The newest sessions that match.
    fn newest(&self, query: &SessionQuery<'_>) -> SessionPage;

    /// Ends the session with this name in records. When this resolves, no door accepts it any more.
    fn end<'a>(&'a self, name: &'a str) -> BoxFuture<'a, SessionEnd>;
}

/// Access to the doors. A weak reference, because the doors hold the gateway.
#[derive(Debug, Default)]
pub struct ClientSessions(OnceLock<Weak<dyn SessionDoors>>);

impl ClientSessions {
    /// Sets the doors at startup.
    pub fn set_doors(&self, doors: Weak<dyn SessionDoors>) {
        // A gateway has one set of doors. A second call is a mistake, and changes nothing.
        let set = self.0.set(doors);
        debug_assert!(set.is_ok(), "the doors report once");
    }

    /// `None` before the doors are set, and after they have ended.
    pub fn doors(&self) -> Option<Arc<dyn SessionDoors>> {
        self.0.get()?.upgrade()
    }
}
