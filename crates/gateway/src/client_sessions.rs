//! Access to the client sessions, which the doors hold. The doors are queried on demand, so calls
//! need not update anything here.

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
    /// The client as records show it. Includes the session's name in records.
    pub origin: Arc<CallOrigin>,
    /// The server of a transparent endpoint. `None` on an aggregate endpoint.
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
    /// The session is on stdio. It ends only when its client ends.
    OnStdio,
}

/// A query for sessions.
#[derive(Clone, Copy, Debug)]
pub struct SessionQuery<'a> {
    /// Only sessions of this server's transparent endpoint.
    pub server: Option<&'a str>,
    /// Only sessions older than this: the [`SessionPage::next`] of the previous page.
    pub before: Option<u64>,
    /// Maximum number of sessions, at least 1.
    pub limit: usize,
}

/// A page of sessions, newest first.
#[derive(Clone, Debug, Default)]
pub struct SessionPage {
    pub sessions: Vec<OpenSession>,
    /// Number of sessions on all pages.
    pub total: usize,
    /// The value of [`SessionQuery::before`] for the next page. `None` on the last page.
    pub next: Option<u64>,
}

/// The doors that have sessions.
pub trait SessionDoors: fmt::Debug + Send + Sync {
    /// The newest sessions that match the query.
    fn newest(&self, query: &SessionQuery<'_>) -> SessionPage;

    /// Ends a session. `name` is the session's name in records. When the future resolves, no door
    /// accepts the session any more.
    fn end<'a>(&'a self, name: &'a str) -> BoxFuture<'a, SessionEnd>;
}

/// Access to the doors. The reference is weak, because the doors hold the gateway.
#[derive(Debug, Default)]
pub struct ClientSessions(OnceLock<Weak<dyn SessionDoors>>);

impl ClientSessions {
    /// Sets the doors at startup.
    pub fn set_doors(&self, doors: Weak<dyn SessionDoors>) {
        // A gateway has one set of doors. A second call is a programming error without effect.
        let set = self.0.set(doors);
        debug_assert!(set.is_ok(), "the doors report once");
    }

    /// The doors. `None` before the doors are set, and after they have ended.
    pub fn doors(&self) -> Option<Arc<dyn SessionDoors>> {
        self.0.get()?.upgrade()
    }
}
