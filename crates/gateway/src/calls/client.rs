//! The client of a call: its revision, and the way to ask it a server's questions.

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
    record::{CallOrigin, ClientInfo, Door},
    switches::client_name,
};
use mainstay_transport::{Asker, Frame, ServerQuestion};
use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::task::AbortOnDropHandle;

use super::names::BoundNames;

/// Maximum number of questions that wait for one client. A person answers one after the other.
/// Further questions are refused.
const MAX_QUESTIONS: usize = 64;

/// Time that a question waits for a person.
const PATIENCE: Duration = Duration::from_mins(10);

/// One client. Lives as long as its session or, without a session, its request.
#[derive(Debug)]
pub struct CallClient {
    pub caller: Caller,
    /// The principal, by the client's token.
    pub principal: Principal,
    /// The client in its records.
    pub origin: Arc<CallOrigin>,
    /// Identifies this client's calls, to attribute a server's questions to them.
    pub asker: Asker,
    /// The sealed names for the server of a transparent endpoint. `None` on aggregate endpoints.
    pub bound: Option<BoundNames>,
    question_route: QuestionRoute,
}

#[derive(Debug)]
enum QuestionRoute {
    Nobody,
    /// Asks by requests among the messages of a call. The answers have the session's id.
    Session(Arc<ClientQuestions>),
    /// Asks by the result of the call itself (2026-07-28, "Multi Round-Trip Requests").
    Rounds(mpsc::Sender<ServerQuestion>),
}

impl CallClient {
    /// Mainstay itself as a client. It cannot be asked.
    pub fn nobody() -> Arc<Self> {
        Arc::new(Self::without_questions(
            Caller::default(),
            Principal::Anonymous,
            CallOrigin::from_door(Door::Own),
        ))
    }

    /// A client that takes no questions with this request.
    pub fn without_questions(caller: Caller, principal: Principal, origin: CallOrigin) -> Self {
        Self {
            caller,
            principal,
            origin: Arc::new(origin),
            asker: Asker::new(),
            bound: None,
            question_route: QuestionRoute::Nobody,
        }
    }

    /// A client with a session, by which it answers.
    pub fn with_session(
        caller: Caller,
        principal: Principal,
        origin: CallOrigin,
        questions: Arc<ClientQuestions>,
    ) -> Self {
        Self {
            caller,
            principal,
            origin: Arc::new(origin),
            asker: Asker::new(),
            bound: None,
            question_route: QuestionRoute::Session(questions),
        }
    }

    /// A client that is asked by the result of its request, and answers with the next request.
    pub fn in_rounds(
        caller: Caller,
        principal: Principal,
        origin: CallOrigin,
        questions: mpsc::Sender<ServerQuestion>,
    ) -> Self {
        Self {
            caller,
            principal,
            origin: Arc::new(origin),
            asker: Asker::new(),
            bound: None,
            question_route: QuestionRoute::Rounds(questions),
        }
    }

    /// The name under which the client's switches are stored.
    pub fn name(&self) -> Cow<'_, str> {
        client_name(&self.principal, self.caller.client_info.as_deref())
    }

    /// True if the client's switches are stored under one of these names.
    pub fn is_among(&self, names: &[String]) -> bool {
        let name = self.name();
        names
            .iter()
            .any(|name_of_switches| *name_of_switches == name)
    }

    /// This client at a transparent endpoint, with the sealed names of its server.
    #[must_use]
    pub fn bound(self, bound: Option<BoundNames>) -> Self {
        Self { bound, ..self }
    }

    /// A server's message with sealed names, for this client.
    pub(super) fn with_sealed_names(&self, message: String) -> String {
        match &self.bound {
            Some(bound) => bound.message(message),
            None => message,
        }
    }

    /// True if the client declared that it accepts this question, and can be asked by this request.
    pub(super) fn accepts(&self, request: &Frame) -> bool {
        let method = request.method().unwrap_or(Method::Other);
        let params = request.params().unwrap_or("{}");
        !matches!(self.question_route, QuestionRoute::Nobody) && self.caller.accepts(method, params)
    }

    /// True if the client accepts this question, but can be asked only by another request.
    pub(super) fn accepts_later(&self, request: &Frame) -> bool {
        let method = request.method().unwrap_or(Method::Other);
        matches!(self.question_route, QuestionRoute::Nobody)
            && self
                .caller
                .accepts(method, request.params().unwrap_or("{}"))
    }

    pub(super) fn can_be_asked(&self) -> bool {
        !matches!(self.question_route, QuestionRoute::Nobody)
    }

    /// Asks the client. Returns the request that must now be sent to the client, if there is one. A
    /// question that the client cannot be asked is returned as an error.
    pub(super) fn ask(
        &self,
        server: &ServerName,
        question: ServerQuestion,
    ) -> Result<Option<String>, ServerQuestion> {
        if !self.accepts(question.frame()) {
            return Err(question);
        }
        match &self.question_route {
            QuestionRoute::Nobody => Err(question),
            QuestionRoute::Session(questions) => questions.enter(server, question).map(Some),
            QuestionRoute::Rounds(rounds) => {
                rounds.try_send(question).map(|()| None).map_err(|error| {
                    let (mut question, obstacle) = match error {
                        mpsc::error::TrySendError::Full(question) => (question, TOO_MANY),
                        mpsc::error::TrySendError::Closed(question) => (question, GONE),
                    };
                    question.set_obstacle(obstacle);
                    question
                })
            }
        }
    }
}

/// The client at this door, for records.
pub fn origin(door: Door, caller: &Caller, principal: &Principal) -> CallOrigin {
    let declared = caller.client_info.as_deref().and_then(|info| {
        let text = |member| message::shown_member(info, member).map(String::from);
        Some(ClientInfo {
            name: text("name")?,
            version: text("version").unwrap_or_default(),
        })
    });
    CallOrigin {
        client: declared,
        principal: match principal {
            Principal::Anonymous => None,
            Principal::Client(_) | Principal::Operator => Some(principal.to_string()),
        },
        ..CallOrigin::from_door(door)
    }
}

const TOO_MANY: &str = "too many questions wait for the client's answers";
const GONE: &str = "the client has gone";

/// Questions that wait for the answers of one client, by the ids that the client sees.
#[derive(Debug, Default)]
pub struct ClientQuestions {
    next_id: AtomicU64,
    waiting: Mutex<HashMap<u64, WaitingQuestion>>,
    /// The id of the last question that the client should have answered without a person, and did
    /// not. 0 if there is none. No further question of that kind is asked until the client sends an
    /// answer or a notice about roots.
    unanswered: AtomicU64,
    /// The client has gone.
    is_closed: AtomicBool,
    /// Receives the notices of cancelled questions, if the client's session has a stream for them.
    notices: Option<Arc<dyn Notices>>,
}

/// Receives notifications for a client outside of its calls.
pub trait Notices: std::fmt::Debug + Send + Sync {
    fn push(&self, text: String);
}

#[derive(Debug)]
struct WaitingQuestion {
    server: ServerName,
    question: ServerQuestion,
    until: Instant,
    /// Expires a question that needs no person. The sweeper expires the others.
    _timer: Option<AbortOnDropHandle<()>>,
    /// Ends the question when nobody can receive its answer any more.
    _end: Option<AbortOnDropHandle<()>>,
}

/// Time that a question of this method waits.
fn patience(question: Method) -> Duration {
    if needs_person(question) {
        PATIENCE
    } else {
        PATIENCE_WITH_PROGRAMS
    }
}

impl ClientQuestions {
    /// Questions of a client that gets notices of cancelled questions.
    pub fn with_notices(notices: Arc<dyn Notices>) -> Self {
        Self {
            notices: Some(notices),
            ..Self::default()
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, WaitingQuestion>> {
        // Held for a map operation, never across an await.
        self.waiting.lock()
    }

    /// Adds a question of this server. Returns it as a request with an id of ours.
    pub fn enter(
        self: &Arc<Self>,
        server: &ServerName,
        mut question: ServerQuestion,
    ) -> Result<String, ServerQuestion> {
        let method = question.method();
        if !needs_person(method) && self.unanswered.load(Ordering::Relaxed) > 0 {
            question.set_obstacle(not_in_time(method));
            return Err(question);
        }
        let mut waiting = self.waiting();
        let is_closed = self.is_closed.load(Ordering::Relaxed);
        if waiting.len() >= MAX_QUESTIONS || is_closed {
            question.set_obstacle(if is_closed { GONE } else { TOO_MANY });
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
        let entry = WaitingQuestion {
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

    /// Handles a notice about the client's roots: it is asked for them again.
    pub fn roots_changed(&self) {
        self.unanswered.store(0, Ordering::Relaxed);
    }

    /// Handles a client's response. Returns false if no question with its id waits.
    pub fn answer(&self, id: &str, response: &Frame) -> bool {
        let Ok(id) = id.parse() else { return false };
        if self.unanswered.load(Ordering::Relaxed) == id {
            self.roots_changed();
        }
        let waiting = self.waiting().remove(&id);
        waiting
            .map(|waiting| waiting.question.answer(response))
            .is_some()
    }

    /// Ends a question whose answer nobody can receive, and cancels it at the client.
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

    /// Refuses all questions, now and later, because the client has gone.
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
