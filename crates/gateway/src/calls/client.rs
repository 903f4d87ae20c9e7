//! The client of a call: its revision, and how a server's questions reach it.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt as _;

use mainstay_core::{
    era::{
        Caller, code,
        questions::{PATIENCE_WITH_PROGRAMS, needs_person},
    },
    ids::ServerName,
    message::{self, Method},
    principal::Principal,
    record::{ClientInfo, Door, Origin},
    switches::client_name,
};
use mainstay_transport::{Asker, Frame, Question};
use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::task::AbortOnDropHandle;

use super::names::BoundNames;

/// Questions that may wait for one client. A person answers one after the other; a server that asks
/// for more is refused.
const MAX_QUESTIONS: usize = 64;

/// How long a question waits for a person.
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

    /// The name under which its switches are kept.
    pub fn name(&self) -> Cow<'_, str> {
        client_name(&self.principal, self.caller.client_info.as_deref())
    }

    /// Whether its switches are kept under one of these names.
    pub fn is_among(&self, names: &[String]) -> bool {
        let name = self.name();
        names.iter().any(|known| *known == name)
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

    /// Whether the client declared that it takes this request of a server.
    pub(super) fn takes(&self, request: &Frame) -> bool {
        let method = request.method().unwrap_or(Method::Other);
        let params = request.params().unwrap_or("{}");
        !matches!(self.asks, Asks::Nobody) && self.caller.takes(method, params)
    }

    /// Whether this request cannot ask the client, and another one of it can.
    pub(super) fn takes_later(&self, request: &Frame) -> bool {
        let method = request.method().unwrap_or(Method::Other);
        matches!(self.asks, Asks::Nobody)
            && self.caller.takes(method, request.params().unwrap_or("{}"))
    }

    pub(super) fn can_be_asked(&self) -> bool {
        !matches!(self.asks, Asks::Nobody)
    }

    /// Asks the client. `Ok` may hold a request that must now be sent to it; a question that it cannot
    /// be asked is given back.
    pub(super) fn ask(
        &self,
        server: &ServerName,
        question: Question,
    ) -> Result<Option<String>, Question> {
        if !self.takes(question.frame()) {
            return Err(question);
        }
        match &self.asks {
            Asks::Nobody => Err(question),
            Asks::Session(questions) => questions.enter(server, question).map(Some),
            Asks::Rounds(rounds) => rounds.try_send(question).map(|()| None).map_err(|error| {
                let (mut question, why) = match error {
                    mpsc::error::TrySendError::Full(question) => (question, TOO_MANY),
                    mpsc::error::TrySendError::Closed(question) => (question, GONE),
                };
                question.hindered(why);
                question
            }),
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

const TOO_MANY: &str = "too many questions wait for the client's answers";
const GONE: &str = "the client has gone";

/// Questions that wait for the answers of one client, by their ids on its side.
#[derive(Debug, Default)]
pub struct Questions {
    next_id: AtomicU64,
    waiting: Mutex<HashMap<u64, Waiting>>,
    /// The id of the last question that the client should have answered by itself and did not; 0 is none.
    /// It is not asked such a thing again before it is heard.
    unanswered: AtomicU64,
    /// The client answers no more.
    is_closed: AtomicBool,
    /// Takes what tells the client of a question that has gone, where its session has a place for that.
    notices: Option<Arc<dyn Notices>>,
}

/// Takes notifications for a client outside of its calls.
pub trait Notices: std::fmt::Debug + Send + Sync {
    fn push(&self, text: String);
}

#[derive(Debug)]
struct Waiting {
    server: ServerName,
    question: Question,
    until: Instant,
    /// Ends a question that does not wait for the sweeper.
    _timer: Option<AbortOnDropHandle<()>>,
    /// Ends it when its answer would reach nobody.
    _end: Option<AbortOnDropHandle<()>>,
}

/// How long a question of this method waits.
fn patience(question: Method) -> Duration {
    if needs_person(question) {
        PATIENCE
    } else {
        PATIENCE_WITH_PROGRAMS
    }
}

impl Questions {
    /// Questions of a client that is told when one has gone.
    pub fn with_notices(notices: Arc<dyn Notices>) -> Self {
        Self {
            notices: Some(notices),
            ..Self::default()
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, Waiting>> {
        // Held for a map operation, never across an await.
        self.waiting.lock()
    }

    /// Enters a question of this server; returns it as a request under an id of ours.
    pub fn enter(
        self: &Arc<Self>,
        server: &ServerName,
        mut question: Question,
    ) -> Result<String, Question> {
        let method = question.method();
        if !needs_person(method) && self.unanswered.load(Ordering::Relaxed) > 0 {
            question.hindered(not_in_time(method));
            return Err(question);
        }
        let mut waiting = self.waiting();
        let is_closed = self.is_closed.load(Ordering::Relaxed);
        if waiting.len() >= MAX_QUESTIONS || is_closed {
            question.hindered(if is_closed { GONE } else { TOO_MANY });
            return Err(question);
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed) + 1;
        let text = question.frame().with_id(&id.to_string());
        let until = Instant::now() + patience(method);
        let questions = Arc::downgrade(self);
        let end = question.when_over(move || {
            if let Some(questions) = questions.upgrade() {
                questions.end(id);
            }
        });
        let server = server.clone();
        let timer = (!needs_person(method)).then(|| self.expire_at(until));
        let entry = Waiting {
            server,
            question,
            until,
            _timer: timer,
            _end: end,
        };
        waiting.insert(id, entry);
        Ok(text)
    }

    fn expire_at(self: &Arc<Self>, until: Instant) -> AbortOnDropHandle<()> {
        let questions = Arc::downgrade(self);
        let expiring = async move {
            tokio::time::sleep_until(until).await;
            if let Some(questions) = questions.upgrade() {
                questions.expire();
            }
        };
        AbortOnDropHandle::new(tokio::spawn(expiring.boxed()))
    }

    /// The client has said something of its roots: it is asked for them again.
    pub fn hear_of_roots(&self) {
        self.unanswered.store(0, Ordering::Relaxed);
    }

    /// Takes a client's response; `false` if it answers nothing that waits.
    pub fn answer(&self, id: &str, response: &Frame) -> bool {
        let Ok(id) = id.parse() else { return false };
        if self.unanswered.load(Ordering::Relaxed) == id {
            self.hear_of_roots();
        }
        let waiting = self.waiting().remove(&id);
        waiting
            .map(|waiting| waiting.question.answer(response))
            .is_some()
    }

    /// Ends a question whose answer would reach nobody, and tells the client so.
    fn end(&self, id: u64) {
        let Some(waiting) = self.waiting().remove(&id) else {
            return;
        };
        if let Some(notices) = &self.notices {
            notices.push(waiting.question.cancellation(&id.to_string()));
        }
        waiting.question.end();
    }

    /// Refuses questions that have waited for too long.
    pub fn expire(&self) {
        let expired: Vec<_> = {
            let (mut waiting, now) = (self.waiting(), Instant::now());
            let old = waiting.extract_if(|_, waiting| waiting.until <= now);
            old.collect()
        };
        for (id, waiting) in expired {
            let (server, method) = (&waiting.server, waiting.question.method());
            if !needs_person(method) {
                self.unanswered.store(id, Ordering::Relaxed);
                let method = method.name();
                tracing::warn!(%server, method, "the client did not answer a question, and is not asked it again");
            }
            let reason = not_in_time(method);
            waiting.question.refuse(code::INTERNAL_ERROR, &reason);
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
            waiting.question.refuse(code::INTERNAL_ERROR, GONE);
        }
    }
}

fn not_in_time(question: Method) -> String {
    format!(
        "the client did not answer {} within {} s",
        question.name(),
        patience(question).as_secs()
    )
}
