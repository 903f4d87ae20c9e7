//! A stdio front for a running daemon. It serves one client on stdin and stdout. The client's
//! session survives restarts of the daemon. `fate`, `session` and `questions` decide, `link` keeps
//! the connection to the daemon, and `relay` forwards messages.

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

/// Maximum size of a message, in bytes. The daemon enforces smaller limits.
const MAX_MESSAGE: usize = 256 * 1024 * 1024;

/// Maximum number of queued bytes. Reading of stdin pauses above it.
const MAX_QUEUED: usize = 16 * 1024 * 1024;

/// Maximum number of unanswered requests. Further requests are refused.
const MAX_UNANSWERED: usize = 1024;

/// Time that a message waits for a new daemon before it is refused. A restart takes seconds.
const PATIENCE: Duration = Duration::from_mins(1);

/// Like [`PATIENCE`], after the end of stdin.
const LAST_PATIENCE: Duration = Duration::from_secs(5);

/// Time limit for the request that ends the session.
const DELETE_LIMIT: Duration = Duration::from_secs(2);

/// The state of a front, shared by its tasks.
struct Front {
    finder: Finder,
    output: LineWriter,
    link: watch::Sender<FrontLink>,
    /// The highest epoch of a lost daemon. `link` waits for it.
    lost: watch::Sender<u64>,
    /// Notified after the client's `initialize` has opened a session.
    opened: Notify,
    state: Mutex<FrontState>,
    /// Cancelled at the end of stdin.
    ending: CancellationToken,
    /// Cancelled if no daemon was found within the initial wait. Requests are then refused.
    hopeless: CancellationToken,
    /// Cancelled if the daemon does not have the endpoint. Waiting for it is then useless.
    nowhere: CancellationToken,
    /// Tasks that wait for answers or post a message.
    tasks: TaskTracker,
}

#[derive(Default)]
struct FrontState {
    session: ClientSession,
    /// The latest session at the daemon.
    held: Option<DaemonSession>,
    questions: ForwardedQuestions<Arc<AttachedDaemon>>,
    /// Unanswered requests of the client, by id (JSON text).
    in_flight: HashMap<String, InFlightRequest>,
    /// The serial number of the last request. Serials tell requests with equal ids apart.
    last_serial: u64,
    /// The reason that no daemon is attached.
    unattached: Option<Unattached>,
    /// True if a daemon was ever attached.
    was_attached: bool,
    /// True if a request was refused because no daemon was attached.
    is_unserved: bool,
    /// The reason that requests cannot be sent.
    reason: Option<Unsent>,
}

impl FrontState {
    /// The reason that no request could be served, if no daemon was ever attached.
    fn absence(&mut self) -> Option<Unattached> {
        let is_absent = self.is_unserved && !self.was_attached;
        is_absent.then(|| self.unattached.take().unwrap_or(Unattached::Late))
    }
}

/// A request of the client that is not answered yet.
struct InFlightRequest {
    /// True if the client has cancelled the request and expects no answer.
    is_cancelled: bool,
    /// The daemon that received the request; `None` while it is unsent.
    at: Option<Arc<AttachedDaemon>>,
    is_modern: bool,
    serial: u64,
    /// True for a listen stream.
    is_stream: bool,
    /// The client's `notifications/cancelled`, as one line. It is sent again if it may have
    /// overtaken the request.
    cancellation: Option<String>,
    /// Cancelled to end the request's task without an answer.
    give_up: CancellationToken,
}

/// A queued message of the client, with the permit for its bytes in the queue.
struct Queued {
    message: ClientMessage,
    _room: Option<OwnedSemaphorePermit>,
}

/// The next step for a line of the client.
enum Sorted {
    Queue(ClientMessage),
    /// The line has been handled completely.
    Done,
    /// An answer to send at once.
    Answer(String),
}

/// Serves the client on stdin and stdout. `wait` limits the initial wait for a daemon. A `starter`
/// starts a new daemon if the current one is lost.
pub async fn run(
    finder: Finder,
    wait: Duration,
    starter: Option<Starter>,
) -> Result<Exit, CommandError> {
    let signals = Signals::listen().map_err(CommandError::Signals)?;
    let client = ClientInput::new(tokio::io::stdin(), MAX_MESSAGE);
    Box::pin(serve(client, finder, wait, starter, signals)).await
}

/// Like [`run`], for a client whose first lines another door may have read (handover).
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
        // Locked for operations on maps, never across an await.
        self.state.lock()
    }

    /// Sends a line to the client. `serve` detects a closed output, so an error is ignored here.
    async fn send_line(&self, line: &str) {
        self.output.send(line).await.ok();
    }

    /// Stores the reason that no daemon is attached.
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

    /// Marks this daemon as lost, unless a newer one is attached.
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

    /// Waits for an attached daemon. Returns an error after [`PATIENCE`], and at once if the
    /// initial wait has failed.
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

    /// Records which daemon received a request.
    fn is_at(&self, id: &str, daemon: &Arc<AttachedDaemon>) {
        if let Some(request) = self.state().in_flight.get_mut(id) {
            request.at = Some(Arc::clone(daemon));
        }
    }

    /// Removes a finished request. Returns true if the client has cancelled it.
    fn forget(&self, message: &ClientMessage) -> bool {
        let mut state = self.state();
        let entry = state.in_flight.get(message.id());
        if entry.is_none_or(|request| request.serial != message.serial) {
            // Batches, notifications and abandoned requests have no entry.
            return message.cancelled.is_cancelled();
        }
        let removed_request = state.in_flight.remove(message.id());
        removed_request.is_some_and(|request| request.is_cancelled)
    }

    /// Abandons the requests of the earlier session, because a new `initialize` ends that session.
    /// The client may reuse their ids.
    fn abandon(state: &mut FrontState) {
        state.in_flight.retain(|_, request| {
            if !request.is_modern {
                request.give_up.cancel();
            }
            request.is_modern
        });
    }

    /// Serves the client until stdin has ended and all answers are sent.
    async fn serve(
        self: &Arc<Self>,
        client: ClientInput<impl AsyncRead + Unpin>,
        wait: Duration,
    ) -> Result<Exit, CommandError> {
        // The channel needs no bound of its own: permits bound the bytes of its messages.
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
            // Refuse open requests before the front ends.
            () = async {
                start_wait.await;
                self.hopeless.cancel();
                timeout(DELETE_LIMIT, self.refused()).await.ok();
            } => Err(self.state().unattached.take().unwrap_or(Unattached::Late).into()),
        }
    }

    /// Resolves if no daemon is attached within `wait`. Never resolves otherwise.
    async fn wait_at_start(&self, wait: Duration) {
        let mut link = self.link.subscribe();
        // The result holds a read lock on the link, so drop it immediately.
        let connection_wait = async { drop(link.wait_for(|link| link.daemon().is_some()).await) };
        tokio::select! {
            biased;
            () = connection_wait => std::future::pending().await,
            // The daemon does not have the endpoint, so waiting cannot help.
            () = self.nowhere.cancelled() => {}
            () = sleep(wait) => {}
        }
    }

    /// Resolves when no request is in flight. By then, every waiting request has been refused.
    async fn refused(&self) {
        let mut interval = tokio::time::interval(Duration::from_millis(10));
        // The first tick is immediate. Wait one more, so that a line in progress is counted.
        interval.tick().await;
        loop {
            interval.tick().await;
            if self.state().in_flight.is_empty() {
                return;
            }
        }
    }

    /// Reads stdin to its end. Cancellations and responses are processed at once. Other messages
    /// are queued.
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

    /// Registers a request, and decides the next step for a line.
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
                // A ping checks the peer. Without a daemon, the peer is the front.
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

    /// Posts the client's answer to the daemon that asked the question.
    fn answer_question(&self, frame: &Frame) {
        let id = frame.id().unwrap_or("null");
        let Some(question) = self.state().questions.answered(id) else {
            tracing::debug!(
                id,
                "an answer to no question, or to one of a daemon that is gone"
            );
            return;
        };
        // If the daemon has a newer session, it refuses this answer.
        self.post_aside(question.from, frame.with_id(&question.id));
    }

    /// Carries out a `notifications/cancelled` of the client.
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
                // Nothing was sent, or the closed connection cancels the request (2026-07-28).
                _ => {
                    request.give_up.cancel();
                    return;
                }
            }
        };
        self.post_aside(request_time, text);
    }

    /// Carries out the end of stdin: refuses open questions and ends listen streams.
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

    /// Sends queued messages in order. Each request then waits for its answer in a task of its own.
    async fn send(self: &Arc<Self>, mut queue_receiver: mpsc::UnboundedReceiver<Queued>) {
        while let Some(queue_receiver) = queue_receiver.recv().await {
            let message = &queue_receiver.message;
            let kind = message.frame.as_ref().map(|frame| frame.envelope().kind);
            if let Some(MessageKind::Notification { method }) = kind {
                // The daemon must accept a notification before later messages are sent.
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
                // Later messages belong to the session that this message opens.
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

    /// Ends the session at the daemon.
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
            // For example, the configuration file cannot be read.
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
