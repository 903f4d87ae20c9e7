//! Records the changes of servers' statuses in the journal.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use mainstay_core::ids::ServerName;
use mainstay_journal::{Journal, Transition};
use mainstay_transport::logs::ServerLog;

/// Records status changes in the journal, if there is a journal.
#[derive(Debug, Default)]
pub struct StatusHistory {
    journal: Option<Arc<Journal>>,
    closed: AtomicBool,
}

impl StatusHistory {
    pub fn new(journal: Option<Arc<Journal>>) -> Self {
        Self {
            journal,
            closed: AtomicBool::new(false),
        }
    }

    /// True if changes are recorded.
    pub fn is_open(&self) -> bool {
        self.journal.is_some() && !self.closed.load(Ordering::Relaxed)
    }

    /// Records a change of a server's status.
    pub fn record(&self, server: &ServerName, log: &ServerLog, transition: Transition) {
        if let Some(journal) = self.journal.as_ref().filter(|_| self.is_open()) {
            journal.note(server.clone(), transition, log.secrets());
        }
    }

    /// Stops recording at shutdown. The journal records the shutdown once, not the stop of each
    /// server.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}
