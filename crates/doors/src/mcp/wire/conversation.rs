//! A client on one ordered stream of messages: stdio or HTTP+SSE.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use mainstay_core::{
    era::{Caller, code, listen::completed},
    message::{self, MessageKind, Method},
    principal::Principal,
    record::{CallOrigin, Door},
};
use mainstay_gateway::calls::{CallStream, Closed, Receipt, RequestedCall};
use mainstay_transport::{Frame, LineWriter, UnreadableMessage};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_util::task::TaskTracker;

use super::batch;
use crate::mcp::{
    clients::{McpClients, Opened},
    endpoint::dispatch,
    reply::{ClosedReply as _, RpcReply, id},
    sessions::session::{Busy, ClientSession, EndpointScope},
    stateless::{
        StatelessCall,
        pipe::{Requests, is_modern},
    },
};
use mainstay_doorway::peer::Visitor;

/// Maximum number of unanswered requests of one client. Further requests are refused.
const MAX_UNANSWERED: usize = 1024;

/// The client's output: lines on stdout, or events of a stream.
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

    /// Sends a message when there is room. A message to a client that has gone is dropped.
    pub async fn send(&self, message: String) {
        match self {
            Self::Lines(writer) => drop(writer.send(&message).await),
            Self::Events(queue) => drop(queue.send(message).await),
        }
    }
}

/// A client on one stream, with its session and its requests.
#[derive(Debug)]
pub struct Conversation {
    clients: Arc<McpClients>,
    scope: EndpointScope,
    visitor: Visitor,
    pub output: Output,
    phase: watch::Sender<Phase>,
    /// Requests of 2026-07-28, which belong to no session.
    requests: Requests,
    unanswered: Arc<Semaphore>,
    /// Requests that are being answered, without listen streams.
    at_work: TaskTracker,
    /// True if another process serves the client from now on. Listen streams then end with a
    /// result.
    is_left: Arc<AtomicBool>,
    tasks: TaskTracker,
}

#[derive(Debug)]
enum Phase {
    /// The client has not yet sent `initialize`.
    Silent,
    /// The client's `initialize` is being answered.
    Greeting,
    /// The session is open. It is busy as long as the client's stream is open.
    Open {
        session: Arc<ClientSession>,
        _busy: Busy,
    },
    Over,
}

/// A message that is refused, with the text of its JSON-RPC error.
#[derive(Debug)]
pub enum RejectedMessage {
    /// The message is not valid, or not in this phase.
    Invalid(String),
    /// The client has too many unanswered requests.
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
    /// `tasks` tracks the tasks that write answers.
    pub fn new(
        clients: Arc<McpClients>,
        scope: EndpointScope,
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

    pub fn serves(&self, scope: &EndpointScope, principal: &Principal) -> bool {
        self.scope.is_same(scope) && self.visitor.principal == *principal
    }

    /// Waits until `initialize` is answered, if that is in progress.
    pub async fn greeted(&self) {
        if matches!(*self.phase.borrow(), Phase::Greeting) {
            let mut phase = self.phase.subscribe();
            // An error is impossible: `self` owns the sender.
            drop(
                phase
                    .wait_for(|phase| !matches!(phase, Phase::Greeting))
                    .await,
            );
        }
    }

    /// Refuses open questions, and waits until all requests are answered.
    pub async fn answered(&self) {
        self.greeted().await;
        if let Some(session) = self.session() {
            session.questions.close();
        }
        self.idle().await;
    }

    /// Waits until no request is being answered.
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

    /// Handles one message or one batch of the client. Answers are written by tasks.
    pub async fn take(self: &Arc<Self>, text: Bytes) -> Result<(), RejectedMessage> {
        self.greeted().await;
        if text.trim_ascii_start().first() == Some(&b'[') {
            return self.take_batch(text).await;
        }
        let frame = match Frame::read(text) {
            Ok(frame) => frame,
            Err(error) => return Err(RejectedMessage::Invalid(self.unreadable(&error).await)),
        };
        if let MessageKind::Request { .. } = frame.envelope().kind
            && is_modern(&frame)
        {
            let permit = self.permit(&frame).await?;
            let is_stream = frame.method() == Some(Method::Listen);
            let work_token = (!is_stream).then(|| self.at_work.token());
            let id = is_stream.then(|| id(&frame).to_owned());
            let StatelessCall { reply, messages } = self.requests.begin(
                &self.clients.stateless,
                &self.scope,
                self.output.door(),
                &self.visitor.principal,
                frame,
            );
            let permit = (permit, work_token);
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
        if let MessageKind::Request {
            id,
            method: Method::Initialize,
        } = frame.envelope().kind
            && self.begin()
        {
            let id = frame.get(id).to_owned();
            let conversation = Arc::clone(self);
            let greet_task = async move { conversation.greet(&id, &frame).await };
            self.tasks.spawn(greet_task.boxed());
            return Ok(());
        }
        match (self.session(), frame.envelope().kind) {
            (Some(session), MessageKind::Request { .. }) => {
                let permit = self.permit(&frame).await?;
                let (sink, messages) = session.sink();
                // Register the call before the next message is read, so that a later cancellation
                // finds it.
                let call = dispatch::answer(Arc::clone(&self.clients.shared), session, frame, sink);
                let permit = (permit, Some(self.at_work.token()));
                self.answer(permit, messages, async { expected(call.await) });
            }
            (Some(session), _) => dispatch::take(&self.clients.shared, &session, frame).await,
            (None, MessageKind::Request { id, method }) => {
                let id = frame.get(id).to_owned();
                match method {
                    Method::Ping => self.send_reply(&frame, RpcReply::result(&id, "{}")).await,
                    _ => {
                        let reply = RpcReply::error(&id, code::INVALID_REQUEST, "initialize first");
                        self.send_reply(&frame, reply).await;
                    }
                }
            }
            (None, _) => {
                tracing::debug!("a notification before initialize was dropped");
                let reply = RpcReply::error("null", code::INVALID_REQUEST, "initialize first");
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
            let refusal = self.refuse_batch(&text, &too_many()).await;
            return Err(RejectedMessage::TooMany(refusal));
        };
        let (sink, messages) = session.sink();
        let call = batch::answer(Arc::clone(&self.clients.shared), session, text, sink);
        let permit = (permit, Some(self.at_work.token()));
        self.answer(permit, messages, call);
        Ok(())
    }

    async fn refuse_batch(&self, text: &Bytes, reason: &str) -> String {
        let reply = RpcReply::error("null", code::INVALID_REQUEST, reason);
        let refusal = batch::refuse(
            &self.clients.shared,
            &self.scope,
            &self.origin(),
            text,
            reply,
        )
        .await;
        refusal.into_text()
    }

    /// The origin of this client's calls, for records.
    fn origin(&self) -> Arc<CallOrigin> {
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

    /// Closes the receipt of a message that Mainstay itself answers.
    async fn close(&self, frame: &Frame, reply: RpcReply) -> Closed<RpcReply> {
        let requested_call = || Some(RequestedCall::from_frame(frame)?.at(self.scope.server()));
        let (receipt, calls) = (Receipt::new(), &self.clients.gateway().calls);
        receipt
            .close(calls, reply, || self.origin(), requested_call)
            .await
    }

    async fn unreadable(&self, error: &UnreadableMessage) -> String {
        let requested_call =
            || Some(RequestedCall::from_unreadable(error)?.at(self.scope.server()));
        let (receipt, reply) = (Receipt::new(), RpcReply::unreadable(error));
        let reply = receipt.close(
            &self.clients.gateway().calls,
            reply,
            || self.origin(),
            requested_call,
        );
        reply.await.into_text()
    }

    async fn send_reply(&self, frame: &Frame, reply: RpcReply) {
        let reply = self.close(frame, reply).await;
        self.output.send(reply.into_text()).await;
    }

    /// Takes a permit for one more unanswered request.
    async fn permit(&self, frame: &Frame) -> Result<OwnedSemaphorePermit, RejectedMessage> {
        if let Ok(permit) = Arc::clone(&self.unanswered).try_acquire_owned() {
            return Ok(permit);
        }
        let reply = RpcReply::error(id(frame), code::INVALID_REQUEST, &too_many());
        let refusal = self.close(frame, reply).await;
        Err(RejectedMessage::TooMany(refusal.into_text()))
    }

    /// Writes an answer in a task, after the call's other messages.
    fn answer(
        self: &Arc<Self>,
        permit: impl Send + 'static,
        mut messages: CallStream,
        call: impl Future<Output = Option<String>> + Send + 'static,
    ) {
        let conversation = Arc::clone(self);
        let answer_task = async move {
            let relay = async {
                while let Some(message) = messages.next().await {
                    conversation.output.send(message).await;
                }
            };
            let (reply, ()) = tokio::join!(call, relay);
            if let Some(reply) = reply {
                conversation.output.send(reply).await;
            }
            drop(permit);
        };
        self.tasks.spawn(answer_task.boxed());
    }

    /// Enters the greeting phase. Returns false if the conversation is over. A repeated
    /// `initialize` ends the earlier session and cancels its calls without answers, because the
    /// client may reuse their ids.
    fn begin(&self) -> bool {
        let mut previous_phase = None;
        let has_begun = self.phase.send_if_modified(|phase| {
            let may_begin = matches!(phase, Phase::Silent | Phase::Open { .. });
            if may_begin {
                previous_phase = Some(std::mem::replace(phase, Phase::Greeting));
            }
            may_begin
        });
        if let Some(Phase::Open { session, .. }) = previous_phase {
            self.clients
                .end(&session.id, "the client has initialized anew");
        }
        has_begun
    }

    /// Answers `initialize`, then sends the session's queued messages until the session ends.
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
                self.output.send(error.response(id)).await;
                self.leave_greeting(Phase::Silent);
                return;
            }
        };
        self.output.send(message::response(id, &result)).await;
        let busy_guard = session.busy();
        let is_open = self.leave_greeting(Phase::Open {
            session: Arc::clone(&session),
            _busy: busy_guard,
        });
        if !is_open {
            self.clients
                .end(&session.id, "the client left before it was greeted");
            return;
        }
        while let Some(message) = session.outbox.next().await {
            self.output.send(message).await;
        }
    }

    /// Ends the greeting phase. Returns false if the conversation is over.
    fn leave_greeting(&self, next_phase: Phase) -> bool {
        self.phase.send_if_modified(|phase| {
            let is_greeting = matches!(phase, Phase::Greeting);
            if is_greeting {
                *phase = next_phase;
            }
            is_greeting
        })
    }

    /// True if this session belongs to the conversation.
    pub fn has(&self, session: &ClientSession) -> bool {
        matches!(&*self.phase.borrow(), Phase::Open { session: current, .. } if current.id == session.id)
    }

    /// Ends the session for a handover. Each listen stream ends with a result.
    pub fn leave(&self) {
        self.is_left.store(true, Relaxed);
        self.end("the client is served elsewhere");
    }

    /// Ends the session and cancels all requests, because the client has gone.
    pub fn end(&self, reason: &str) {
        self.requests.end(reason);
        if let Phase::Open { session, .. } = self.phase.send_replace(Phase::Over) {
            self.clients.end(&session.id, reason);
        }
    }
}

/// The text of a reply; `None` if the client has cancelled the request (specification,
/// "Cancellation").
fn expected(reply: Closed<RpcReply>) -> Option<String> {
    (!reply.cancelled).then(|| reply.into_text())
}

fn too_many() -> String {
    format!("{MAX_UNANSWERED} requests wait for their answers")
}
