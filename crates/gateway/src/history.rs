//! Puts changes of servers' statuses on record.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use mainstay_core::ids::ServerName;
use mainstay_journal::{Journal, Transition};
use mainstay_transport::logs::ServerLog;

/// The way into the journal, where there is one.
#[derive(Debug, Default)]
pub struct History {
    journal: Option<Arc<Journal>>,
    closed: AtomicBool,
}

impl History {
    pub fn new(journal: Option<Arc<Journal>>) -> Self {
        Self {
            journal,
            closed: AtomicBool::new(false),
        }
    }

    /// Whether anybody takes what is noted.
    pub fn is_open(&self) -> bool {
        self.journal.is_some() && !self.closed.load(Ordering::Relaxed)
    }

    /// The status of a server has changed.
    pub fn note(&self, server: &ServerName, log: &ServerLog, transition: Transition) {
        if let Some(journal) = self.journal.as_ref().filter(|_| self.is_open()) {
            journal.note(server.clone(), transition, log.secrets());
        }
    }

    /// From now on servers stop because Mainstay does, which the journal says once.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}
