//! The questions to the daemon, and their times. No question is repeated before it is answered.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use super::rows::{Mood, Row};

/// Time between two queries for figures.
const FIGURES_EVERY: Duration = Duration::from_secs(1);

/// Time between two queries for all servers, even without an event about a change.
const SERVERS_EVERY: Duration = Duration::from_secs(10);

/// Time between two queries for a server that is connecting, because its progress is no event.
const START_EVERY: Duration = Duration::from_secs(2);

/// Number of changed servers above which one request asks for all.
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
    /// Questions without an answer.
    open: HashSet<DaemonQuestion>,
    /// Servers that may have changed since they were queried.
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

    /// Starts anew: the daemon is connected, and may be another one.
    pub fn begin(&mut self) {
        self.open.clear();
        self.changed.clear();
        self.figures_at = None;
    }

    /// Drops open questions: the daemon is gone.
    pub fn give_up(&mut self) {
        self.open.clear();
    }

    /// Closes a question that was answered, or will not be.
    pub fn close(&mut self, question: &DaemonQuestion) {
        self.open.remove(question);
    }

    /// Notes that all servers are up to date.
    pub fn know_all(&mut self, now: Instant) {
        self.servers_at = now;
        self.changed.clear();
    }

    /// Makes the next query ask for all servers.
    pub fn want_all(&mut self, now: Instant) {
        self.servers_at = now.checked_sub(SERVERS_EVERY).unwrap_or(now);
    }

    /// Makes the next query ask for this server.
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
