//! The queue of servers' questions that wait for a person's answer, because no client could be asked
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
use mainstay_transport::ServerQuestion;
use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::watch, time::Instant};
use tokio_util::task::AbortOnDropHandle;

use super::open_questions::{Answerer, OpenQuestions};
use crate::events::EventRing;

/// Time after which a waiting request is refused.
const PATIENCE: Duration = Duration::from_mins(10);

/// Maximum number of waiting requests. Further requests are refused.
const MAX_WAITING: usize = 256;

#[derive(Debug, Default)]
pub struct Queue {
    state: Mutex<QueueState>,
    /// Notified when a request is added.
    news: watch::Sender<()>,
    /// The daemon's events.
    events: EventRing,
    /// The open questions of all servers, including questions for clients.
    open: Arc<OpenQuestions>,
}

#[derive(Debug, Default)]
struct QueueState {
    last_id: u64,
    waiting: BTreeMap<u64, WaitingRequest>,
}

/// The client that caused a request, and its call if that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub principal: Principal,
    /// The name that the client declared.
    pub client: Option<String>,
    /// The original name of the tool or prompt, or the URI of the resource.
    pub name: Option<Arc<str>>,
}

#[derive(Debug)]
struct WaitingRequest {
    server: ServerName,
    cause: Option<Cause>,
    question: ServerQuestion,
    asked_at: SystemTime,
    until: Instant,
    /// Removes the request when its answer can no longer reach the server.
    _end: Option<AbortOnDropHandle<()>>,
}

/// A waiting request, as a person sees it.
#[derive(Clone, Debug)]
pub struct Queued {
    pub id: u64,
    pub server: ServerName,
    /// The cause. `None` if several clients may have caused the request.
    pub cause: Option<Cause>,
    pub method: String,
    /// JSON text.
    pub params: String,
    pub asked_at: SystemTime,
}

impl Queue {
    /// An empty queue, which publishes its requests as events.
    pub fn new(events: EventRing) -> Self {
        Self {
            events,
            ..Self::default()
        }
    }

    /// The open questions of all servers, including questions for clients.
    pub fn open_questions(&self) -> &Arc<OpenQuestions> {
        &self.open
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        // Held for a map operation, never across an await.
        self.state.lock()
    }

    /// Adds a request of this server, with its cause if that is known. A request beyond the limit is
    /// dropped, which refuses it.
    pub fn enter(
        self: &Arc<Self>,
        server: &ServerName,
        cause: Option<Cause>,
        mut question: ServerQuestion,
    ) {
        self.expire();
        self.open.show(server, Answerer::Operator, &mut question);
        let mut state = self.state();
        if state.waiting.len() >= MAX_WAITING {
            question.set_obstacle("too many requests wait for an answer by hand");
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
        let waiting = WaitingRequest {
            server: server.clone(),
            cause,
            question,
            asked_at: SystemTime::now(),
            until: Instant::now() + PATIENCE,
            _end: end,
        };
        // Publish while the lock is held, so that the event about the request's end comes later.
        let kind = EventKind::ServerRequestWaiting { id, method };
        self.events.publish(Some(server), kind);
        state.waiting.insert(id, waiting);
        drop(state);
        self.news.send_replace(());
    }

    /// A receiver that is notified of each new request.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    /// The waiting requests, oldest first.
    pub fn list(&self) -> Vec<Queued> {
        self.expire();
        let summary = |(id, waiting): (&u64, &WaitingRequest)| {
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
        self.state().waiting.iter().map(summary).collect()
    }

    /// Removes a request, so that the caller can answer or refuse it. `None` if it waits no more.
    pub fn take(&self, id: u64, outcome: Settled) -> Option<ServerQuestion> {
        self.expire();
        if self.is_over(id) {
            self.end(id);
        }
        let waiting = self.state().waiting.remove(&id)?;
        self.publish_settled(id, &waiting, outcome);
        Some(waiting.question)
    }

    fn is_over(&self, id: u64) -> bool {
        let state = self.state();
        let waiting = state.waiting.get(&id);
        waiting.is_some_and(|waiting| waiting.question.is_over())
    }

    /// Ends a request whose answer can no longer reach the server.
    fn end(&self, id: u64) {
        let waiting = self.state().waiting.remove(&id);
        if let Some(waiting) = waiting {
            let outcome = match waiting.question.withdrawal() {
                Some(_) => Settled::TakenBack,
                None => Settled::Disconnected,
            };
            self.publish_settled(id, &waiting, outcome);
            waiting.question.end();
        }
    }

    fn publish_settled(&self, id: u64, waiting: &WaitingRequest, outcome: Settled) {
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
            self.publish_settled(id, &waiting, Settled::Expired);
            waiting
                .question
                .refuse(code::INTERNAL_ERROR, "nobody answered in time");
        }
    }
}
