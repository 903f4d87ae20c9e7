//! One attempt at a call, on one session, until the answer or a failure.

use std::{
    pin::{Pin, pin},
    sync::Arc,
};

use mainstay_core::{
    config::ServerRequests,
    era::{
        listen,
        questions::{self, needs_person},
    },
    failure::{FailureKind, limit_words},
    message::{self, Method},
    trace,
};
use mainstay_transport::{Frame, OpenQuestions, ServerMessage, ServerQuestion, UpstreamSession};
use tokio::{
    task::unconstrained,
    time::{Instant, sleep_until},
};

use crate::supervisor::Cause;

use super::{
    call::{ActiveCall, AttemptError, Round, deadline},
    era_translation::EraTranslation,
    progress::HighestProgress,
    request::{CallAnswer, Upstream},
    rounds::MAX_ROUNDS,
    sink::log_level,
};

/// Futures that few calls need are boxed, here and in the other files of `calls`. Otherwise they
/// would enlarge the future of every call, which costs time when the future is moved.
impl ActiveCall<'_> {
    pub async fn attempt(
        &mut self,
        mut cancel: Pin<&mut impl Future<Output = String>>,
    ) -> Result<CallAnswer, AttemptError> {
        // Check before the wait for a session, because a refused call must not start the server.
        self.check_refusal()?;
        let session = match self.upstream.live_session(self.era()) {
            Some(session) => session,
            None => self.next_session(cancel.as_mut()).await?,
        };
        if let Some(held) = self.upstream.held_requests()
            && held.has_any()
            && self.sink.client.can_be_asked()
        {
            let ask = |question| self.sink.ask(&self.upstream.server().name, question);
            let request = Box::pin(held.ask_by(ask));
            let answered = self.wait_for(request, cancel.as_mut()).await;
            answered.map_err(AttemptError::Final)?;
        }
        // Check again, because the server may have crashed while the call waited.
        self.check_refusal()?;
        if session.liveness.is_stalled() {
            let waited = Box::pin(self.wait_for(session.liveness.grace(), cancel.as_mut()));
            waited.await.map_err(AttemptError::Final)?;
        }
        if session.liveness.is_stalled() {
            return Err(AttemptError::Final(self.not_answering(&session)));
        }
        self.account.tried();
        if self.is_translated_subscription(&session) {
            return Box::pin(self.subscribe(&session, cancel)).await;
        }
        let server = session.greeting.revision;
        if !self.sink.client.caller.revision.differs_from(server) {
            let render = |id: &str| self.request.render(id);
            return self.exchange(&session, render, cancel).await;
        }
        let mut translation = EraTranslation::new(self.sink.caller(), server, self.request);
        let mut round = None::<Round>;
        let (mut rounds, mut pauses) = (0, 0);
        loop {
            let render = |id: &str| translation.request(id, round.as_ref());
            let mut answer = self.exchange(&session, render, cancel.as_mut()).await?;
            if translation.declare_tasks_if_required(&answer.frame) {
                continue;
            }
            if let Some(round) = round.take() {
                self.notify_elicitations_complete(&round);
            }
            if let Some(caller) = translation.hidden_task_caller(&answer.frame) {
                let awaiting = self.await_task(&session, caller, answer.frame, cancel.as_mut());
                answer.frame = Box::pin(awaiting).await.map_err(AttemptError::Final)?;
            }
            let required = match translation.input_required(&answer.frame) {
                Ok(None) => {
                    let frame = translation.answer(answer.frame);
                    return Ok(CallAnswer { frame, ..answer });
                }
                Ok(Some(required)) => required,
                Err(error) => return Err(AttemptError::Final(self.unusable(&error.to_string()))),
            };
            if required.requests.is_empty() {
                pauses += 1;
                Box::pin(self.pause(pauses, cancel.as_mut())).await?;
                round = Some(Round::without_questions(required.state));
                continue;
            }
            rounds += 1;
            if rounds > MAX_ROUNDS {
                let reason = format!("it asked its client in more than {MAX_ROUNDS} rounds");
                return Err(AttemptError::Final(self.unusable(&reason)));
            }
            let client = translation.client();
            round = Some(Box::pin(self.round(client, required, cancel.as_mut())).await?);
        }
    }

    /// Waits until the server has a session.
    async fn next_session(
        &self,
        cancel: Pin<&mut impl Future<Output = String>>,
    ) -> Result<Arc<UpstreamSession>, AttemptError> {
        let next = self.upstream.session(self.era(), self.deadline);
        tokio::select! {
            biased;
            session = Box::pin(next) => session.map_err(|failure| match failure.kind {
                FailureKind::LoginRequired => AttemptError::LoginRequired(failure),
                _ => AttemptError::Final(failure),
            }),
            reason = cancel => Err(AttemptError::Final(self.cancelled(&reason))),
        }
    }

    /// Sends one request and returns its response. The exchange has its own span.
    async fn exchange(
        &mut self,
        session: &Arc<UpstreamSession>,
        render: impl FnOnce(&str) -> String,
        cancel: Pin<&mut impl Future<Output = String>>,
    ) -> Result<CallAnswer, AttemptError> {
        let context = self.account.ask(session.greeting.revision);
        let render = |id: &str| match context {
            Some(context) => trace::put(render(id), &context.to_string(), None),
            None => render(id),
        };
        let outcome = self.converse(session, render, cancel).await;
        self.account
            .answered(outcome.as_ref().err().map(AttemptError::failure));
        outcome
    }

    async fn converse(
        &mut self,
        session: &Arc<UpstreamSession>,
        render: impl FnOnce(&str) -> String,
        mut cancel: Pin<&mut impl Future<Output = String>>,
    ) -> Result<CallAnswer, AttemptError> {
        self.account
            .about_to_send()
            .await
            .map_err(AttemptError::Final)?;
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
            exchange = start => exchange.map_err(|interruption| self.interrupted(interruption))?,
            // The pipe is full, and no byte of the message has been written.
            () = deadline(self.deadline) => return Err(AttemptError::Final(self.timed_out())),
            reason = &mut cancel => return Err(AttemptError::Final(self.cancelled(&reason))),
        };
        self.account.sent();
        let was_failing = session.liveness.failed_in_row() > 0;
        let mut progress = HighestProgress::default();
        // True if the server has closed its connection, and no message has arrived since.
        let mut is_parted = false;
        let mut patience = None;
        let mut timer = pin!(sleep_until(self.deadline));
        loop {
            tokio::select! {
                biased;
                message = exchange.next() => {
                    let frame = match message {
                        Err(interruption) => return Err(Box::pin(self.lost(interruption)).await),
                        Ok(ServerMessage::Message(frame)) => frame,
                        Ok(ServerMessage::Question(question)) => {
                            is_parted = false;
                            self.ask(question, patience.get_or_insert_default());
                            continue;
                        }
                        Ok(ServerMessage::Parted { retry }) => {
                            // On a transparent endpoint, close the client's connection like the
                            // server.
                            let is_isolated = matches!(self.upstream, Upstream::IsolatedSession(_));
                            self.sink.part(is_isolated.then_some(retry));
                            is_parted = true;
                            continue;
                        }
                    };
                    is_parted = false;
                    let Some(method) = frame.method() else {
                        // Calls still count as failing if this answer is an error that names no
                        // request. Such an error does not show that calls work, so request a probe.
                        if session.liveness.failed_in_row() > 0 {
                            self.request_probe();
                        } else if was_failing && let Upstream::Shared(server) = self.upstream {
                            server.call_answered();
                        }
                        self.record_answer();
                        return Ok(CallAnswer { frame, streamed: exchange.is_stream() });
                    };
                    if method == Method::Cancelled && self.request.is_listening() {
                        return Ok(self.stopped(frame));
                    }
                    self.progressed |= method == Method::Progress;
                    // Progress extends the deadline, up to the hard limit.
                    if method == Method::Progress && progress.rises(&frame) {
                        self.deadline = (Instant::now() + self.limit).min(self.hard_deadline);
                        timer.as_mut().reset(self.deadline);
                    }
                    self.relay(method, &frame);
                }
                // When the client reconnects, resume at once, without waiting for the server's retry
                // time.
                () = self.sink.client_returned(), if is_parted => exchange.resume_now(),
                () = unconstrained(&mut timer) => {
                    let questions = exchange.open_questions().or(patience.as_deref());
                    if let Some(later) = questions.and_then(|questions| self.waits_for_people(questions)) {
                        self.deadline = later;
                        timer.as_mut().reset(later);
                        continue;
                    }
                    let config = Arc::clone(&self.upstream.server().config());
                    Box::pin(exchange.timed_out(&config.policy.health, session.pid)).await;
                    self.request_probe_of(session);
                    self.calls.cancel(session, exchange, format!("timeout after {}", limit_words(self.limit)));
                    return Err(AttemptError::Final(self.timed_out()));
                }
                reason = &mut cancel => {
                    let failure = self.cancelled(&reason);
                    self.calls.cancel(session, exchange, reason);
                    return Err(AttemptError::Final(failure));
                }
            }
        }
    }

    /// Asks the client the server's question, unless the configuration rejects questions. If the
    /// client cannot be asked, the question is answered from the configuration, queued, held for a
    /// later call, or dropped, which refuses it.
    fn ask(&self, mut question: ServerQuestion, patience: &Arc<OpenQuestions>) {
        let config = self.upstream.server().config();
        if config.server_requests == Some(ServerRequests::Reject) {
            return;
        }
        // Only a question that needs a person suspends the call's deadline.
        if needs_person(question.method()) {
            question.keep_waiting(Some(patience));
        }
        self.show(&mut question);
        let Err(mut question) = self.sink.ask(&self.upstream.server().name, question) else {
            return;
        };
        question.set_note(None);
        question.resume_waiting_calls();
        if question.method() == Method::RootsList && !config.roots.is_empty() {
            question.result(&questions::roots(&config.roots));
        } else if config.server_requests == Some(ServerRequests::Queue) {
            self.upstream.server().queue(self.cause(), question);
        } else if question.method() == Method::RootsList
            && self.sink.client.accepts_later(question.frame())
            && let Some(held) = self.upstream.held_requests()
        {
            held.keep(question);
        }
    }

    /// This call as the cause of a server's question.
    fn cause(&self) -> Cause {
        let client = &self.sink.client;
        Cause {
            principal: client.principal.clone(),
            client: client.origin.client.as_ref().map(|info| info.name.clone()),
            name: self.request.subject(),
        }
    }

    /// Adds the question to the list of open questions.
    pub(super) fn show(&self, question: &mut ServerQuestion) {
        let client = &self.sink.client;
        let name = client.origin.client.as_ref().map(|info| info.name.as_str());
        let server = self.upstream.server();
        server.show_question(name, &client.principal, question);
    }

    /// The new deadline, if a person is answering a question or has answered one within the call's
    /// limit. `None` if the deadline has passed.
    fn waits_for_people(&self, patience: &OpenQuestions) -> Option<Instant> {
        let now = Instant::now();
        match patience.last_answer() {
            None => Some(now + self.limit),
            Some(answered_at) => answered_at
                .map(|at| at + self.limit)
                .filter(|until| *until > now),
        }
    }

    fn relay(&self, method: Method, frame: &Frame) {
        let message = match (method, self.request.progress_token) {
            (Method::Progress, Some(token)) => {
                frame.with_param("progressToken", self.request.frame.get(token))
            }
            // The client has not requested progress.
            (Method::Progress, None) => return,
            (Method::LogMessage, _) if !self.sink.accepts_level(log_level(frame)) => return,
            _ if self.request.is_listening() => {
                listen::tagged(method, frame.params().unwrap_or("{}"), self.request.id())
            }
            _ => frame.one_line(),
        };
        self.sink.put(message);
    }

    /// The answer to `subscriptions/listen` after the server has ended its stream by a notification
    /// (2026-07-28, "Cancellation").
    fn stopped(&self, notification: Frame) -> CallAnswer {
        let id = self.request.id();
        let text = message::response(id, &listen::completed(id));
        CallAnswer {
            frame: Frame::read(text.into()).unwrap_or(notification),
            streamed: true,
        }
    }
}
