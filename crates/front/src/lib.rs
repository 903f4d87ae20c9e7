//! A stdio front for a running daemon: one client on stdin and stdout, whose session survives
//! restarts of the daemon. `fate`, `session` and `questions` decide, `link` keeps the connection,
//! and `relay` forwards messages.

mod absent;
mod client;
mod command;
mod daemon;
mod fate;
mod link;
mod questions;
mod relay;
mod session;
mod starter;

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use mainstay_command_line::{CommandError, Exit, screen, signals::Signals};
use mainstay_core::{
    era::{code, modern},
    message::{self, MessageKind, Method},
};
use mainstay_transport::{Frame, InputLine, LineWriter, UnreadableMessage};
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    io::AsyncRead,
    sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, watch},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::{
    client::{ClientInput, DoorInput, Leaving, door_input},
    command::{Connect, path},
    daemon::{Finder, NoDaemon},
    starter::Starter,
};
use self::{
    daemon::{AttachedDaemon, DaemonSession},
    link::{FrontLink, Unattached},
    questions::ForwardedQuestions,
    relay::ClientMessage,
    session::{ClientSession, Unsent},
};

/// Maximum message size. The daemon has smaller limits.
const MAX_MESSAGE: usize = 256 * 1024 * 1024;

/// Maximum number of queued bytes. Reading pauses above it.
const MAX_QUEUED: usize = 16 * 1024 * 1024;

/// Maximum number of unanswered requests. Further requests are refused.
const MAX_UNANSWERED: usize = 1024;

/// Time limit for a message to wait for a lost daemon. A restart takes seconds.
const PATIENCE: Duration = Duration::from_mins(1);

/// Time limit for a waiting message after the end of stdin.
const LAST_PATIENCE: Duration = Duration::from_secs(5);

/// Time limit for ending the session.
const DELETE_LIMIT: Duration = Duration::from_secs(2);

/// State of a front, shared by its tasks.
struct Front {
    finder: Finder,
    output: LineWriter,
    link: watch::Sender<FrontLink>,
    /// The last epoch whose daemon was lost.
    lost: watch::Sender<u64>,
    /// Notified after a session opens.
    opened: Notify,
    state: Mutex<FrontState>,
    /// Cancelled at the end of stdin.
    ending: CancellationToken,
    /// Cancelled if no daemon was found in the initial waiting time.
    hopeless: CancellationToken,
    /// Cancelled if the daemon lacks the endpoint.
    nowhere: CancellationToken,
    /// Tasks that wait for answers.
    tasks: TaskTracker,
}

#[derive(Default)]
struct FrontState {
    session: ClientSession,
    /// The latest session of the daemon.
    held: Option<DaemonSession>,
    questions: ForwardedQuestions<Arc<AttachedDaemon>>,
    /// Requests by their ids (JSON text).
    in_flight: HashMap<String, InFlightRequest>,
    /// The serial number of the last request.
    last_serial: u64,
    /// The reason for the missing daemon.
    unattached: Option<Unattached>,
    /// True if a daemon was attached before.
    was_attached: bool,
    /// True if a request was refused for lack of a daemon.
    is_unserved: bool,
    /// The reason that requests cannot be sent.
    reason: Option<Unsent>,
}

impl FrontState {
    /// The reason for refused requests, if no daemon was ever attached.
    fn absence(&mut self) -> Option<Unattached> {
        let is_absent = self.is_unserved && !self.was_attached;
        is_absent.then(|| self.unattached.take().unwrap_or(Unattached::Late))
    }
}

/// An unanswered request.
struct InFlightRequest {
    /// True if the client expects no answer.
    is_cancelled: bool,
    /// The daemon that received the request.
    at: Option<Arc<AttachedDaemon>>,
    is_modern: bool,
    serial: u64,
    /// True for a listen stream.
    is_stream: bool,
    /// The client's own cancellation.
    cancellation: Option<String>,
    /// Cancelled to abandon the attempt.
    give_up: CancellationToken,
}

/// A queued message of the client, and its share of the queue's bytes.
struct Queued {
    message: ClientMessage,
    _room: Option<OwnedSemaphorePermit>,
}

/// The next step for a line.
enum Sorted {
    Queue(ClientMessage),
    /// The line is done.
    Done,
    /// An immediate answer.
    Answer(String),
}

/// Serves the client on stdin and stdout. `wait` is the initial waiting time for a daemon. With a
/// `starter`, a lost daemon is replaced.
pub async fn run(
    finder: Finder,
    wait: Duration,
    starter: Option<Starter>,
) -> Result<Exit, CommandError> {
    let signals = Signals::listen().map_err(CommandError::Signals)?;
    let client = ClientInput::new(tokio::io::stdin(), MAX_MESSAGE);
    Box::pin(serve(client, finder, wait, starter, signals)).await
}

/// Serves a client, possibly after a handover from another door; see [`run`].
pub async fn serve(
    mut client: ClientInput<impl AsyncRead + Unpin>,
    finder: Finder,
    wait: Duration,
    mut starter: Option<Starter>,
    mut signals: Signals,
) -> Result<Exit, CommandError> {
    let (stdout, print_task) = screen::protocol();
    let front = Arc::new(Front {
        finder,
        output: LineWriter::default(),
        link: watch::Sender::new(FrontLink::Down),
        lost: watch::Sender::new(0),
        opened: Notify::new(),
        state: Mutex::new(FrontState {
            session: std::mem::take(&mut client.session),
            ..FrontState::default()
        }),
        ending: CancellationToken::new(),
        hopeless: CancellationToken::new(),
        nowhere: CancellationToken::new(),
        tasks: TaskTracker::new(),
    });
    let write_task = async {
        let (write_result, ()) = tokio::join!(front.output.run(stdout), print_task);
        write_result
    };
    let serve_task = async {
        let serve_result = tokio::select! {
            serve_result = front.serve(client, wait) => serve_result,
            never = link::keep(&front, starter.as_mut()) => match never {},
            _ = signals.next() => Ok(Exit::DONE),
            () = screen::gone() => Ok(Exit::DONE),
        };
        front.leave().await;
        front.output.close();
        if let Some(starter) = &mut starter {
            starter.end().await;
        }
        serve_result
    };
    let (write_result, serve_result) = tokio::join!(write_task, serve_task);
    match write_result {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(CommandError::Output(error))
        }
        _ => serve_result,
    }
}

impl Front {
    fn state(&self) -> MutexGuard<'_, FrontState> {
        // The lock is held for operations on maps, never across an await.
        self.state.lock()
    }

    /// Sends a line to the client. Another task detects a closed output.
    async fn send_line(&self, line: &str) {
        self.output.send(line).await.ok();
    }

    /// Records the reason for the missing daemon.
    fn note(&self, cause: Unattached) {
        let mut state = self.state();
        let kind = match &cause {
            Unattached::NoEndpoint(absent) => absent.kind,
            _ => Unsent::UNREACHABLE,
        };
        state.reason = Some(Unsent {
            kind,
            reason: cause.to_string(),
        });
        let is_nowhere = matches!(cause, Unattached::NoEndpoint(_));
        state.unattached = Some(cause);
        drop(state);
        if is_nowhere {
            self.nowhere.cancel();
        }
    }

    /// Records the loss of this daemon.
    fn lose(&self, daemon: &AttachedDaemon) {
        self.link.send_if_modified(|link| {
            let is_current = link
                .daemon()
                .is_some_and(|current_daemon| current_daemon.epoch == daemon.epoch);
            if is_current {
                *link = FrontLink::Down;
            }
            is_current
        });
        self.lost.send_if_modified(|lost_epoch| {
            let is_news = *lost_epoch < daemon.epoch;
            *lost_epoch = (*lost_epoch).max(daemon.epoch);
            is_news
        });
    }

    /// Waits for a daemon. Returns an error after the time limit.
    async fn up(&self) -> Result<Arc<AttachedDaemon>, Unsent> {
        let mut link = self.link.subscribe();
        let last_wait = async {
            self.ending.cancelled().await;
            sleep(LAST_PATIENCE).await;
        };
        tokio::select! {
            biased;
            up = link.wait_for(|link| link.daemon().is_some()) => {
                let daemon = up.ok().and_then(|link| link.daemon().cloned());
                daemon.ok_or_else(|| self.unsent_reason())
            }
            () = self.hopeless.cancelled() => Err(self.unsent_reason()),
            () = sleep(PATIENCE) => Err(self.unsent_reason()),
            () = last_wait => Err(self.unsent_reason()),
        }
    }

    fn unsent_reason(&self) -> Unsent {
        let reason = self.state().reason.clone();
        reason.unwrap_or_else(|| Unsent {
            kind: Unsent::UNREACHABLE,
            reason: "the daemon does not answer".to_owned(),
        })
    }

    /// Records the daemon of a request.
    fn is_at(&self, id: &str, daemon: &Arc<AttachedDaemon>) {
        if let Some(request) = self.state().in_flight.get_mut(id) {
            request.at = Some(Arc::clone(daemon));
        }
    }

    /// Removes a finished request. Returns true if the client expects no answer.
    fn forget(&self, message: &ClientMessage) -> bool {
        let mut state = self.state();
        let entry = state.in_flight.get(message.id());
        if entry.is_none_or(|request| request.serial != message.serial) {
            // Batches and abandoned requests have no entry.
            return message.cancelled.is_cancelled();
        }
        let removed_request = state.in_flight.remove(message.id());
        removed_request.is_some_and(|request| request.is_cancelled)
    }

    /// Abandons the requests of the earlier session, whose end cancels them. The client may reuse
    /// their ids.
    fn abandon(state: &mut FrontState) {
        state.in_flight.retain(|_, request| {
            if !request.is_modern {
                request.give_up.cancel();
            }
            request.is_modern
        });
    }

    /// Serves the client until stdin ends and all answers are sent.
    async fn serve(
        self: &Arc<Self>,
        client: ClientInput<impl AsyncRead + Unpin>,
        wait: Duration,
    ) -> Result<Exit, CommandError> {
        // Permits bound the bytes of the messages.
        let (queue, queue_receiver) = mpsc::unbounded_channel();
        let reading = async {
            self.read(client, queue).await;
            self.end_input();
        };
        let send_task = async {
            self.send(queue_receiver).await;
            self.tasks.close();
            self.tasks.wait().await;
        };
        let start_wait = self.wait_at_start(wait);
        let serve_task = async { tokio::join!(reading, send_task) };
        tokio::pin!(serve_task);
        tokio::select! {
            biased;
            _ = &mut serve_task => match self.state().absence() {
                Some(cause) => Err(cause.into()),
                None => Ok(Exit::DONE),
            },
            // Refuse open requests before the end.
            () = async {
                start_wait.await;
                self.hopeless.cancel();
                timeout(DELETE_LIMIT, self.refused()).await.ok();
            } => Err(self.state().unattached.take().unwrap_or(Unattached::Late).into()),
        }
    }

    /// Resolves if no daemon is found in the initial waiting time.
    async fn wait_at_start(&self, wait: Duration) {
        let mut link = self.link.subscribe();
        // The result holds a lock on the link, so drop it immediately.
        let connection_wait = async { drop(link.wait_for(|link| link.daemon().is_some()).await) };
        tokio::select! {
            biased;
            () = connection_wait => std::future::pending().await,
            // Waiting cannot help.
            () = self.nowhere.cancelled() => {}
            () = sleep(wait) => {}
        }
    }

    /// Resolves after the waiting requests are refused.
    async fn refused(&self) {
        let mut interval = tokio::time::interval(Duration::from_millis(10));
        // Allow for a message in progress.
        interval.tick().await;
        loop {
            interval.tick().await;
            if self.state().in_flight.is_empty() {
                return;
            }
        }
    }

    /// Reads stdin to its end. Urgent lines are processed immediately, others are queued.
    async fn read(
        self: &Arc<Self>,
        mut client: ClientInput<impl AsyncRead + Unpin>,
        queue: mpsc::UnboundedSender<Queued>,
    ) {
        let room = Arc::new(Semaphore::new(MAX_QUEUED));
        loop {
            let line = match client.next().await {
                Ok(Some(InputLine::Whole(line))) => line,
                Ok(Some(InputLine::TooLong { limit, .. })) => {
                    let reason = format!("a message may have {limit} bytes");
                    let error = message::error_response(None, code::INVALID_REQUEST, &reason, None);
                    self.send_line(&error).await;
                    continue;
                }
                Ok(None) | Err(_) => return,
            };
            if line.trim_ascii().is_empty() {
                continue;
            }
            let bytes = line.len().min(MAX_QUEUED);
            let message = match self.sort(line) {
                Sorted::Queue(message) => message,
                Sorted::Done => continue,
                Sorted::Answer(error) => {
                    self.send_line(&error).await;
                    continue;
                }
            };
            let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
            let room = Arc::clone(&room).acquire_many_owned(permits).await.ok();
            let queued_message = Queued {
                message,
                _room: room,
            };
            if queue.send(queued_message).is_err() {
                return;
            }
        }
    }

    /// Decides the next step for a line.
    fn sort(self: &Arc<Self>, line: Bytes) -> Sorted {
        let cancel_token = CancellationToken::new();
        if message::is_batch(&line) {
            let read_result = match std::str::from_utf8(&line) {
                Err(_) => Err(UnreadableMessage::Utf8),
                Ok(text) => message::batch(text).map_err(UnreadableMessage::Malformed),
            };
            if let Err(error) = read_result {
                return Sorted::Answer(unreadable(&error));
            }
            return Sorted::Queue(ClientMessage {
                text: line,
                frame: None,
                is_modern: false,
                cancelled: cancel_token,
                serial: 0,
            });
        }
        let frame = match Frame::read(line.clone()) {
            Ok(frame) => frame,
            Err(error) => return Sorted::Answer(unreadable(&error)),
        };
        let is_modern = modern::is_modern(frame.envelope(), None);
        let mut serial = 0;
        match frame.envelope().kind {
            MessageKind::Response { .. } => {
                self.answer_question(&frame);
                return Sorted::Done;
            }
            MessageKind::Notification {
                method: Method::Cancelled,
            } => {
                self.cancel(&frame);
                return Sorted::Done;
            }
            MessageKind::Notification { .. } => {}
            MessageKind::Request { id, method } => {
                let id = frame.get(id);
                let is_away = self.link.borrow().daemon().is_none();
                let mut state = self.state();
                // A ping checks the peer, which is the front.
                if method == Method::Ping && !is_modern && (is_away || state.held.is_none()) {
                    return Sorted::Answer(message::response(id, "{}"));
                }
                if method == Method::Initialize && !is_modern {
                    Self::abandon(&mut state);
                }
                if state.in_flight.contains_key(id) {
                    let reason = format!("a request with id {id} is in flight already");
                    let id = Some(id);
                    let error = message::error_response(id, code::INVALID_REQUEST, &reason, None);
                    return Sorted::Answer(error);
                }
                if state.in_flight.len() >= MAX_UNANSWERED {
                    let reason = format!("{MAX_UNANSWERED} requests wait for their answers");
                    let id = Some(id);
                    let error = message::error_response(id, code::INVALID_REQUEST, &reason, None);
                    return Sorted::Answer(error);
                }
                state.last_serial += 1;
                serial = state.last_serial;
                let request = InFlightRequest {
                    is_cancelled: false,
                    at: None,
                    is_modern,
                    serial,
                    is_stream: method == Method::Listen,
                    cancellation: None,
                    give_up: cancel_token.clone(),
                };
                state.in_flight.insert(id.to_owned(), request);
            }
        }
        Sorted::Queue(ClientMessage {
            text: line,
            frame: Some(frame),
            is_modern,
            cancelled: cancel_token,
            serial,
        })
    }

    /// Posts the client's answer to the daemon with the question.
    fn answer_question(&self, frame: &Frame) {
        let id = frame.id().unwrap_or("null");
        let Some(question) = self.state().questions.answered(id) else {
            tracing::debug!(
                id,
                "an answer to no question, or to one of a daemon that is gone"
            );
            return;
        };
        // A newer session refuses answers to old questions.
        self.post_aside(question.from, frame.with_id(&question.id));
    }

    /// Cancels a request for the client.
    fn cancel(&self, frame: &Frame) {
        let id = frame.param("requestId").unwrap_or("null");
        let text = frame.one_line();
        let request_time = {
            let mut state = self.state();
            let Some(request) = state.in_flight.get_mut(id) else {
                return;
            };
            request.is_cancelled = true;
            match &request.at {
                Some(request_time) if !request.is_modern => {
                    request.cancellation = Some(text.clone());
                    Arc::clone(request_time)
                }
                // Either nothing was sent, or closing the connection cancels the request.
                _ => {
                    request.give_up.cancel();
                    return;
                }
            }
        };
        self.post_aside(request_time, text);
    }

    /// Records the end of stdin.
    fn end_input(&self) {
        self.ending.cancel();
        let (questions, streams) = {
            let mut state = self.state();
            let open_streams = state.in_flight.values().filter(|request| request.is_stream);
            let streams: Vec<_> = open_streams
                .map(|request| request.give_up.clone())
                .collect();
            (state.questions.close(), streams)
        };
        for question in questions {
            self.refuse(&question.from, &question.id);
        }
        for stream in streams {
            stream.cancel();
        }
    }

    /// Sends messages in order. Other tasks wait for the answers.
    async fn send(self: &Arc<Self>, mut queue_receiver: mpsc::UnboundedReceiver<Queued>) {
        while let Some(queue_receiver) = queue_receiver.recv().await {
            let message = &queue_receiver.message;
            let kind = message.frame.as_ref().map(|frame| frame.envelope().kind);
            if let Some(MessageKind::Notification { method }) = kind {
                // The daemon must accept this message before the following ones.
                self.carry(message, None).await;
                self.state().session.notified(method);
                continue;
            }
            let is_initialize = matches!(
                kind,
                Some(MessageKind::Request {
                    method: Method::Initialize,
                    ..
                })
            );
            if is_initialize {
                // The following messages belong to the session that this one opens.
                self.carry(message, None).await;
                continue;
            }
            let Some(attempt) = self.begin(message).await else {
                let (front, message) = (Arc::clone(self), queue_receiver.message);
                self.tasks
                    .spawn(async move { front.carry(&message, None).await });
                continue;
            };
            let front = Arc::clone(self);
            self.tasks
                .spawn(async move { front.carry(&queue_receiver.message, Some(attempt)).await });
        }
    }

    /// Ends the session.
    async fn leave(&self) {
        let daemon = self.link.borrow().daemon().cloned();
        let Some(daemon) = daemon.filter(|daemon| daemon.session.is_some()) else {
            return;
        };
        match timeout(DELETE_LIMIT, daemon.delete()).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the session is not ended"),
            Err(_) => tracing::debug!("the session is not ended in time"),
        }
    }
}

/// The JSON-RPC error for an unreadable message.
fn unreadable(error: &UnreadableMessage) -> String {
    let (code, id) = match error {
        UnreadableMessage::Utf8 => (code::PARSE_ERROR, None),
        UnreadableMessage::Malformed(malformed) => (malformed.code(), malformed.id()),
    };
    message::error_response(id, code, &error.to_string(), None)
}

impl From<Unattached> for CommandError {
    fn from(cause: Unattached) -> Self {
        match cause {
            // For example a configuration file that cannot be used.
            Unattached::NoDaemon(NoDaemon::NotFound(error))
                if error.exit() != Exit::UNREACHABLE =>
            {
                *error
            }
            Unattached::NoEndpoint(absent) => Self::NotFound {
                subject: absent.subject,
                hint: absent.hint,
            },
            cause => Self::NotAttached {
                exit: match cause {
                    Unattached::Unauthorized => Exit::FAILED,
                    _ => Exit::UNREACHABLE,
                },
                reason: cause.to_string(),
            },
        }
    }
}
