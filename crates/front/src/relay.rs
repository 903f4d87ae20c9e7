//! Sends the client's messages to the daemon and forwards the answers to the client.

use std::{future::poll_fn, pin::Pin, sync::Arc, task::Poll, time::Duration};

use bytes::{Bytes, BytesMut};
use mainstay_core::{
    era::{Era, code, result},
    failure::{Failure, FailureKind, MAY_HAVE_RUN},
    message::{self, MessageKind, Method},
};
use mainstay_transport::{
    EventReader, Frame, StreamBroken,
    http1::{Error, Responding, Response},
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{
    Front, MAX_MESSAGE,
    daemon::{AttachedDaemon, DaemonSession, is_put_off},
    fate::{self, Loss, MessageFate, Outgoing},
    link::FrontLink,
    session::{Unsent, listen_changes, not_sent},
};

/// Delay before a retry at a daemon that is stopping and refused the request.
const BUSY_PAUSE: Duration = Duration::from_millis(100);

/// Delay before resuming a stream that the daemon closed, unless the stream sets another (`retry`).
const RESUME_PAUSE: Duration = Duration::from_millis(200);
const MAX_RESUME_PAUSE: Duration = Duration::from_secs(5);

/// Maximum number of attempts per message that the daemon refuses with 401 or 403. Each reads the
/// token again.
const MAX_DENIED: u32 = 3;

/// A message of the client for the daemon.
pub struct ClientMessage {
    /// The message as the client sent it.
    pub text: Bytes,
    /// `None` for a batch.
    pub frame: Option<Frame>,
    pub is_modern: bool,
    /// Cancelled if the client no longer expects an answer.
    pub cancelled: CancellationToken,
    /// Tells messages with equal ids apart; 0 for batches and notifications.
    pub serial: u64,
}

/// The result of one attempt.
enum End {
    /// The daemon's response, on one line.
    Answer(Answer),
    /// The daemon accepted a message that has no answer.
    Accepted,
    Lost(Loss),
}

struct Answer {
    text: String,
    frame: Option<Frame>,
}

/// One attempt to send a message to a daemon.
pub struct SendAttempt {
    daemon: Arc<AttachedDaemon>,
    responding: Responding,
    done: Option<Result<Response, Error>>,
}

impl SendAttempt {
    fn new(message: &ClientMessage, daemon: Arc<AttachedDaemon>) -> Self {
        Self {
            responding: message.post(&daemon),
            daemon,
            done: None,
        }
    }

    /// Resolves when the message is written or the attempt has failed.
    async fn written(&mut self) {
        let write_wait = poll_fn(|context| {
            if self.responding.is_written() {
                return Poll::Ready(None);
            }
            match Pin::new(&mut self.responding).poll(context) {
                Poll::Ready(write_wait) => Poll::Ready(Some(write_wait)),
                Poll::Pending if self.responding.is_written() => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        });
        self.done = write_wait.await;
    }

    async fn response(self) -> Result<Response, Error> {
        match self.done {
            Some(done) => done,
            None => self.responding.await,
        }
    }
}

impl ClientMessage {
    fn outgoing(&self) -> Outgoing {
        match self.frame.as_ref().map(|frame| frame.envelope().kind) {
            None | Some(MessageKind::Response { .. }) => Outgoing::Batch,
            Some(MessageKind::Request { method, .. }) => Outgoing::Request(method),
            Some(MessageKind::Notification { method }) => Outgoing::Notification(method),
        }
    }

    /// The id of the request (JSON text).
    pub fn id(&self) -> &str {
        self.frame.as_ref().and_then(Frame::id).unwrap_or("null")
    }

    fn is_listen(&self) -> bool {
        self.outgoing() == Outgoing::Request(Method::Listen)
    }

    fn is_initialize(&self) -> bool {
        self.outgoing() == Outgoing::Request(Method::Initialize)
    }

    fn text(&self) -> &str {
        match &self.frame {
            Some(frame) => frame.text(),
            // `Front::sort` has checked that a batch is UTF-8.
            None => std::str::from_utf8(&self.text).unwrap_or_default(),
        }
    }

    pub fn post(&self, daemon: &AttachedDaemon) -> Responding {
        match &self.frame {
            Some(frame) if self.is_modern => daemon.post_modern(frame),
            // The client may have a session already. An `initialize` never names one.
            Some(frame) if self.is_initialize() => daemon.with_session(None).post(frame.text()),
            _ => daemon.post(self.text()),
        }
    }

    /// The answer if the outcome is unknown; `None` if the message expects no answer.
    fn unknown(&self) -> Option<String> {
        let text = format!("Mainstay was restarted or lost during the call. {MAY_HAVE_RUN}");
        let failure = |id: &str, method: Option<Method>| {
            let failure = Failure::new(FailureKind::OutcomeUnknown, &*text);
            if method == Some(Method::ToolsCall) {
                let result = failure.tool_result();
                return match self.era() {
                    Era::Legacy => message::response(id, &result),
                    Era::Modern => {
                        message::response(id, &result::to_modern(Method::ToolsCall, &result))
                    }
                };
            }
            let code = failure.kind.rpc_code();
            message::error_response(Some(id), code, &failure.message, Some(&failure.data()))
        };
        self.each(failure)
    }

    /// The answer if the message was not sent; `None` if the message expects no answer.
    fn not_sent(&self, unsent_message: &Unsent) -> Option<String> {
        self.each(|id, _| not_sent(id, unsent_message))
    }

    fn refused(&self, reason: &str) -> Option<String> {
        self.each(|id, _| message::error_response(Some(id), code::INTERNAL_ERROR, reason, None))
    }

    fn era(&self) -> Era {
        if self.is_modern {
            Era::Modern
        } else {
            Era::Legacy
        }
    }

    /// Makes an answer for each request in the message. The answers to a batch are one array.
    fn each(&self, answer: impl Fn(&str, Option<Method>) -> String) -> Option<String> {
        if let Some(frame) = &self.frame {
            return match frame.envelope().kind {
                MessageKind::Request { id, method } => Some(answer(frame.get(id), Some(method))),
                MessageKind::Notification { .. } | MessageKind::Response { .. } => None,
            };
        }
        let parts = message::batch(self.text()).unwrap_or_default();
        let frames = parts
            .into_iter()
            .filter_map(|part| Frame::read(part.to_owned().into()).ok());
        let answers: Vec<String> = frames
            .filter_map(|frame| match frame.envelope().kind {
                MessageKind::Request { id, method } => Some(answer(frame.get(id), Some(method))),
                MessageKind::Notification { .. } | MessageKind::Response { .. } => None,
            })
            .collect();
        (!answers.is_empty()).then(|| message::array(&answers))
    }
}

impl Front {
    /// Starts an attempt and writes the message. `None` if there is no daemon or the client has
    /// cancelled.
    pub async fn begin(&self, message: &ClientMessage) -> Option<SendAttempt> {
        let beginning = async {
            let daemon = self.up().await.ok()?;
            self.is_at(message.id(), &daemon);
            let mut attempt = SendAttempt::new(message, daemon);
            attempt.written().await;
            Some(attempt)
        };
        tokio::select! {
            biased;
            () = message.cancelled.cancelled() => None,
            attempt = beginning => attempt,
        }
    }

    /// Sends a message until it is answered, and forwards the answer. `first` is an attempt that
    /// [`Front::begin`] has started.
    pub async fn carry(&self, message: &ClientMessage, first: Option<SendAttempt>) {
        // On cancellation, the attempt is dropped. That closes its connection, which cancels a
        // modern request.
        let answer = tokio::select! {
            biased;
            () = message.cancelled.cancelled() => None,
            answer = self.answer(message, first) => answer,
        };
        let is_cancelled = self.forget(message);
        let Some(Answer { text, frame }) = answer else {
            return;
        };
        if let (Some(request), Some(answer)) = (&message.frame, frame) {
            self.state().session.answered(request, &answer);
        }
        if !is_cancelled {
            self.send_line(&text).await;
        }
    }

    async fn answer(
        &self,
        message: &ClientMessage,
        mut first: Option<SendAttempt>,
    ) -> Option<Answer> {
        let plain_answer = |text| Answer { text, frame: None };
        let (mut denied_count, mut is_acknowledged) = (0, false);
        loop {
            let attempt = match first.take() {
                Some(attempt) => attempt,
                None => match self.up().await {
                    Ok(daemon) => SendAttempt::new(message, daemon),
                    Err(unsent) => {
                        self.state().is_unserved = true;
                        return message.not_sent(&unsent).map(plain_answer);
                    }
                },
            };
            let daemon = Arc::clone(&attempt.daemon);
            self.is_at(message.id(), &daemon);
            let loss = match attempt.response().await {
                Err(error) => {
                    self.lose(&daemon);
                    lost_by(&daemon, &error)
                }
                Ok(response) if matches!(response.head.status, 401 | 403) => {
                    denied_count += 1;
                    if denied_count >= MAX_DENIED {
                        let reason = "the daemon refuses the token, or needs one";
                        return message.refused(reason).map(plain_answer);
                    }
                    self.lose(&daemon);
                    Loss::NotTaken
                }
                Ok(response) => {
                    match self
                        .receive(message, &daemon, response, &mut is_acknowledged)
                        .await
                    {
                        End::Answer(answer) => return Some(answer),
                        End::Accepted => return None,
                        End::Lost(loss) => loss,
                    }
                }
            };
            match fate::after_loss(message.outgoing(), loss, false) {
                MessageFate::Again => {}
                MessageFate::Dropped => return None,
                // `follow` has already tried to resume the stream.
                MessageFate::Resume | MessageFate::Unknown => {
                    return message.unknown().map(plain_answer);
                }
            }
        }
    }

    /// Receives the response to one attempt.
    async fn receive(
        &self,
        message: &ClientMessage,
        daemon: &Arc<AttachedDaemon>,
        mut response: Response,
        is_acknowledged: &mut bool,
    ) -> End {
        let status = response.head.status;
        if response.head.is_event_stream {
            self.cancel_again(message.id(), daemon);
            return self
                .follow(message, daemon, response, is_acknowledged)
                .await;
        }
        if is_put_off(&response) {
            // The daemon is stopping. In a session, the link detects that by its stream. Without a
            // session, report it.
            if message.is_modern {
                self.lose(daemon);
            }
            self.pause(daemon).await;
            return End::Lost(Loss::NotTaken);
        }
        let session = message
            .is_initialize()
            .then(|| response.head.get("mcp-session-id").map(str::to_owned))
            .flatten();
        let body = response.collect(&mut BytesMut::new(), MAX_MESSAGE).await;
        let Ok(body) = body else {
            return End::Lost(Loss::Taken);
        };
        if (200..300).contains(&status) {
            if body.is_empty() {
                return End::Accepted;
            }
            let Some(answer) = answer(message, body) else {
                return End::Lost(Loss::Taken);
            };
            if let Some(id) = session {
                self.open(message, daemon, id, &answer);
            }
            return End::Answer(answer);
        }
        // The session has ended by its idle timeout or by a restart.
        if status == 404 && daemon.session.is_some() && !message.is_modern {
            self.lose(daemon);
            return End::Lost(Loss::NotTaken);
        }
        match refusal(message, status, &body) {
            Some(text) => End::Answer(Answer { text, frame: None }),
            None => End::Accepted,
        }
    }

    /// Forwards the messages of a stream up to the answer. Resumes a broken stream if possible.
    async fn follow(
        &self,
        message: &ClientMessage,
        daemon: &Arc<AttachedDaemon>,
        response: Response,
        is_acknowledged: &mut bool,
    ) -> End {
        let mut from = Arc::clone(daemon);
        let mut events = EventReader::new(response, MAX_MESSAGE);
        let mut last_event = None;
        let mut pause = RESUME_PAUSE;
        loop {
            let is_closed = match events.next().await {
                Some(Ok(event)) => {
                    if event.id.is_some() {
                        last_event = event.id;
                    }
                    if let Some(retry) = event.retry {
                        pause = Duration::from_millis(retry).min(MAX_RESUME_PAUSE);
                    }
                    let Some(data) = event.data.filter(|data| !data.is_empty()) else {
                        continue;
                    };
                    if let Some(notifications) = again_acknowledged(message, &data, is_acknowledged)
                    {
                        for change in notifications {
                            self.send_line(&change).await;
                        }
                        continue;
                    }
                    let Some(frame) = self.pass_on(&from, data).await else {
                        continue;
                    };
                    events.finish();
                    // The daemon ended the listen stream because it is stopping. The client's
                    // stream continues at the next daemon.
                    if message.is_listen() && frame.result().is_some() {
                        self.lose(&from);
                        return End::Lost(Loss::NotTaken);
                    }
                    let text = message::one_line(frame.text()).into_owned();
                    let frame = Some(frame);
                    return End::Answer(Answer { text, frame });
                }
                Some(Err(StreamBroken::TooLarge { limit, .. })) => {
                    let reason = format!("the answer exceeds {limit} bytes");
                    return match message.refused(&reason) {
                        Some(text) => End::Answer(Answer { text, frame: None }),
                        None => End::Accepted,
                    };
                }
                Some(Err(StreamBroken::Broken(_))) => false,
                None => true,
            };
            let loss = match last_event {
                Some(_) if !message.is_modern => Loss::Resumable,
                _ => Loss::Taken,
            };
            if fate::after_loss(message.outgoing(), loss, false) != MessageFate::Resume {
                return End::Lost(loss);
            }
            if is_closed {
                sleep(pause).await;
            }
            match self.resume(&from, last_event.as_deref()).await {
                Some((daemon, response)) => {
                    from = daemon;
                    self.is_at(message.id(), &from);
                    events = EventReader::new(response, MAX_MESSAGE);
                }
                None => return End::Lost(Loss::Taken),
            }
        }
    }

    /// Sends a cancellation again, because the first one may have arrived before its request.
    fn cancel_again(&self, id: &str, daemon: &Arc<AttachedDaemon>) {
        let cancellation = {
            let state = self.state();
            let request = state.in_flight.get(id);
            request.and_then(|request| request.cancellation.clone())
        };
        if let Some(cancellation) = cancellation {
            self.post_aside(Arc::clone(daemon), cancellation);
        }
    }

    /// Forwards a request or notification of the daemon to the client. Returns a response to the
    /// caller.
    pub async fn pass_on(&self, daemon: &Arc<AttachedDaemon>, data: Bytes) -> Option<Frame> {
        let frame = match Frame::of_server_aside(data).await {
            Ok(frame) => frame,
            Err(error) => {
                tracing::warn!(%error, "a message of the daemon cannot be read");
                return None;
            }
        };
        match frame.envelope().kind {
            MessageKind::Response { .. } => return Some(frame),
            MessageKind::Request { id, .. } => {
                let id = frame.get(id);
                if self.ending.is_cancelled() {
                    self.refuse(daemon, id);
                    return None;
                }
                let own_id = self.state().questions.ask(id, Arc::clone(daemon));
                self.send_line(&frame.with_id(&own_id.to_string())).await;
            }
            MessageKind::Notification {
                method: Method::Cancelled,
            } => {
                let id = frame.param("requestId").unwrap_or("null");
                let is_from = |from: &Arc<AttachedDaemon>| {
                    from.epoch == daemon.epoch || from.is_same_run(daemon)
                };
                let own_id = self.state().questions.taken_back(id, is_from);
                if let Some(own_id) = own_id {
                    let text = frame.with_param("requestId", &own_id.to_string());
                    self.send_line(&text).await;
                }
            }
            MessageKind::Notification { .. } => {
                self.send_line(&message::one_line(frame.text())).await
            }
        }
        None
    }

    /// Refuses a question, because the client has closed stdin.
    pub fn refuse(&self, daemon: &Arc<AttachedDaemon>, id: &str) {
        let reason = "the client has closed its end";
        let answer = message::error_response(Some(id), code::INTERNAL_ERROR, reason, None);
        self.post_aside(Arc::clone(daemon), answer);
    }

    /// Posts a message in a task, and ignores the answer.
    pub fn post_aside(&self, daemon: Arc<AttachedDaemon>, text: String) {
        self.tasks.spawn(async move {
            if let Err(error) = daemon.post(&text).await {
                tracing::debug!(%error, "a message did not reach the daemon");
            }
        });
    }

    /// True if the client has opened another session than that of `previous_daemon`.
    pub fn has_another_session(&self, previous_daemon: &AttachedDaemon) -> bool {
        let id =
            |session: &Option<DaemonSession>| session.as_ref().map(|session| session.id.clone());
        let held_session = id(&self.state().held);
        held_session.is_some() && held_session != id(&previous_daemon.session)
    }

    /// Ends a session that the client has replaced. If that fails, its idle timeout ends it.
    fn end_session(&self, daemon: Arc<AttachedDaemon>) {
        self.tasks.spawn(async move {
            if let Err(error) = daemon.delete().await {
                tracing::debug!(%error, "a session of before is not ended");
            }
        });
    }

    /// Resumes a stream at the current daemon; `None` if the session or the stream has ended.
    async fn resume(
        &self,
        from: &AttachedDaemon,
        last_event: Option<&str>,
    ) -> Option<(Arc<AttachedDaemon>, Response)> {
        loop {
            let daemon = self.up().await.ok()?;
            let id =
                |daemon: &AttachedDaemon| daemon.session.as_ref().map(|session| session.id.clone());
            if id(&daemon) != id(from) {
                return None;
            }
            match daemon.get(last_event).await {
                Ok(response) if is_put_off(&response) => self.pause(&daemon).await,
                Ok(response) => {
                    let is_stream = response.head.status == 200 && response.head.is_event_stream;
                    return is_stream.then_some((daemon, response));
                }
                Err(_) => self.lose(&daemon),
            }
        }
    }

    /// Waits for [`BUSY_PAUSE`] or until the link changes.
    async fn pause(&self, daemon: &AttachedDaemon) {
        let mut link = self.link.subscribe();
        let has_changed = link.wait_for(|link| {
            let current_epoch = link.daemon().map(|daemon| daemon.epoch);
            current_epoch != Some(daemon.epoch)
        });
        tokio::select! {
            _ = has_changed => {}
            () = sleep(BUSY_PAUSE) => {}
        }
    }

    /// Stores the session that the client's `initialize` has opened.
    fn open(
        &self,
        message: &ClientMessage,
        daemon: &Arc<AttachedDaemon>,
        id: String,
        answer: &Answer,
    ) {
        let (Some(request), Some(frame)) = (&message.frame, &answer.frame) else {
            return;
        };
        let (session, previous_session) = {
            let mut state = self.state();
            state.session.forget();
            state.session.answered(request, frame);
            // Questions of the old session cannot be answered in the new one.
            state.questions.forget(|_| true);
            let version = state.session.version_header().map(str::to_owned);
            let session = DaemonSession { id, version };
            let previous_session = state.held.replace(session.clone());
            (session, previous_session)
        };
        if let Some(previous_session) = previous_session {
            self.end_session(Arc::new(daemon.with_session(Some(previous_session))));
        }
        self.link.send_if_modified(|link| {
            let is_current = link
                .daemon()
                .is_some_and(|current_daemon| current_daemon.epoch == daemon.epoch);
            if is_current {
                *link = FrontLink::Up(Arc::new(daemon.with_session(Some(session))));
            }
            is_current
        });
        self.opened.notify_one();
    }
}

fn lost_by(daemon: &AttachedDaemon, error: &Error) -> Loss {
    if daemon.has_not_taken(error) {
        Loss::NotTaken
    } else {
        Loss::Taken
    }
}

/// Handles the acknowledgement of a reopened listen stream. The client already has one, so it gets
/// notifications of possible changes instead. `None` for other messages.
fn again_acknowledged(
    message: &ClientMessage,
    data: &Bytes,
    is_acknowledged: &mut bool,
) -> Option<Vec<String>> {
    let listen = message.frame.as_ref().filter(|_| message.is_listen())?;
    let frame = Frame::read(data.clone()).ok()?;
    if frame.method() != Some(Method::Acknowledged) {
        return None;
    }
    let was_acknowledged = std::mem::replace(is_acknowledged, true);
    was_acknowledged.then(|| listen_changes(listen))
}

/// Parses a body as the answer, and puts it on one line.
fn answer(message: &ClientMessage, body: Bytes) -> Option<Answer> {
    if message.frame.is_none() {
        let text = String::from_utf8(body.into()).ok()?;
        return Some(Answer {
            text: message::one_line(&text).into_owned(),
            frame: None,
        });
    }
    let frame = Frame::read(body).ok()?;
    Some(Answer {
        text: message::one_line(frame.text()).into_owned(),
        frame: Some(frame),
    })
}

/// The JSON-RPC error for an HTTP error response, with the request's id. `None` if the message
/// expects no answer.
fn refusal(message: &ClientMessage, status: u16, body: &Bytes) -> Option<String> {
    let response = Frame::read(body.clone()).ok();
    let error = response.as_ref().and_then(Frame::error);
    match (error, &message.frame) {
        (Some(error), Some(_)) => message.each(|id, _| {
            let error = message::one_line(error);
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
        }),
        _ => {
            let text = String::from_utf8_lossy(body);
            let text = message::shortened(text.trim().to_owned(), 300);
            message.refused(&format!(
                "the daemon answers with HTTP status {status}: {text}"
            ))
        }
    }
}
