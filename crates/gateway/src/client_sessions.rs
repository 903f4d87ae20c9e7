//! The sessions of clients, as the doors that have them report them. Nothing is kept here: the doors are asked when
//! somebody looks, so that a call costs nothing for it.

use std::{
    fmt,
    sync::{Arc, OnceLock, Weak},
    time::SystemTime,
};

use futures_util::future::BoxFuture;
use mainstay_core::{era::Revision, ids::ServerName, record::Origin};

/// A client session.
#[derive(Clone, Debug)]
pub struct OpenSession {
    pub revision: Revision,
    /// What records say of it; the session's name is part of that.
    pub origin: Arc<Origin>,
    /// The one server of its endpoint.
    pub server: Option<ServerName>,
    /// The name under which its client's switches are kept.
    pub client_name: Box<str>,
    pub opened_at: SystemTime,
    /// When a call or a stream of it was begun or ended last.
    pub used_at: SystemTime,
    pub streams: usize,
    pub calls: usize,
}

/// What came of ending a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    Ended,
    /// There is none of this name.
    Unknown,
    /// Its client is on stdio: it ends with its client.
    OfStdio,
}

/// Which sessions are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Those of the endpoint of this server alone.
    pub server: Option<&'a str>,
    /// Those that are older: [`Page::next`] of the page before.
    pub before: Option<u64>,
    /// How many at most, 1 or more.
    pub limit: usize,
}

/// Sessions, the newest first.
#[derive(Clone, Debug, Default)]
pub struct Page {
    pub sessions: Vec<OpenSession>,
    /// How many there are on all pages.
    pub total: usize,
    /// Where older ones follow.
    pub next: Option<u64>,
}

/// The doors that have sessions.
pub trait SessionDoors: fmt::Debug + Send + Sync {
    /// The newest sessions that fit.
    fn newest(&self, wanted: &Wanted<'_>) -> Page;

    /// Ends the session that records call so; when this resolves, no run knows it any more.
    fn end<'a>(&'a self, name: &'a str) -> BoxFuture<'a, SessionEnd>;
}

/// The way to the doors. They hold the gateway, so the gateway does not hold them.
#[derive(Debug, Default)]
pub struct ClientSessions(OnceLock<Weak<dyn SessionDoors>>);

impl ClientSessions {
    /// The doors say at the start where they are.
    pub fn are_of(&self, doors: Weak<dyn SessionDoors>) {
        // One set of doors to a gateway: a second one would be a mistake, and changes nothing.
        let taken = self.0.set(doors);
        debug_assert!(taken.is_ok(), "the doors report once");
    }

    /// `None` where there are no doors, or no more.
    pub fn doors(&self) -> Option<Arc<dyn SessionDoors>> {
        self.0.get()?.upgrade()
    }
}
