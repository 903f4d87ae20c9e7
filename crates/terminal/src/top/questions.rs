//! The questions to the daemon, and the times at which they are due. No question is repeated before
//! it is answered.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use super::rows::{Mood, Row};

/// The interval between two queries for figures.
const FIGURES_EVERY: Duration = Duration::from_secs(1);

/// The interval between two queries for all servers while no event reports a change.
const SERVERS_EVERY: Duration = Duration::from_secs(10);

/// The interval between two queries for a connecting server. They are needed because no event
/// reports its progress.
const START_EVERY: Duration = Duration::from_secs(2);

/// The maximum number of changed servers that are queried one by one. For more servers, one query
/// asks for all.
const SINGLE_REQUESTS: usize = 8;

/// A question to the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DaemonQuestion {
    Servers,
    Server(String),
    Figures,
}

/// Open and due questions.
#[derive(Debug)]
pub struct DaemonQuestions {
    /// Questions that wait for an answer.
    open: HashSet<DaemonQuestion>,
    /// Servers that may have changed since their last query.
    changed: HashSet<String>,
    figures_at: Option<Instant>,
    servers_at: Instant,
    starts_at: Instant,
}

impl DaemonQuestions {
    pub fn new(now: Instant) -> Self {
        Self {
            open: HashSet::new(),
            changed: HashSet::new(),
            figures_at: None,
            servers_at: now,
            starts_at: now,
        }
    }

    /// Resets the questions for a new connection, which may lead to another daemon.
    pub fn begin(&mut self) {
        self.open.clear();
        self.changed.clear();
        self.figures_at = None;
    }

    /// Drops open questions after the daemon has gone.
    pub fn give_up(&mut self) {
        self.open.clear();
    }

    /// Closes a question that was answered or that failed.
    pub fn close(&mut self, question: &DaemonQuestion) {
        self.open.remove(question);
    }

    /// Records that all servers are up to date.
    pub fn know_all(&mut self, now: Instant) {
        self.servers_at = now;
        self.changed.clear();
    }

    /// Makes a query for all servers due at once.
    pub fn want_all(&mut self, now: Instant) {
        self.servers_at = now.checked_sub(SERVERS_EVERY).unwrap_or(now);
    }

    /// Makes a query for this server due.
    pub fn mark_changed(&mut self, server: String) {
        self.changed.insert(server);
    }

    /// The questions that are due.
    pub fn due(&mut self, rows: &[Row], now: Instant) -> Vec<DaemonQuestion> {
        let mut due = self.of_servers(rows, now);
        let is_due = self.figures_at.is_none_or(|at| now >= at + FIGURES_EVERY);
        if is_due && self.open.insert(DaemonQuestion::Figures) {
            self.figures_at = Some(now);
            due.push(DaemonQuestion::Figures);
        }
        due
    }

    fn of_servers(&mut self, rows: &[Row], now: Instant) -> Vec<DaemonQuestion> {
        if now >= self.starts_at + START_EVERY {
            self.starts_at = now;
            let is_at_work = |row: &&Row| {
                row.mood == Mood::Trying && row.countdown(now).is_none_or(|left| left == 0)
            };
            let at_work = rows.iter().filter(is_at_work);
            self.changed.extend(at_work.map(|row| row.name.clone()));
        }
        let mut due = Vec::new();
        let is_due = now >= self.servers_at + SERVERS_EVERY;
        if is_due || self.changed.len() > SINGLE_REQUESTS {
            if self.open.insert(DaemonQuestion::Servers) {
                self.changed.clear();
                due.push(DaemonQuestion::Servers);
            }
            return due;
        }
        let open = &mut self.open;
        self.changed.retain(|name| {
            let question = DaemonQuestion::Server(name.clone());
            let is_open = !open.insert(question.clone());
            if !is_open {
                due.push(question);
            }
            is_open
        });
        due
    }
}
