//! The server itself, apart from any transport: a message comes in, actions go
//! out, and nothing here waits. Owns what all sessions share.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::header::HeaderMap;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{OwnedMutexGuard, mpsc, oneshot, watch};

use crate::catalog::{self, LEVELS, REVISIONS};
use crate::listener::Command;
use crate::message::{self, Message, RpcError};
use crate::script::Script;
use crate::session::{Action, Outgoing, Outlet, Session};
use crate::tools;

/// One thing a client sent, as it came.
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
    /// The JSON-RPC method, where the body has one.
    pub fn method(&self) -> Option<String> {
        match Message::parse(self.body.as_bytes()).ok()? {
            Message::Request { method, .. } | Message::Notification { method, .. } => {
                Some(method.into_owned())
            }
            Message::Response { .. } => None,
        }
    }
}

/// Where the fake lives: it decides what a crash is, and whether traffic is kept.
pub(crate) enum Host {
    Process,
    Test(mpsc::UnboundedSender<Command>),
}

/// Whether the fake still does anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Awake,
    /// Finishes what it has begun, and hears nothing new.
    Deaf,
    /// Does nothing at all.
    Hanging,
}

/// The right to handle a message; of an exclusive kind where the script is single-flight.
pub(crate) type Turn = Option<OwnedMutexGuard<()>>;

pub(crate) struct Service {
    host: Host,
    mood: watch::Sender<Mood>,
    /// Held while a message is handled, where only one may be.
    flight: Arc<tokio::sync::Mutex<()>>,
    script: Mutex<Script>,
    shared: Mutex<Shared>,
    /// Live sessions, oldest first.
    sessions: Mutex<Vec<Arc<Session>>>,
    /// Streams that `drop_streams` can cut; weak, for a stream ends with its last sender.
    streams: Mutex<Vec<mpsc::WeakUnboundedSender<Outgoing>>>,
    received: watch::Sender<Vec<Received>>,
    serial: AtomicU64,
}

/// What the tools of all sessions share.
#[derive(Default)]
pub(crate) struct Shared {
    pub runs: BTreeMap<String, u64>,
    /// Raw ids.
    pub cancelled: Vec<String>,
    pub extra_tool: bool,
    pub parked: Option<oneshot::Sender<()>>,
}

impl Shared {
    /// Counts a run; returns how many there were of all tools.
    pub fn ran(&mut self, tool: &str) -> u64 {
        *self.runs.entry(tool.to_owned()).or_default() += 1;
        self.runs.values().sum()
    }
}

/// Methods refused before `initialize`, so that a skipped handshake shows.
const AFTER_INITIALIZE: [&str; 11] = [
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "logging/setLevel",
];

#[derive(Deserialize)]
struct ListParams {
    cursor: Option<String>,
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
            streams: Mutex::default(),
            received: watch::Sender::new(Vec::new()),
            serial: AtomicU64::new(1),
        })
    }

    pub fn script(&self) -> Script {
        lock(&self.script).clone()
    }

    pub fn edit(&self, change: impl FnOnce(&mut Script)) {
        change(&mut lock(&self.script));
    }

    pub fn shared(&self) -> MutexGuard<'_, Shared> {
        lock(&self.shared)
    }

    /// Waits until the next message may be handled: for ever once the fake hangs.
    pub async fn turn(&self) -> Turn {
        self.until(|mood| mood == Mood::Awake).await;
        if !self.script().single_flight {
            return None;
        }
        let turn = Arc::clone(&self.flight).lock_owned().await;
        self.until(|mood| mood == Mood::Awake).await;
        Some(turn)
    }

    /// Waits while the fake hangs.
    pub async fn responsive(&self) {
        self.until(|mood| mood != Mood::Hanging).await;
    }

    async fn until(&self, condition: impl Fn(Mood) -> bool) {
        let mut mood = self.mood.subscribe();
        let met = mood.wait_for(|mood| condition(*mood)).await;
        met.expect("the sender is ours");
    }

    /// Answers nothing any more, or again.
    pub fn hang(&self, hangs: bool) {
        let mood = if hangs { Mood::Hanging } else { Mood::Awake };
        self.mood.send_replace(mood);
    }

    /// Handles no further message.
    pub fn turn_deaf(&self) {
        self.mood.send_replace(Mood::Deaf);
    }

    /// Whether this request gets the scripted status; it is counted then.
    pub fn takes_scripted_status(&self, is_post: bool) -> bool {
        let script = &mut *lock(&self.script);
        let late = script.status_until.is_some_and(|end| Instant::now() >= end);
        let used_up = script.status_times == Some(0);
        if late || used_up || script.status.is_none() || !(is_post || script.status_on_all) {
            return false;
        }
        script.status_times = script.status_times.map(|left| left - 1);
        true
    }

    pub fn serial(&self) -> u64 {
        self.serial.fetch_add(1, Ordering::Relaxed)
    }

    pub fn received(&self) -> watch::Receiver<Vec<Received>> {
        self.received.subscribe()
    }

    /// Keeps what came; a process writes it to `--record` instead, for it may run long.
    pub fn record(&self, received: Received) {
        if let Some(path) = &self.script().record {
            append(path, &received.body);
        }
        if let Host::Test(_) = self.host {
            self.received.send_modify(|all| all.push(received));
        }
    }

    /// Ends the process; in a test, cuts every connection and forgets every
    /// session, as a process would that is started again at once.
    pub fn exit(&self, code: i32) {
        match &self.host {
            Host::Process => std::process::exit(code),
            Host::Test(listener) => {
                self.close_sessions();
                // Without a listener there is nothing left to cut.
                let _ = listener.send(Command::Cut);
            }
        }
    }

    pub fn open_session(&self) -> Arc<Session> {
        // The process id keeps sessions of an earlier process unknown.
        let id = format!("{:x}-{}", std::process::id(), self.serial());
        let session = Session::new(id);
        lock(&self.sessions).push(Arc::clone(&session));
        session
    }

    /// The session all clients share where there are no ids.
    pub fn only_session(&self) -> Arc<Session> {
        let mut sessions = lock(&self.sessions);
        if sessions.is_empty() {
            sessions.push(Session::new(String::new()));
        }
        Arc::clone(&sessions[0])
    }

    pub fn session(&self, id: &str) -> Option<Arc<Session>> {
        self.sessions().into_iter().find(|it| it.id == id)
    }

    pub fn sessions(&self) -> Vec<Arc<Session>> {
        lock(&self.sessions).clone()
    }

    pub fn close_session(&self, id: &str) {
        lock(&self.sessions).retain(|session| {
            if session.id == id {
                session.close();
            }
            session.id != id
        });
    }

    pub fn close_sessions(&self) {
        for session in std::mem::take(&mut *lock(&self.sessions)) {
            session.close();
        }
    }

    /// Lets `cut_streams` reach the stream.
    pub fn track(&self, outlet: &Outlet) {
        let mut streams = lock(&self.streams);
        streams.retain(|stream| stream.strong_count() > 0);
        streams.push(outlet.downgrade());
    }

    pub fn cut_streams(&self) {
        for stream in std::mem::take(&mut *lock(&self.streams)) {
            if let Some(outlet) = stream.upgrade() {
                // Nobody reads it any more: cut already.
                let _ = outlet.send(Outgoing::Cut);
            }
        }
    }

    /// Decides what one message leads to.
    pub fn receive(self: &Arc<Self>, session: &Arc<Session>, message: Message) -> Vec<Action> {
        match message {
            Message::Request { id, method, params } => {
                let script = self.script();
                match self.request(session, &script, id, &method, params) {
                    Ok(actions) => actions,
                    Err(error) => vec![Action::Send(message::error(id, &error))],
                }
            }
            Message::Notification { method, params } => self.notified(session, &method, params),
            Message::Response { id, answer } => {
                session.answered(id, answer);
                Vec::new()
            }
        }
    }

    fn notified(&self, session: &Session, method: &str, params: &str) -> Vec<Action> {
        match method {
            "notifications/initialized" if self.script().exit_after_initialize => {
                return vec![Action::Exit(1)];
            }
            "notifications/cancelled" => {
                let params: Value = serde_json::from_str(params).unwrap_or_default();
                let id = params["requestId"].to_string();
                if !self.script().ignore_cancel {
                    session.cancel(&id);
                }
                self.shared().cancelled.push(id);
            }
            _ => {}
        }
        Vec::new()
    }

    fn request(
        self: &Arc<Self>,
        session: &Arc<Session>,
        script: &Script,
        id: &str,
        method: &str,
        params: &str,
    ) -> Result<Vec<Action>, RpcError> {
        let absent = (script.no_tools && method.starts_with("tools/"))
            || (script.no_resources && method.starts_with("resources/"))
            || (script.no_prompts && method.starts_with("prompts/"));
        if absent {
            return Err(RpcError::method_not_found(method));
        }
        let early = session.state().revision.is_none() && !script.stateless;
        if early && AFTER_INITIALIZE.contains(&method) {
            return Err(RpcError::new(-32600, "not initialized"));
        }
        let list = |key: &str, items: &[String]| {
            let ListParams { cursor } = read(params)?;
            catalog::page(key, items, cursor.as_deref(), script)
        };
        let value = || read::<Value>(params);
        let result = match method {
            "initialize" if script.hang_at_start => return Ok(vec![Action::Hang]),
            "initialize" if script.initialize_error => {
                return Err(RpcError::new(-32603, "the fake refuses to initialize"));
            }
            "initialize" => {
                let result = initialize(session, script, params)?.to_string();
                let answer = Action::Send(message::result(id, &result));
                return Ok(match script.handshake_delay {
                    0 => vec![answer],
                    ms => vec![Action::Wait(Duration::from_millis(ms)), answer],
                });
            }
            "ping" if script.no_ping => return Err(RpcError::method_not_found(method)),
            "ping" if script.ignore_ping => return Ok(vec![Action::Hang]),
            "ping" => "{}".to_owned(),
            "tools/list" => list("tools", &catalog::tools(script, self.shared().extra_tool))?,
            "tools/call" => return tools::call(self, session, script, id, read(params)?),
            "resources/list" => list("resources", &catalog::resources())?,
            "resources/templates/list" => list("resourceTemplates", &catalog::templates())?,
            "resources/read" => catalog::read(string(&value()?, "uri")?)?.to_string(),
            "resources/subscribe" => {
                let params = value()?;
                let uri = string(&params, "uri")?;
                catalog::read(uri)?;
                let mut state = session.state();
                *state.subscriptions.entry(uri.to_owned()).or_default() += 1;
                "{}".to_owned()
            }
            "resources/unsubscribe" => {
                let params = value()?;
                session
                    .state()
                    .subscriptions
                    .remove(string(&params, "uri")?);
                "{}".to_owned()
            }
            "prompts/list" => list("prompts", &catalog::prompts())?,
            "prompts/get" => {
                let params = value()?;
                catalog::prompt(string(&params, "name")?, &params["arguments"])?.to_string()
            }
            "completion/complete" => catalog::complete(&value()?)?.to_string(),
            "logging/setLevel" => {
                let params = value()?;
                let level = string(&params, "level")?;
                session.state().level = level_index(level)?;
                "{}".to_owned()
            }
            _ => return Err(RpcError::method_not_found(method)),
        };
        Ok(vec![Action::Send(message::result(id, &result))])
    }
}

/// The revision asked for where it is known, else the newest; `--revision` wins.
fn initialize(session: &Session, script: &Script, params: &str) -> Result<Value, RpcError> {
    let asked: Value = read(params)?;
    let asked = string(&asked, "protocolVersion")?;
    let negotiated = REVISIONS.iter().copied().find(|known| *known == asked);
    let revision = script
        .revision
        .as_deref()
        .or(negotiated)
        .unwrap_or(REVISIONS[REVISIONS.len() - 1]);
    {
        let mut state = session.state();
        state.revision = Some(revision.to_owned());
        state.client = Some(params.to_owned());
    }
    let mut capabilities = json!({"logging": {}});
    let mut declare = |absent: bool, name: &str, value: Value| {
        if !absent {
            capabilities[name] = value;
        }
    };
    declare(script.no_tools, "tools", json!({"listChanged": true}));
    declare(
        script.no_resources,
        "resources",
        json!({"subscribe": true, "listChanged": true}),
    );
    declare(script.no_prompts, "prompts", json!({"listChanged": true}));
    declare(revision < "2025-03-26", "completions", json!({}));
    let mut result = json!({
        "protocolVersion": revision,
        "capabilities": capabilities,
        "serverInfo": {
            "name": script.name.as_deref().unwrap_or("fake-server"),
            "version": env!("CARGO_PKG_VERSION"),
        },
    });
    if let Some(instructions) = &script.instructions {
        result["instructions"] = json!(instructions);
    }
    Ok(result)
}

pub(crate) fn level_index(level: &str) -> Result<usize, RpcError> {
    LEVELS
        .iter()
        .position(|known| *known == level)
        .ok_or_else(|| RpcError::invalid_params(format!("unknown level: {level}")))
}

/// Adds a line to a file that a test reads; a path that cannot be written is the test's error.
pub(crate) fn append(path: &Path, line: &str) {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()))
        .expect("the file given to the fake can be written");
}

fn read<'a, T: Deserialize<'a>>(params: &'a str) -> Result<T, RpcError> {
    serde_json::from_str(params).map_err(|error| RpcError::invalid_params(error.to_string()))
}

fn string<'a>(params: &'a Value, name: &str) -> Result<&'a str, RpcError> {
    params[name]
        .as_str()
        .ok_or_else(|| RpcError::invalid_params(format!("missing member: {name}")))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
