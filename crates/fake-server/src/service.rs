//! The server, independent of transport and era. It owns the state of all sessions, and decides if
//! messages are handled.

use std::collections::{BTreeMap, HashMap};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use hyper::header::HeaderMap;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{OwnedMutexGuard, mpsc, oneshot, watch};

use crate::message::RpcMessage;
use crate::modern::listen::{self, ListenStream};
use crate::modern::pending::PendingRequest;
use crate::modern::task::{Task, TaskState};
use crate::script::Script;
use crate::session::{FIRST_SERIAL, FakeSession, Outgoing, Outlet};

/// One received HTTP request or message.
#[derive(Debug, Clone)]
pub struct Received {
    pub at: Instant,
    /// The HTTP method.
    pub verb: String,
    /// Path and query.
    pub path: String,
    pub headers: HeaderMap,
    /// The message, or nothing for GET and DELETE.
    pub body: String,
}

impl Received {
    /// Returns the JSON-RPC method, if the body has one.
    pub fn method(&self) -> Option<String> {
        match RpcMessage::parse(self.body.as_bytes()).ok()? {
            RpcMessage::Request { method, .. } | RpcMessage::Notification { method, .. } => {
                Some(method.into_owned())
            }
            RpcMessage::Response { .. } => None,
        }
    }
}

/// A command to the listener.
pub(crate) enum ListenerCommand {
    /// Closes the listener and all connections, or listens again. Answers afterwards.
    Refuse(bool, oneshot::Sender<io::Result<()>>),
    /// Breaks every connection.
    Cut,
    Stop,
}

/// The host of the fake. It determines how the fake crashes, and where traffic is stored.
pub(crate) enum Host {
    Process,
    Test(mpsc::UnboundedSender<ListenerCommand>),
}

/// The readiness of the fake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Awake,
    /// Finishes its calls, but handles no new message.
    Deaf,
    /// Does nothing.
    Hanging,
}

/// The right to handle a message. It is exclusive if the script is single-flight.
pub(crate) type Turn = Option<OwnedMutexGuard<()>>;

pub(crate) struct Service {
    host: Host,
    mood: watch::Sender<Mood>,
    /// Held while a message of a single-flight script is handled.
    flight: Arc<tokio::sync::Mutex<()>>,
    script: Mutex<Script>,
    shared: Mutex<SharedState>,
    /// Live sessions, oldest first.
    sessions: Mutex<Vec<Arc<FakeSession>>>,
    /// Lost sessions whose streams are still open.
    lost: Mutex<Vec<Arc<FakeSession>>>,
    /// Streams that `drop_streams` can cut. Weak, because a stream ends with its last sender.
    streams: Mutex<Vec<mpsc::WeakUnboundedSender<Outgoing>>>,
    received: watch::Sender<Vec<Received>>,
    serial: AtomicU64,
}

/// State that all sessions share.
#[derive(Default)]
pub(crate) struct SharedState {
    pub runs: BTreeMap<String, u64>,
    /// Number of ended calls of each tool, prompt and resource.
    pub ends: BTreeMap<String, u64>,
    /// Raw ids of cancelled requests.
    pub cancelled: Vec<String>,
    pub extra_tool: bool,
    /// True after a legacy fake received `server/discover`.
    pub probed: bool,
    pub parked: Option<oneshot::Sender<()>>,
    /// Open streams of `subscriptions/listen`.
    pub listens: Vec<ListenStream>,
    /// The request of each issued `requestState`.
    pub pending: HashMap<String, PendingRequest>,
    /// Tasks by their ids.
    pub tasks: BTreeMap<String, Task>,
}

impl SharedState {
    /// Counts a run. Returns the number of runs of all tools.
    pub fn count_run(&mut self, tool: &str) -> u64 {
        *self.runs.entry(tool.to_owned()).or_default() += 1;
        self.runs.values().sum()
    }

    pub fn finished(&mut self, subject: &str) {
        *self.ends.entry(subject.to_owned()).or_default() += 1;
    }

    /// Changes the state of a task, and notifies its subscribers. Returns true if the state
    /// changed.
    pub fn change_task(&mut self, id: &str, next_state: impl FnOnce(&Task) -> TaskState) -> bool {
        let Some(task) = self.tasks.get_mut(id) else {
            return false;
        };
        let next_state = next_state(task);
        if !task.put(next_state) {
            return false;
        }
        let task_json = task.detailed(id);
        if task.is_completed() {
            self.finished("task");
        }
        listen::task_changed(&self.listens, id, &task_json);
        true
    }

    /// Moves a task to its next state.
    pub fn advance(&mut self, id: &str) {
        self.change_task(id, Task::advanced);
    }
}

impl Service {
    pub fn new(script: Script, host: Host) -> Arc<Self> {
        Arc::new(Self {
            host,
            mood: watch::Sender::new(Mood::Awake),
            flight: Arc::default(),
            script: Mutex::new(script),
            shared: Mutex::default(),
            sessions: Mutex::default(),
            lost: Mutex::default(),
            streams: Mutex::default(),
            received: watch::Sender::new(Vec::new()),
            serial: AtomicU64::new(FIRST_SERIAL),
        })
    }

    pub fn script(&self) -> Script {
        self.script.lock().clone()
    }

    pub fn edit(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.script.lock());
    }

    pub fn shared(&self) -> MutexGuard<'_, SharedState> {
        self.shared.lock()
    }

    /// Waits until the next message may be handled. Waits forever if the fake hangs.
    pub async fn turn(&self) -> Turn {
        self.until(|mood| mood == Mood::Awake).await;
        if !self.script().single_flight {
            return None;
        }
        let turn = Arc::clone(&self.flight).lock_owned().await;
        self.until(|mood| mood == Mood::Awake).await;
        Some(turn)
    }

    /// Waits until the previous request is answered.
    pub async fn next_request(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.flight).lock_owned().await
    }

    /// Waits while the fake hangs.
    pub async fn responsive(&self) {
        self.until(|mood| mood != Mood::Hanging).await;
    }

    async fn until(&self, condition: impl Fn(Mood) -> bool) {
        let mut mood = self.mood.subscribe();
        let wait_result = mood.wait_for(|mood| condition(*mood)).await;
        wait_result.expect("the sender is ours");
    }

    /// Stops answering, or continues.
    pub fn hang(&self, should_hang: bool) {
        let mood = if should_hang {
            Mood::Hanging
        } else {
            Mood::Awake
        };
        self.mood.send_replace(mood);
    }

    /// Handles no further message.
    pub fn turn_deaf(&self) {
        self.mood.send_replace(Mood::Deaf);
    }

    /// Returns true if this request gets the scripted status. Counts the request if so.
    pub fn takes_scripted_status(&self, is_post: bool) -> bool {
        let script = &mut *self.script.lock();
        let is_late = script.status_until.is_some_and(|end| Instant::now() >= end);
        let is_used_up = script.status_times == Some(0);
        if is_late || is_used_up || script.status.is_none() || !(is_post || script.status_on_all) {
            return false;
        }
        script.status_times = script.status_times.map(|count| count - 1);
        true
    }

    pub fn serial(&self) -> u64 {
        self.serial.fetch_add(1, Ordering::Relaxed)
    }

    pub fn received(&self) -> watch::Receiver<Vec<Received>> {
        self.received.subscribe()
    }

    /// Stores a received message. A process writes it to `--record` instead, to save memory.
    pub fn record(&self, received_request: Received) {
        if let Some(path) = &self.script().record {
            append(path, &received_request.body);
        }
        if let Host::Test(_) = self.host {
            self.received
                .send_modify(|requests| requests.push(received_request));
        }
    }

    /// Ends the process. In a test, cuts every connection and forgets every session instead.
    pub fn exit(&self, code: i32) {
        match &self.host {
            Host::Process => std::process::exit(code),
            Host::Test(listener) => {
                self.forget();
                // A stopped listener has no connections.
                let _ = listener.send(ListenerCommand::Cut);
            }
        }
    }

    pub fn open_session(&self) -> Arc<FakeSession> {
        // The id includes the process id, so that sessions of earlier processes are unknown.
        let id = format!("{:x}-{}", std::process::id(), self.serial());
        let session = FakeSession::new(id);
        self.sessions.lock().push(Arc::clone(&session));
        session
    }

    /// Returns the single session of a server without session ids.
    pub fn only_session(&self) -> Arc<FakeSession> {
        let mut sessions = self.sessions.lock();
        if sessions.is_empty() {
            sessions.push(FakeSession::new(String::new()));
        }
        Arc::clone(&sessions[0])
    }

    pub fn session(&self, id: &str) -> Option<Arc<FakeSession>> {
        self.sessions().into_iter().find(|session| session.id == id)
    }

    pub fn sessions(&self) -> Vec<Arc<FakeSession>> {
        self.sessions.lock().clone()
    }

    pub fn close_session(&self, id: &str) {
        self.sessions.lock().retain(|session| {
            if session.id == id {
                session.close();
            }
            session.id != id
        });
    }

    pub fn lose_sessions(&self) {
        let lost_sessions = std::mem::take(&mut *self.sessions.lock());
        self.lost.lock().extend(lost_sessions);
    }

    pub fn close_sessions(&self) {
        for session in std::mem::take(&mut *self.sessions.lock()) {
            session.close();
        }
    }

    /// Ends sessions, subscriptions and tasks, and drops pending questions.
    pub fn forget(&self) {
        self.close_sessions();
        let mut shared_state = self.shared();
        shared_state.listens.clear();
        shared_state.pending.clear();
        shared_state.probed = false;
        for task in std::mem::take(&mut shared_state.tasks).into_values() {
            task.stop();
        }
    }

    /// Registers a stream for `cut_streams`.
    pub fn track(&self, outlet: &Outlet) {
        let mut streams = self.streams.lock();
        streams.retain(|stream| stream.strong_count() > 0);
        streams.push(outlet.downgrade());
    }

    pub fn cut_streams(&self) {
        for stream in std::mem::take(&mut *self.streams.lock()) {
            if let Some(outlet) = stream.upgrade() {
                // The reader may have gone.
                let _ = outlet.send(Outgoing::Cut);
            }
        }
    }
}

/// Appends a line to a file. Panics if the path cannot be written.
pub(crate) fn append(path: &Path, line: &str) {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()))
        .expect("the file given to the fake can be written");
}
