//! Requests of servers that wait for an answer by hand, because no client could be asked
//! (`serverRequests: "queue"`).

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use mainstay_core::{
    era::code,
    event::{EventKind, Settled},
    ids::ServerName,
    principal::Principal,
};
use mainstay_transport::Question;
use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::watch, time::Instant};
use tokio_util::task::AbortOnDropHandle;

use super::open_questions::{Answerer, OpenQuestions};
use crate::events::Events;

/// How long a request waits.
const PATIENCE: Duration = Duration::from_mins(10);

/// Requests that wait at once; one more is refused.
const MAX_WAITING: usize = 256;

#[derive(Debug, Default)]
pub struct Queue {
    state: Mutex<State>,
    /// Told when a request is entered.
    news: watch::Sender<()>,
    /// Of the daemon.
    events: Events,
    /// All that servers have asked, with what clients are to answer.
    open: Arc<OpenQuestions>,
}

#[derive(Debug, Default)]
struct State {
    last_id: u64,
    waiting: BTreeMap<u64, Waiting>,
}

/// The session that caused a request, and its call where it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub principal: Principal,
    /// The name that its client declared.
    pub client: Option<String>,
    /// The server's own name of the tool or prompt, or the URI of the resource.
    pub name: Option<Arc<str>>,
}

#[derive(Debug)]
struct Waiting {
    server: ServerName,
    cause: Option<Cause>,
    question: Question,
    asked_at: SystemTime,
    until: Instant,
    /// Ends it when its answer would reach nobody.
    _end: Option<AbortOnDropHandle<()>>,
}

/// A request that waits.
#[derive(Clone, Debug)]
pub struct Queued {
    pub id: u64,
    pub server: ServerName,
    /// Known where a single client can have caused it.
    pub cause: Option<Cause>,
    pub method: String,
    /// JSON text.
    pub params: String,
    pub asked_at: SystemTime,
}

impl Queue {
    /// Tells of its requests in these events.
    pub fn new(events: Events) -> Self {
        Self {
            events,
            ..Self::default()
        }
    }

    /// All that servers have asked, with what clients are to answer.
    pub fn open_questions(&self) -> &Arc<OpenQuestions> {
        &self.open
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Held for a map operation, never across an await.
        self.state.lock()
    }

    /// A request of this server, and its cause where it is known. One too many is refused: it is
    /// dropped.
    pub fn enter(
        self: &Arc<Self>,
        server: &ServerName,
        cause: Option<Cause>,
        mut question: Question,
    ) {
        self.expire();
        self.open.show(server, Answerer::Operator, &mut question);
        let mut state = self.state();
        if state.waiting.len() >= MAX_WAITING {
            question.hindered("too many requests wait for an answer by hand");
            tracing::warn!(%server, "a request of the server was refused: too many are waiting");
            return;
        }
        state.last_id += 1;
        let id = state.last_id;
        let method = question.frame().method_name();
        let queue = Arc::downgrade(self);
        let end = question.when_over(move || {
            if let Some(queue) = queue.upgrade() {
                queue.end(id);
            }
        });
        let waiting = Waiting {
            server: server.clone(),
            cause,
            question,
            asked_at: SystemTime::now(),
            until: Instant::now() + PATIENCE,
            _end: end,
        };
        // Under the lock, so that the end of the request is told after its beginning.
        let kind = EventKind::ServerRequestWaiting { id, method };
        self.events.publish(Some(server), kind);
        state.waiting.insert(id, waiting);
        drop(state);
        self.news.send_replace(());
    }

    /// Tells of requests that are entered from now on.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    /// The waiting requests, oldest first.
    pub fn list(&self) -> Vec<Queued> {
        self.expire();
        let shown = |(id, waiting): (&u64, &Waiting)| {
            let frame = waiting.question.frame();
            Queued {
                id: *id,
                server: waiting.server.clone(),
                cause: waiting.cause.clone(),
                method: frame.method_name(),
                params: frame.params().unwrap_or("{}").to_owned(),
                asked_at: waiting.asked_at,
            }
        };
        self.state().waiting.iter().map(shown).collect()
    }

    /// Takes one out, to be answered or refused.
    pub fn take(&self, id: u64, outcome: Settled) -> Option<Question> {
        self.expire();
        if self.is_over(id) {
            self.end(id);
        }
        let waiting = self.state().waiting.remove(&id)?;
        self.tell_settled(id, &waiting, outcome);
        Some(waiting.question)
    }

    fn is_over(&self, id: u64) -> bool {
        let state = self.state();
        let waiting = state.waiting.get(&id);
        waiting.is_some_and(|waiting| waiting.question.is_over())
    }

    /// Ends a request whose answer would reach nobody.
    fn end(&self, id: u64) {
        let waiting = self.state().waiting.remove(&id);
        if let Some(waiting) = waiting {
            let outcome = match waiting.question.taken_back() {
                Some(_) => Settled::TakenBack,
                None => Settled::Disconnected,
            };
            self.tell_settled(id, &waiting, outcome);
            waiting.question.end();
        }
    }

    fn tell_settled(&self, id: u64, waiting: &Waiting, outcome: Settled) {
        let method = waiting.question.frame().method_name();
        let kind = EventKind::ServerRequestSettled {
            id,
            method,
            outcome,
        };
        self.events.publish(Some(&waiting.server), kind);
    }

    /// Refuses requests that have waited for too long.
    pub fn expire(&self) {
        let now = Instant::now();
        let expired = {
            let mut state = self.state();
            let expired = state
                .waiting
                .extract_if(.., |_, waiting| waiting.until <= now);
            expired.collect::<Vec<_>>()
        };
        for (id, waiting) in expired {
            self.tell_settled(id, &waiting, Settled::Expired);
            waiting
                .question
                .refuse(code::INTERNAL_ERROR, "nobody answered in time");
        }
    }
}
