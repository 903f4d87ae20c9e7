//! A scripted server behind the gateway. It works over every transport, and records the messages
//! that it receives.

use clap::Parser;
use fake_server::{Fake, Script, gate::Gate};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{client::Http, gateway::until};

/// The file to which a process writes received messages, and the file from which it reads its
/// tools.
const RECORD: &str = "record";
const TOOLS: &str = "tools";

/// The transport of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendKind {
    Stdio,
    Http,
    Sse,
}

impl BackendKind {
    pub const ALL: [Self; 3] = [Self::Stdio, Self::Http, Self::Sse];
}

/// The flags of the program, which fakes in this process also use.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Flags {
    #[command(flatten)]
    script: Script,
}

pub struct Backend {
    /// The server's entry in the configuration.
    pub entry: Value,
    side: Side,
}

enum Side {
    Process { folder: TempDir },
    Fake(Fake),
}

impl Backend {
    /// Starts a server with these flags of `fake-server`.
    pub async fn start(kind: BackendKind, flags: &[&str]) -> Self {
        if kind == BackendKind::Stdio {
            return Self::process(flags);
        }
        let script = Flags::parse_from(flags).script;
        let (fake, transport) = if kind == BackendKind::Http {
            (Fake::http(script).await, "http")
        } else {
            (Fake::sse(script).await, "sse")
        };
        let fake = fake.expect("a free port");
        Self {
            entry: json!({"type": transport, "url": fake.url()}),
            side: Side::Fake(fake),
        }
    }

    /// Starts a backend behind a gate that can interrupt its network. Not for stdio.
    pub async fn gated(kind: BackendKind, flags: &[&str]) -> (Self, Gate) {
        let mut backend = Self::start(kind, flags).await;
        let direct = backend.fake().address();
        let gate = Gate::open(direct).expect("a free port");
        let url = backend.fake().url();
        let url = url.replace(&direct.to_string(), &gate.address().to_string());
        backend.entry["url"] = url.into();
        (backend, gate)
    }

    fn process(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let record = folder.path().join(RECORD);
        let mut args = vec!["stdio", "--record", record.to_str().expect("UTF-8")];
        args.extend(flags);
        Self {
            entry: json!({"command": fake_server::binary(), "args": args}),
            side: Side::Process { folder },
        }
    }

    /// Starts a server that can stop, and later return with other tools.
    pub async fn fickle(kind: BackendKind, flags: &[&str]) -> Self {
        let mut backend = Self::start(kind, flags).await;
        if let Side::Process { folder } = &backend.side {
            let path = folder.path().join(TOOLS);
            let args = backend.entry["args"].as_array_mut().expect("a list");
            args.extend(["--tools-file".into(), path.to_str().into()]);
        }
        backend.offer(0);
        backend
    }

    /// Sets the number of tools that a fickle server offers from its next session on. A process
    /// that has stopped can then start again.
    pub fn offer(&self, tools: usize) {
        match &self.side {
            Side::Fake(fake) => fake.edit(|script| script.tools = tools),
            Side::Process { folder } => {
                let path = folder.path().join(TOOLS);
                std::fs::write(path, tools.to_string()).expect("written");
            }
        }
    }

    /// Stops a fickle server until `come_back` is called. In the gateway, the server is named `x`.
    pub async fn leave(&self, client: &Http) {
        match &self.side {
            Side::Fake(fake) => {
                fake.refuse(true).await.expect("the fake runs");
                fake.expire_sessions();
            }
            Side::Process { folder } => {
                std::fs::remove_file(folder.path().join(TOOLS)).expect("it was there");
                client.call("x__crash", json!({})).await;
            }
        }
    }

    pub async fn come_back(&self) {
        match &self.side {
            Side::Fake(fake) => fake.refuse(false).await.expect("the fake runs"),
            Side::Process { .. } => self.offer(0),
        }
    }

    pub async fn stdio() -> Self {
        Self::start(BackendKind::Stdio, &[]).await
    }

    pub async fn http() -> Self {
        Self::start(BackendKind::Http, &[]).await
    }

    /// Adds an option to the entry.
    pub fn option(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.entry[key] = value.into();
        self
    }

    /// The fake inside this process. Not for stdio.
    pub fn fake(&self) -> &Fake {
        match &self.side {
            Side::Fake(fake) => fake,
            Side::Process { .. } => panic!("a process cannot be told anything"),
        }
    }

    /// All messages that the server received, in order.
    pub fn received(&self) -> Vec<Value> {
        let bodies: Vec<String> = match &self.side {
            Side::Fake(fake) => fake
                .received()
                .into_iter()
                .map(|request| request.body)
                .collect(),
            // The file does not exist before the first message.
            Side::Process { folder } => std::fs::read_to_string(folder.path().join(RECORD))
                .unwrap_or_default()
                .lines()
                .map(str::to_owned)
                .collect(),
        };
        let messages = bodies.iter().filter(|body| !body.is_empty());
        messages
            .filter_map(|body| serde_json::from_str(body).ok())
            .collect()
    }

    /// The received messages with this method, in order.
    pub fn of_method(&self, method: &str) -> Vec<Value> {
        let mut messages = self.received();
        messages.retain(|message| message["method"] == method);
        messages
    }

    /// The number of runs of a tool. For a process, the number of received calls.
    pub fn runs(&self, tool: &str) -> usize {
        match &self.side {
            Side::Fake(fake) => usize::try_from(fake.runs(tool)).expect("a small number"),
            Side::Process { .. } => self.calls_of(tool).len(),
        }
    }

    /// The number of received messages with this method.
    pub fn count(&self, method: &str) -> usize {
        self.of_method(method).len()
    }

    /// The ids of the calls of this tool.
    pub fn calls_of(&self, tool: &str) -> Vec<Value> {
        let calls = self.of_method("tools/call");
        let tool_calls = calls
            .into_iter()
            .filter(|call| call["params"]["name"] == tool);
        tool_calls.map(|call| call["id"].clone()).collect()
    }

    /// The request ids of the received `notifications/cancelled`.
    pub fn cancelled(&self) -> Vec<Value> {
        let cancellations = self.of_method("notifications/cancelled");
        let ids = cancellations
            .iter()
            .map(|message| message["params"]["requestId"].clone());
        ids.collect()
    }

    /// The number of cancelled requests. Counts every form of cancellation.
    pub fn cancelled_count(&self) -> usize {
        match &self.side {
            Side::Fake(fake) => fake.cancelled().len(),
            Side::Process { .. } => self.cancelled().len(),
        }
    }

    /// Waits until the server has received `count` messages with this method.
    pub async fn until_count(&self, method: &str, count: usize) {
        let description = format!("{count} × {method}");
        until(&description, || self.count(method) >= count).await;
    }

    /// Waits for a call of this tool. Returns the id of the call.
    pub async fn until_called(&self, tool: &str) -> Value {
        until(&format!("a call of {tool}"), || {
            !self.calls_of(tool).is_empty()
        })
        .await;
        self.calls_of(tool).remove(0)
    }

    /// Waits until the request with this id is cancelled.
    pub async fn until_cancelled(&self, id: &Value) {
        until(&format!("the cancellation of {id}"), || {
            self.cancelled().contains(id)
        })
        .await;
    }
}
