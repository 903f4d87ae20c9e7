//! The client of a call: its revision, and how a server's questions reach it.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use mainstay_core::{
    era::{Caller, code},
    ids::ServerName,
    message,
    principal::Principal,
    record::{ClientInfo, Door, Origin},
};
use mainstay_transport::{Asker, Frame, Question};
use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::mpsc, time::Instant};

use super::names::BoundNames;

/// Questions that may wait for one client. A person answers one after the other; a server that asks
/// for more is refused.
const MAX_QUESTIONS: usize = 64;

/// How long a question waits for its answer.
const PATIENCE: Duration = Duration::from_mins(10);

/// One client, for as long as its session or, where it has none, its request.
#[derive(Debug)]
pub struct Client {
    pub caller: Caller,
    /// Which principal it is, by its token.
    pub principal: Principal,
    /// The client in its records.
    pub origin: Arc<Origin>,
    /// Identifies this client's calls, for attributing a server's questions.
    pub asker: Asker,
    /// The sealed names of the server that it speaks to directly; `None` where a profile lies between.
    pub bound: Option<BoundNames>,
    asks: Asks,
}

#[derive(Debug)]
enum Asks {
    Nobody,
    /// By requests among the messages of a call; the answers come by the session's id.
    Session(Arc<Questions>),
    /// By the result of the call itself (2026-07-28, "Multi Round-Trip Requests").
    Rounds(mpsc::Sender<Question>),
}

impl Client {
    /// Mainstay itself as a client. It cannot be asked.
    pub fn nobody() -> Arc<Self> {
        Arc::new(Self::unasked(
            Caller::default(),
            Principal::Anonymous,
            Origin::of(Door::Own),
        ))
    }

    /// A client that takes no questions with this request.
    pub fn unasked(caller: Caller, principal: Principal, origin: Origin) -> Self {
        Self {
            caller,
            principal,
            origin: Arc::new(origin),
            asker: Asker::new(),
            bound: None,
            asks: Asks::Nobody,
        }
    }

    /// One with a session, by which it answers.
    pub fn of_session(
        caller: Caller,
        principal: Principal,
        origin: Origin,
        questions: Arc<Questions>,
    ) -> Self {
        Self {
            caller,
            principal,
            origin: Arc::new(origin),
            asker: Asker::new(),
            bound: None,
            asks: Asks::Session(questions),
        }
    }

    /// One that is asked by the result of its request, and answers by the next.
    pub fn in_rounds(
        caller: Caller,
        principal: Principal,
        origin: Origin,
        questions: mpsc::Sender<Question>,
    ) -> Self {
        Self {
            caller,
            principal,
            origin: Arc::new(origin),
            asker: Asker::new(),
            bound: None,
            asks: Asks::Rounds(questions),
        }
    }

    /// This client, at the endpoint of one server.
    #[must_use]
    pub fn bound(self, bound: Option<BoundNames>) -> Self {
        Self { bound, ..self }
    }

    /// A message of a server as this client is to see it.
    pub(super) fn shown(&self, message: String) -> String {
        match &self.bound {
            Some(bound) => bound.message(message),
            None => message,
        }
    }

    /// Asks the client. `Ok` may hold a request that must now be sent to it; a question that it cannot
    /// be asked is given back.
    pub(super) fn ask(
        &self,
        server: &ServerName,
        question: Question,
    ) -> Result<Option<String>, Question> {
        let params = question.frame().params().unwrap_or("{}");
        if !self.caller.takes(question.method(), params) {
            return Err(question);
        }
        match &self.asks {
            Asks::Nobody => Err(question),
            Asks::Session(questions) => questions.enter(server, question).map(Some),
            Asks::Rounds(rounds) => {
                rounds
                    .try_send(question)
                    .map(|()| None)
                    .map_err(|error| match error {
                        mpsc::error::TrySendError::Full(question)
                        | mpsc::error::TrySendError::Closed(question) => question,
                    })
            }
        }
    }
}

/// The client at this door, for records.
pub fn origin(door: Door, caller: &Caller, principal: &Principal) -> Origin {
    let declared = caller.client_info.as_deref().and_then(|info| {
        let text = |member| message::shown_member(info, member).map(String::from);
        Some(ClientInfo {
            name: text("name")?,
            version: text("version").unwrap_or_default(),
        })
    });
    Origin {
        client: declared,
        principal: match principal {
            Principal::Anonymous => None,
            Principal::Client(_) | Principal::Operator => Some(principal.to_string()),
        },
        ..Origin::of(door)
    }
}

/// Questions that wait for the answers of one client, by their ids on its side.
#[derive(Debug, Default)]
pub struct Questions {
    next_id: AtomicU64,
    waiting: Mutex<HashMap<u64, Waiting>>,
    /// The client answers no more.
    is_closed: AtomicBool,
}

#[derive(Debug)]
struct Waiting {
    server: ServerName,
    question: Question,
    since: Instant,
}

impl Questions {
    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, Waiting>> {
        // Held for a map operation, never across an await.
        self.waiting.lock()
    }

    /// Enters a question of this server; returns it as a request under an id of ours.
    pub fn enter(&self, server: &ServerName, question: Question) -> Result<String, Question> {
        let mut waiting = self.waiting();
        if waiting.len() >= MAX_QUESTIONS || self.is_closed.load(Ordering::Relaxed) {
            return Err(question);
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed) + 1;
        let text = question.frame().with_id(&id.to_string());
        let since = Instant::now();
        let server = server.clone();
        let entry = Waiting {
            server,
            question,
            since,
        };
        waiting.insert(id, entry);
        Ok(text)
    }

    /// Takes a client's response; `false` if it answers nothing that waits.
    pub fn answer(&self, id: &str, response: &Frame) -> bool {
        let Ok(id) = id.parse() else { return false };
        let waiting = self.waiting().remove(&id);
        waiting
            .map(|waiting| waiting.question.answer(response))
            .is_some()
    }

    /// The server has taken its question back: returns what tells the client so. Servers number their
    /// questions each for itself.
    pub fn withdraw(&self, server: &ServerName, cancelled: &Frame) -> Option<String> {
        let asked = cancelled.param("requestId")?;
        let mut waiting = self.waiting();
        let id = *waiting
            .iter()
            .find(|(_, waiting)| waiting.server == *server && waiting.question.id() == asked)?
            .0;
        waiting.remove(&id)?.question.forget();
        Some(cancelled.with_param("requestId", &id.to_string()))
    }

    /// Refuses questions that have waited for too long.
    pub fn expire(&self) {
        let expired: Vec<_> = {
            let mut waiting = self.waiting();
            let old = waiting.extract_if(|_, waiting| waiting.since.elapsed() >= PATIENCE);
            old.collect()
        };
        for (_, waiting) in expired {
            waiting
                .question
                .refuse(code::INTERNAL_ERROR, "the client did not answer in time");
        }
    }

    /// Refuses everything, now and later: the client has gone.
    pub fn close(&self) {
        let all = {
            let mut waiting = self.waiting();
            self.is_closed.store(true, Ordering::Relaxed);
            std::mem::take(&mut *waiting)
        };
        for waiting in all.into_values() {
            waiting
                .question
                .refuse(code::INTERNAL_ERROR, "the client has gone");
        }
    }
}
