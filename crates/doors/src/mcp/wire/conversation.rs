//! A client on one ordered stream: stdio or HTTP+SSE.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use mainstay_core::{
    era::{Caller, code, listen::completed},
    message::{self, Kind, Method},
    principal::Principal,
    record::{Door, Origin},
};
use mainstay_gateway::calls::{CallStream, Closed, Receipt, RequestedCall};
use mainstay_transport::{Frame, LineWriter, Unreadable};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_util::task::TaskTracker;

use super::batch;
use crate::mcp::{
    clients::{Clients, Opened},
    endpoint::dispatch,
    reply::{ClosedReply as _, Reply, id},
    sessions::session::{Busy, ClientSession, Scope},
    stateless::{
        Call,
        pipe::{Requests, is_modern},
    },
};
use mainstay_doorway::peer::Visitor;

/// Requests of one client that may wait for their answers, or for its reading them; one more is
/// refused. Far more than clients have in flight.
const MAX_UNANSWERED: usize = 1024;

/// What the client hears, one message after the other.
#[derive(Debug)]
pub enum Output {
    Lines(Arc<LineWriter>),
    Events(mpsc::Sender<String>),
}

impl Output {
    fn door(&self) -> Door {
        match self {
            Self::Lines(_) => Door::McpStdio,
            Self::Events(_) => Door::McpSse,
        }
    }

    /// Sends a message once there is room for it. A client that has gone gets nothing; that it has gone
    /// is noticed elsewhere.
    pub async fn say(&self, message: String) {
        match self {
            Self::Lines(writer) => drop(writer.send(&message).await),
            Self::Events(queue) => drop(queue.send(message).await),
        }
    }
}

/// One client, its session, and the messages that wait for it.
#[derive(Debug)]
pub struct Conversation {
    clients: Arc<Clients>,
    scope: Scope,
    visitor: Visitor,
    pub output: Output,
    phase: watch::Sender<Phase>,
    /// Those that belong to no session.
    requests: Requests,
    unanswered: Arc<Semaphore>,
    /// Requests that will have an answer. Those that open a stream until one side ends it are not among
    /// them.
    at_work: TaskTracker,
    /// The client is to be served elsewhere: a stream that ends now is told to have ended.
    is_left: Arc<AtomicBool>,
    tasks: TaskTracker,
}

#[derive(Debug)]
enum Phase {
    /// The client has not sent `initialize`.
    Silent,
    /// It has, and is being answered.
    Greeting,
    /// Busy as long as the stream stands: it is not idle because its client is silent.
    Open {
        session: Arc<ClientSession>,
        _busy: Busy,
    },
    Over,
}

/// A message that is not taken, and the JSON-RPC error that says so.
#[derive(Debug)]
pub enum RejectedMessage {
    /// It means nothing here.
    Invalid(String),
    /// The client should read some answers first.
    TooMany(String),
}

impl RejectedMessage {
    pub fn into_text(self) -> String {
        match self {
            Self::Invalid(text) | Self::TooMany(text) => text,
        }
    }
}

impl Conversation {
    /// `tasks` has the tasks that answer; joining them waits for the last answer.
    pub fn new(
        clients: Arc<Clients>,
        scope: Scope,
        visitor: Visitor,
        output: Output,
        tasks: TaskTracker,
    ) -> Self {
        Self {
            clients,
            scope,
            visitor,
            output,
            phase: watch::Sender::new(Phase::Silent),
            requests: Requests::default(),
            unanswered: Arc::new(Semaphore::new(MAX_UNANSWERED)),
            at_work: TaskTracker::new(),
            is_left: Arc::default(),
            tasks,
        }
    }

    pub fn serves(&self, scope: &Scope, principal: &Principal) -> bool {
        self.scope.is_same(scope) && self.visitor.principal == *principal
    }

    /// Waits while `initialize` is being answered.
    pub async fn greeted(&self) {
        if matches!(*self.phase.borrow(), Phase::Greeting) {
            let mut phase = self.phase.subscribe();
            // It cannot close: the sender is ours.
            drop(
                phase
                    .wait_for(|phase| !matches!(phase, Phase::Greeting))
                    .await,
            );
        }
    }

    /// Waits for the last answer. Questions are not answered any more.
    pub async fn answered(&self) {
        self.greeted().await;
        if let Some(session) = self.session() {
            session.questions.close();
        }
        self.idle().await;
    }

    /// Waits until nothing is at work.
    pub async fn idle(&self) {
        self.greeted().await;
        self.at_work.close();
        self.at_work.wait().await;
    }

    fn session(&self) -> Option<Arc<ClientSession>> {
        match &*self.phase.borrow() {
            Phase::Open { session, .. } => Some(Arc::clone(session)),
            Phase::Silent | Phase::Greeting | Phase::Over => None,
        }
    }

    /// Takes a message or a batch of the client. Tasks send the answers.
    pub async fn take(self: &Arc<Self>, text: Bytes) -> Result<(), RejectedMessage> {
        self.greeted().await;
        if text.trim_ascii_start().first() == Some(&b'[') {
            return self.take_batch(text).await;
        }
        let frame = match Frame::read(text) {
            Ok(frame) => frame,
            Err(error) => return Err(RejectedMessage::Invalid(self.unreadable(&error).await)),
        };
        if let Kind::Request { .. } = frame.envelope().kind
            && is_modern(&frame)
        {
            let permit = self.permit(&frame).await?;
            let is_stream = frame.method() == Some(Method::Listen);
            let at_work = (!is_stream).then(|| self.at_work.token());
            let id = is_stream.then(|| id(&frame).to_owned());
            let Call { reply, messages } = self.requests.begin(
                &self.clients.stateless,
                &self.scope,
                self.output.door(),
                &self.visitor.principal,
                frame,
            );
            let permit = (permit, at_work);
            let is_left = Arc::clone(&self.is_left);
            self.answer(permit, messages, async move {
                let reply = reply.await;
                match id {
                    Some(id) if reply.cancelled && is_left.load(Relaxed) => {
                        Some(message::response(&id, &completed(&id)))
                    }
                    _ => expected(reply),
                }
            });
            return Ok(());
        }
        if self.requests.cancel(&frame) {
            return Ok(());
        }
        if let Kind::Request {
            id,
            method: Method::Initialize,
        } = frame.envelope().kind
            && self.begin()
        {
            let id = frame.get(id).to_owned();
            let this = Arc::clone(self);
            let greeting = async move { this.greet(&id, &frame).await };
            self.tasks.spawn(greeting.boxed());
            return Ok(());
        }
        match (self.session(), frame.envelope().kind) {
            (Some(session), Kind::Request { .. }) => {
                let permit = self.permit(&frame).await?;
                let (sink, messages) = session.sink();
                // Entered before anything else is taken, so that a cancellation that follows finds it.
                let call = dispatch::answer(Arc::clone(&self.clients.shared), session, frame, sink);
                let permit = (permit, Some(self.at_work.token()));
                self.answer(permit, messages, async { expected(call.await) });
            }
            (Some(session), _) => dispatch::take(&self.clients.shared, &session, frame).await,
            (None, Kind::Request { id, method }) => {
                let id = frame.get(id).to_owned();
                match method {
                    Method::Ping => self.say(&frame, Reply::result(&id, "{}")).await,
                    _ => {
                        let reply = Reply::error(&id, code::INVALID_REQUEST, "initialize first");
                        self.say(&frame, reply).await;
                    }
                }
            }
            (None, _) => {
                tracing::debug!("a notification before initialize was dropped");
                let reply = Reply::error("null", code::INVALID_REQUEST, "initialize first");
                drop(self.close(&frame, reply).await);
            }
        }
        Ok(())
    }

    async fn take_batch(self: &Arc<Self>, text: Bytes) -> Result<(), RejectedMessage> {
        let session = self
            .session()
            .filter(|session| session.revision.accepts_batches());
        let Some(session) = session else {
            let reason = "batches are accepted at revision 2025-03-26 only";
            return Err(RejectedMessage::Invalid(
                self.refuse_batch(&text, reason).await,
            ));
        };
        let Ok(permit) = Arc::clone(&self.unanswered).try_acquire_owned() else {
            let refused = self.refuse_batch(&text, &too_many()).await;
            return Err(RejectedMessage::TooMany(refused));
        };
        let (sink, messages) = session.sink();
        let call = batch::answer(Arc::clone(&self.clients.shared), session, text, sink);
        let permit = (permit, Some(self.at_work.token()));
        self.answer(permit, messages, call);
        Ok(())
    }

    async fn refuse_batch(&self, text: &Bytes, reason: &str) -> String {
        let reply = Reply::error("null", code::INVALID_REQUEST, reason);
        let refused = batch::refuse(
            &self.clients.shared,
            &self.scope,
            &self.origin(),
            text,
            reply,
        )
        .await;
        refused.into_text()
    }

    /// Whose calls these are.
    fn origin(&self) -> Arc<Origin> {
        match self.session() {
            Some(session) => Arc::clone(&session.client.origin),
            None => {
                let caller = Caller::default();
                let origin =
                    self.scope
                        .origin(self.output.door(), &caller, &self.visitor.principal);
                Arc::new(origin)
            }
        }
    }

    /// Closes the receipt of a message that is answered here.
    async fn close(&self, frame: &Frame, reply: Reply) -> Closed<Reply> {
        let wanted = || Some(RequestedCall::of(frame)?.at(self.scope.server()));
        let (receipt, calls) = (Receipt::new(), &self.clients.gateway().calls);
        receipt.close(calls, reply, || self.origin(), wanted).await
    }

    async fn unreadable(&self, error: &Unreadable) -> String {
        let wanted = || Some(RequestedCall::of_unreadable(error)?.at(self.scope.server()));
        let (receipt, reply) = (Receipt::new(), Reply::unreadable(error));
        let reply = receipt.close(
            &self.clients.gateway().calls,
            reply,
            || self.origin(),
            wanted,
        );
        reply.await.into_text()
    }

    async fn say(&self, frame: &Frame, reply: Reply) {
        let reply = self.close(frame, reply).await;
        self.output.say(reply.into_text()).await;
    }

    /// Room for one more request that waits for its answer.
    async fn permit(&self, frame: &Frame) -> Result<OwnedSemaphorePermit, RejectedMessage> {
        if let Ok(permit) = Arc::clone(&self.unanswered).try_acquire_owned() {
            return Ok(permit);
        }
        let reply = Reply::error(id(frame), code::INVALID_REQUEST, &too_many());
        let refused = self.close(frame, reply).await;
        Err(RejectedMessage::TooMany(refused.into_text()))
    }

    /// Answers in a task: messages before the answer are sent before it.
    fn answer(
        self: &Arc<Self>,
        permit: impl Send + 'static,
        mut messages: CallStream,
        call: impl Future<Output = Option<String>> + Send + 'static,
    ) {
        let this = Arc::clone(self);
        let answering = async move {
            let relay = async {
                while let Some(message) = messages.next().await {
                    this.output.say(message).await;
                }
            };
            let (reply, ()) = tokio::join!(call, relay);
            if let Some(reply) = reply {
                this.output.say(reply).await;
            }
            drop(permit);
        };
        self.tasks.spawn(answering.boxed());
    }

    /// Begins a session; `false` where the client has gone. A stream has one session: a client that
    /// initializes again has forgotten the earlier one, which ends. Its calls in flight are cancelled and have
    /// no answers: the client may give their ids to other calls.
    fn begin(&self) -> bool {
        let mut before = None;
        let has_begun = self.phase.send_if_modified(|phase| {
            let may_begin = matches!(phase, Phase::Silent | Phase::Open { .. });
            if may_begin {
                before = Some(std::mem::replace(phase, Phase::Greeting));
            }
            may_begin
        });
        if let Some(Phase::Open { session, .. }) = before {
            self.clients
                .end(&session.id, "the client has initialized anew");
        }
        has_begun
    }

    /// Answers `initialize`, then sends the messages outside of calls, until the session ends.
    async fn greet(&self, id: &str, frame: &Frame) {
        let params = frame.params().unwrap_or("{}");
        let (scope, visitor) = (self.scope.clone(), self.visitor.clone());
        let Opened { session, result } = match self
            .clients
            .open(scope, self.output.door(), visitor, params)
            .await
        {
            Ok(opened) => opened,
            Err(error) => {
                self.output.say(error.response(id)).await;
                self.leave_greeting(Phase::Silent);
                return;
            }
        };
        self.output.say(message::response(id, &result)).await;
        let busy = session.busy();
        let is_open = self.leave_greeting(Phase::Open {
            session: Arc::clone(&session),
            _busy: busy,
        });
        if !is_open {
            self.clients
                .end(&session.id, "the client left before it was greeted");
            return;
        }
        while let Some(message) = session.outbox.next().await {
            self.output.say(message).await;
        }
    }

    /// `false` if it is over by now.
    fn leave_greeting(&self, next: Phase) -> bool {
        self.phase.send_if_modified(|phase| {
            let is_greeting = matches!(phase, Phase::Greeting);
            if is_greeting {
                *phase = next;
            }
            is_greeting
        })
    }

    /// Whether this is its session.
    pub fn has(&self, session: &ClientSession) -> bool {
        matches!(&*self.phase.borrow(), Phase::Open { session: own, .. } if own.id == session.id)
    }

    /// The client goes on elsewhere: its session here ends, and so do its streams, each with an answer.
    pub fn leave(&self) {
        self.is_left.store(true, Relaxed);
        self.end("the client is served elsewhere");
    }

    /// The client has gone: its session ends, and what it has in flight is cancelled.
    pub fn end(&self, reason: &str) {
        self.requests.end(reason);
        if let Phase::Open { session, .. } = self.phase.send_replace(Phase::Over) {
            self.clients.end(&session.id, reason);
        }
    }
}

/// A client that cancelled expects no answer (specification, "Cancellation").
fn expected(reply: Closed<Reply>) -> Option<String> {
    (!reply.cancelled).then(|| reply.into_text())
}

fn too_many() -> String {
    format!("{MAX_UNANSWERED} requests wait for their answers")
}
