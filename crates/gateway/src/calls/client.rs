//! The client of a call: its revision, its principal, and the way in which it is asked servers'
//! questions.

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

/// Maximum number of questions that wait for the answers of one client. Further questions are
/// refused.
const MAX_QUESTIONS: usize = 64;

/// Time limit of a question that a person answers.
const PATIENCE: Duration = Duration::from_mins(10);

/// One client. The value lives as long as the client's session or, without a session, its request.
#[derive(Debug)]
pub struct CallClient {
    pub caller: Caller,
    /// The principal that the client's token proves.
    pub principal: Principal,
    /// The client as records show it.
    pub origin: Arc<CallOrigin>,
    /// Identifies this client's calls, so that a server's questions can be attributed to them.
    pub asker: Asker,
    /// The sealed names for the server of a transparent endpoint. `None` on aggregate endpoints.
    pub bound: Option<BoundNames>,
    question_route: QuestionRoute,
}

#[derive(Debug)]
enum QuestionRoute {
    Nobody,
    /// Sends the questions as requests among the messages of a call. The client posts the answers to
    /// its session.
    Session(Arc<ClientQuestions>),
    /// Returns the questions as the result of the call (2026-07-28, "Multi Round-Trip Requests").
    Rounds(mpsc::Sender<ServerQuestion>),
}

impl CallClient {
    /// Mainstay itself as a client. It takes no questions.
    pub fn nobody() -> Arc<Self> {
        Arc::new(Self::without_questions(
            Caller::default(),
            Principal::Anonymous,
            CallOrigin::from_door(Door::Own),
        ))
    }

    /// A client that cannot be asked questions during this request.
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

    /// A client that is asked by requests, and answers in its session.
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

    /// Sets the sealed names of the server of a transparent endpoint.
    #[must_use]
    pub fn bound(self, bound: Option<BoundNames>) -> Self {
        Self { bound, ..self }
    }

    /// A server's message for this client, with sealed names if the client is at a transparent
    /// endpoint.
    pub(super) fn with_sealed_names(&self, message: String) -> String {
        match &self.bound {
            Some(bound) => bound.message(message),
            None => message,
        }
    }

    /// True if the client has declared that it accepts this question, and can be asked during this
    /// request.
    pub(super) fn accepts(&self, request: &Frame) -> bool {
        let method = request.method().unwrap_or(Method::Other);
        let params = request.params().unwrap_or("{}");
        !matches!(self.question_route, QuestionRoute::Nobody) && self.caller.accepts(method, params)
    }

    /// True if the client accepts this question, but can be asked only during another request.
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

    /// Asks the client a question. Returns the request to send to the client, or `None` if the
    /// question goes another way. The error returns a question that the client cannot be asked.
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

/// The client at this door, as records show it.
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

/// Questions that wait for the answers of one client. The keys are the ids that the client sees.
#[derive(Debug, Default)]
pub struct ClientQuestions {
    next_id: AtomicU64,
    waiting: Mutex<HashMap<u64, WaitingQuestion>>,
    /// The id of the last question that the client should have answered without a person, but did not
    /// answer in time. 0 if there is none. Until the client answers that question or announces a
    /// change of its roots, further questions of that kind are refused.
    unanswered: AtomicU64,
    /// True if the client has gone.
    is_closed: AtomicBool,
    /// Receives the notices of cancelled questions. `None` if the client's session has no stream.
    notices: Option<Arc<dyn Notices>>,
}

/// Sends notifications to a client outside of its calls.
pub trait Notices: std::fmt::Debug + Send + Sync {
    fn push(&self, text: String);
}

#[derive(Debug)]
struct WaitingQuestion {
    server: ServerName,
    question: ServerQuestion,
    until: Instant,
    /// Expires a question that needs no person. Other questions expire by
    /// [`ClientQuestions::expire`].
    _timer: Option<AbortOnDropHandle<()>>,
    /// Ends the question when its answer can no longer reach the server.
    _end: Option<AbortOnDropHandle<()>>,
}

/// Time limit of a question of this method.
fn patience(question: Method) -> Duration {
    if needs_person(question) {
        PATIENCE
    } else {
        PATIENCE_WITH_PROGRAMS
    }
}

impl ClientQuestions {
    /// Makes the questions of a client that gets notices of cancelled questions.
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

    /// Adds a question of this server. Returns the request for the client, with an id of Mainstay.
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

    /// Allows questions that need no person again, because the client has announced a change of its
    /// roots.
    pub fn roots_changed(&self) {
        self.unanswered.store(0, Ordering::Relaxed);
    }

    /// Passes a client's response to the waiting question. Returns false if no question with this id
    /// waits.
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

    /// Ends a question whose answer can no longer reach the server, and cancels it at the client.
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
