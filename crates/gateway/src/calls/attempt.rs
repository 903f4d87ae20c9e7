//! One attempt at a call: on one session, until its answer or its end.

use std::{
    borrow::Cow,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use mainstay_core::{
    config::ServerRequests,
    era::{listen, questions},
    failure::{Failure, FailureKind},
    message::{self, Method},
    trace,
};
use mainstay_transport::{
    CallState, Frame, Interruption, InterruptionKind, OpenQuestions, Question, Said, Session,
};
use tokio::time::Instant;

use super::{
    Answer, CallSink, Calls, Request, SHUTTING_DOWN, Upstream,
    account::Account,
    bridge::Bridge,
    log_level,
    rounds::{MAX_ROUNDS, Round},
};

/// How an attempt failed.
pub(super) enum Attempt {
    /// The server cannot have seen it: another attempt is safe.
    NotSent(Failure),
    /// It may have run, and there will be no answer.
    Lost(Failure),
    Final(Failure),
}

impl Attempt {
    fn failure(&self) -> &Failure {
        match self {
            Self::NotSent(failure) | Self::Lost(failure) | Self::Final(failure) => failure,
        }
    }

    pub fn into_failure(self) -> Failure {
        match self {
            Self::NotSent(failure) | Self::Lost(failure) | Self::Final(failure) => failure,
        }
    }
}

pub(super) struct Call<'a> {
    pub calls: &'a Calls,
    pub upstream: &'a Upstream,
    pub request: &'a Request,
    pub sink: CallSink,
    pub deadline: Instant,
    pub limit: Duration,
    pub hard_deadline: Instant,
    /// Whether the server has told of progress.
    pub progressed: bool,
    pub account: Account,
}

/// What few calls need is boxed, here and wherever a call passes: the future of every call has room for
/// all that it may wait for, and each byte of it is moved.
impl Call<'_> {
    pub async fn attempt(
        &mut self,
        mut cancel: Pin<&mut impl Future<Output = String>>,
    ) -> Result<Answer, Attempt> {
        // A refused call does not start the server, either.
        self.check_refusal()?;
        let session = match self.upstream.live_session(self.era()) {
            Some(session) => session,
            None => self.next_session(cancel.as_mut()).await?,
        };
        // The server may have crashed while the call waited for it.
        self.check_refusal()?;
        if session.liveness.is_stalled() {
            let waited = Box::pin(self.meanwhile(session.liveness.grace(), cancel.as_mut()));
            waited.await.map_err(Attempt::Final)?;
        }
        if session.liveness.is_stalled() {
            return Err(Attempt::Final(self.not_answering(&session)));
        }
        if self.is_heard_by(&session) {
            return Box::pin(self.subscribe(&session, cancel)).await;
        }
        let server = session.greeting.revision;
        if !self.sink.client.caller.revision.differs_from(server) {
            let render = |id: &str| self.request.render(id);
            return self.exchange(&session, render, cancel).await;
        }
        let mut bridge = Bridge::new(self.sink.caller(), server, self.request);
        let mut round = None::<Round>;
        for _ in 0..=MAX_ROUNDS {
            let render = |id: &str| bridge.request(id, round.as_ref());
            let mut answer = self.exchange(&session, render, cancel.as_mut()).await?;
            if bridge.declares_tasks_for(&answer.frame) {
                continue;
            }
            if let Some(round) = round.take() {
                self.opened(&round);
            }
            if let Some(caller) = bridge.takes_task(&answer.frame) {
                let ended = self.see_to_its_end(&session, caller, answer.frame, cancel.as_mut());
                answer.frame = Box::pin(ended).await.map_err(Attempt::Final)?;
            }
            let required = match bridge.input_required(&answer.frame) {
                Ok(None) => {
                    let frame = bridge.answer(answer.frame);
                    return Ok(Answer { frame, ..answer });
                }
                Ok(Some(required)) => required,
                Err(error) => return Err(Attempt::Final(self.unusable(&error.to_string()))),
            };
            let client = bridge.client();
            round = Some(Box::pin(self.round(client, required, cancel.as_mut())).await?);
        }
        let reason = format!("it asked its client in more than {MAX_ROUNDS} rounds");
        Err(Attempt::Final(self.unusable(&reason)))
    }

    /// Waits until the server has a session.
    async fn next_session(
        &self,
        cancel: Pin<&mut impl Future<Output = String>>,
    ) -> Result<Arc<Session>, Attempt> {
        let next = self.upstream.session(self.era(), self.deadline);
        tokio::select! {
            biased;
            session = Box::pin(next) => session.map_err(Attempt::Final),
            reason = cancel => Err(Attempt::Final(self.cancelled(&reason))),
        }
    }

    /// One request and its response, as a span of its own.
    async fn exchange(
        &mut self,
        session: &Arc<Session>,
        render: impl FnOnce(&str) -> String,
        cancel: Pin<&mut impl Future<Output = String>>,
    ) -> Result<Answer, Attempt> {
        let context = self.account.ask(session.greeting.revision);
        let render = |id: &str| match context {
            Some(context) => trace::put(render(id), &context.to_string(), None),
            None => render(id),
        };
        let outcome = self.converse(session, render, cancel).await;
        self.account
            .answered(outcome.as_ref().err().map(Attempt::failure));
        outcome
    }

    async fn converse(
        &mut self,
        session: &Arc<Session>,
        render: impl FnOnce(&str) -> String,
        mut cancel: Pin<&mut impl Future<Output = String>>,
    ) -> Result<Answer, Attempt> {
        self.account.about_to_send().await.map_err(Attempt::Final)?;
        let asker = self.sink.client.asker;
        let start = async {
            if self.request.is_listening() {
                session.listen(asker, render).await
            } else {
                session
                    .call(asker, self.deadline, || self.work(), render)
                    .await
            }
        };
        let mut exchange = tokio::select! {
            biased;
            exchange = start => exchange.map_err(|why| self.interrupted(why))?,
            // A full pipe: nothing of the message has been written.
            () = tokio::time::sleep_until(self.deadline) => return Err(Attempt::Final(self.timed_out())),
            reason = &mut cancel => return Err(Attempt::Final(self.cancelled(&reason))),
        };
        self.account.sent();
        // The server has closed its connection, and nothing has come since.
        let mut is_parted = false;
        let mut patience = None;
        let mut timer = pin!(tokio::time::sleep_until(self.deadline));
        loop {
            tokio::select! {
                biased;
                said = exchange.next() => {
                    let frame = match said.map_err(|why| self.lost(why))? {
                        Said::Message(frame) => frame,
                        Said::Question(question) => {
                            is_parted = false;
                            self.ask(question, patience.get_or_insert_default());
                            continue;
                        }
                        Said::Parted { retry } => {
                            // What a server does on the transparent path, we do as it does.
                            let is_own = matches!(self.upstream, Upstream::IsolatedSession(_));
                            self.sink.part(is_own.then_some(retry));
                            is_parted = true;
                            continue;
                        }
                    };
                    is_parted = false;
                    let Some(method) = frame.method() else {
                        self.acquit();
                        return Ok(Answer { frame, streamed: exchange.is_stream() });
                    };
                    if method == Method::Cancelled && self.request.is_listening() {
                        return Ok(self.stopped(frame));
                    }
                    // Progress extends the deadline, up to the hard limit.
                    if method == Method::Progress {
                        self.progressed = true;
                        self.deadline = (Instant::now() + self.limit).min(self.hard_deadline);
                        timer.as_mut().reset(self.deadline);
                    }
                    self.relay(method, &frame);
                }
                // A client that comes back for the rest wants it now, not when the server's time is over.
                () = self.sink.client_returned(), if is_parted => exchange.resume_now(),
                () = &mut timer => {
                    if let Some(later) = patience.as_deref().and_then(|patience| self.waits_for_people(patience)) {
                        self.deadline = later;
                        timer.as_mut().reset(later);
                        continue;
                    }
                    let config = Arc::clone(&self.upstream.server().config());
                    Box::pin(exchange.timed_out(&config.policy.health, session.pid)).await;
                    self.doubt_of(session);
                    self.calls.cancel(session, exchange, format!("timeout after {}", seconds(self.limit)));
                    return Err(Attempt::Final(self.timed_out()));
                }
                reason = &mut cancel => {
                    let failure = self.cancelled(&reason);
                    self.calls.cancel(session, exchange, reason);
                    return Err(Attempt::Final(failure));
                }
            }
        }
    }

    /// Waits for a part of the call, unless it is cancelled or has no time left.
    pub(super) async fn meanwhile<T>(
        &self,
        part: impl Future<Output = T>,
        cancel: Pin<&mut impl Future<Output = String>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            biased;
            done = part => Ok(done),
            () = tokio::time::sleep_until(self.deadline) => Err(self.timed_out()),
            reason = cancel => Err(self.cancelled(&reason)),
        }
    }

    /// Passes a server's question on to the client, unless the server is not to ask.
    fn ask(&self, mut question: Question, patience: &Arc<OpenQuestions>) {
        let config = self.upstream.server().config();
        if config.server_requests == Some(ServerRequests::Reject) {
            return;
        }
        question.keep_waiting(Arc::clone(patience));
        let Err(question) = self.sink.ask(&self.upstream.server().name, question) else {
            return;
        };
        if question.method() == Method::RootsList && !config.roots.is_empty() {
            question.result(&questions::roots(&config.roots));
        } else if config.server_requests == Some(ServerRequests::Queue) {
            let principal = &self.sink.client.principal;
            self.upstream.server().queue(principal, question);
        }
    }

    /// While a person thinks, the call's time stands still: until when it goes on,
    /// if that is later than now.
    fn waits_for_people(&self, patience: &OpenQuestions) -> Option<Instant> {
        let now = Instant::now();
        match patience.last_answer() {
            None => Some(now + self.limit),
            Some(answered) => answered
                .map(|at| at + self.limit)
                .filter(|until| *until > now),
        }
    }

    fn relay(&self, method: Method, frame: &Frame) {
        let message = match (method, self.request.progress_token) {
            (Method::Progress, Some(token)) => {
                frame.with_param("progressToken", self.request.frame.get(token))
            }
            // Not asked for.
            (Method::Progress, None) => return,
            (Method::LogMessage, _) if !self.sink.wants(log_level(frame)) => return,
            _ if self.request.is_listening() => {
                listen::tagged(method, frame.params().unwrap_or("{}"), self.request.id())
            }
            _ => frame.one_line(),
        };
        self.sink.put(message);
    }

    /// A server may say by a notification that it ends a stream (2026-07-28, "Cancellation").
    fn stopped(&self, said: Frame) -> Answer {
        let id = self.request.id();
        let text = message::response(id, &listen::completed(id));
        Answer {
            frame: Frame::read(text.into()).unwrap_or(said),
            streamed: true,
        }
    }

    pub(super) fn failure(&self, kind: FailureKind, message: String) -> Failure {
        let server = self.upstream.server();
        // It may quote the server, which may quote our request's headers.
        let shown = match server.log.shown(&message) {
            Cow::Borrowed(_) => None,
            Cow::Owned(shown) => Some(shown),
        };
        let message = shown.unwrap_or(message);
        Failure::new(kind, message).of_server(&server.name)
    }

    pub(super) fn timed_out(&self) -> Failure {
        let message = format!("timeout after {}", seconds(self.limit));
        self.diagnosed(self.failure(FailureKind::CallTimeout, message))
    }

    /// Adds the server's status, unless the server is well: it explains the failure.
    fn diagnosed(&self, mut failure: Failure) -> Failure {
        let server = self.upstream.server();
        let (view, name) = (server.view(), &server.name);
        let health = view.diagnosis();
        if health == "healthy" {
            return failure;
        }
        tracing::warn!(server = %name, health, reason = view.status.reason, "a call failed");
        failure.message = format!("{} (server {name} is {health})", failure.message);
        view.describe(failure, name)
    }

    /// Has the server asked whether it is well: an isolated session shows by its next call.
    pub(super) fn request_probe(&self) {
        if let Upstream::Shared(server) = self.upstream {
            server.request_probe();
        }
    }

    /// Requests a probe after a call that was not answered. An isolated session that refuses calls must
    /// be probed as well: no call will show that it is well again.
    fn doubt_of(&self, session: &Session) {
        match self.upstream {
            Upstream::Shared(server) => server.request_probe(),
            Upstream::IsolatedSession(isolated_session) if session.liveness.is_stalled() => {
                isolated_session.request_probe()
            }
            Upstream::IsolatedSession(_) => {}
        }
    }

    /// The server has left calls without an answer, and is not called until it is heard.
    fn not_answering(&self, session: &Session) -> Failure {
        let server = self.upstream.server();
        let calls = session.liveness.stalled().unwrap_or_default();
        let message = format!(
            "Server '{}' does not answer: {calls} calls in a row got no answer. This call was not sent; calls are sent again once the server is heard",
            server.name
        );
        let failure = self.failure(FailureKind::ServerNotAnswering, message);
        server.view().describe(failure, &server.name)
    }

    /// The server answered, and nothing can be made of it.
    pub(super) fn unusable(&self, reason: &str) -> Failure {
        let name = &self.upstream.server().name;
        let message = format!("Server '{name}' cannot be answered: {reason}");
        self.failure(FailureKind::CallFailed, message)
    }

    pub(super) fn cancelled(&self, reason: &str) -> Failure {
        if reason == SHUTTING_DOWN || self.calls.closing.is_over() {
            return self.ended_by_us();
        }
        self.failure(FailureKind::Cancelled, format!("cancelled: {reason}"))
    }

    /// Mainstay stops, and cannot wait for the server any longer.
    fn ended_by_us(&self) -> Failure {
        let name = &self.upstream.server().name;
        if self.account.is_sent() {
            let message = format!(
                "Mainstay was stopped during the call of server '{name}'. It may or may not have run; check before you call again"
            );
            self.failure(FailureKind::OutcomeUnknown, message)
        } else {
            let message = "the call was not sent: Mainstay is shutting down";
            self.failure(FailureKind::ShuttingDown, message.to_owned())
        }
    }

    /// What was sent is lost, or was not sent after all.
    fn lost(&mut self, why: Interruption) -> Attempt {
        if why.state == CallState::NotSent {
            self.account.not_sent();
        }
        if why.fault().is_some() {
            self.request_probe();
        }
        self.interrupted(why)
    }

    pub(super) fn interrupted(&self, why: Interruption) -> Attempt {
        let name = &self.upstream.server().name;
        let kind = match (&why.kind, why.state) {
            (InterruptionKind::TooLarge(_), _) => FailureKind::MessageTooLarge,
            (InterruptionKind::Lost | InterruptionKind::Unanswered, CallState::Sent) => {
                FailureKind::OutcomeUnknown
            }
            // A proxy says so of a server that may have been at work (invariant 6).
            (
                InterruptionKind::Refused {
                    status: 502..=504, ..
                },
                _,
            ) => FailureKind::OutcomeUnknown,
            _ => FailureKind::CallFailed,
        };
        let message = match kind {
            FailureKind::OutcomeUnknown => format!(
                "Server '{name}' was lost during the call: {why}. It may or may not have run; check before you call again"
            ),
            _ => format!("Server '{name}' did not answer: {why}"),
        };
        let failure = self.diagnosed(self.failure(kind, message));
        if kind == FailureKind::OutcomeUnknown {
            self.request_probe();
            return Attempt::Lost(failure);
        }
        match (why.state, why.kind) {
            (
                CallState::NotSent,
                InterruptionKind::Lost
                | InterruptionKind::SessionExpired
                | InterruptionKind::Unreachable(_),
            ) => Attempt::NotSent(failure),
            _ => Attempt::Final(failure),
        }
    }
}

/// In seconds where they are whole: `30s`; else in milliseconds.
fn seconds(duration: Duration) -> String {
    if duration.subsec_millis() == 0 {
        format!("{}s", duration.as_secs())
    } else {
        format!("{}ms", duration.as_millis())
    }
}
