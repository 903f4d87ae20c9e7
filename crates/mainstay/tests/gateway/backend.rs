//! A scripted server behind the gateway, over any transport, and what it was sent.

use std::path::PathBuf;

use clap::Parser;
use fake_server::{Fake, Script};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::gateway::until;

/// The transport of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Stdio,
    Http,
    Sse,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Stdio, Self::Http, Self::Sse];
}

/// The flags of the program, for fakes in this process, too.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Flags {
    #[command(flatten)]
    script: Script,
}

pub struct Backend {
    /// Its entry in the configuration.
    pub entry: Value,
    side: Side,
}

enum Side {
    Process { record: PathBuf, _folder: TempDir },
    Fake(Fake),
}

impl Backend {
    /// A server with these flags of `fake-server`.
    pub async fn start(kind: Kind, flags: &[&str]) -> Self {
        if kind == Kind::Stdio {
            return Self::process(flags);
        }
        let script = Flags::parse_from(flags).script;
        let (fake, transport) = if kind == Kind::Http {
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

    fn process(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let record = folder.path().join("record");
        let mut args = vec!["stdio", "--record", record.to_str().expect("UTF-8")];
        args.extend(flags);
        Self {
            entry: json!({"command": fake_server::binary(), "args": args}),
            side: Side::Process {
                record,
                _folder: folder,
            },
        }
    }

    pub async fn stdio() -> Self {
        Self::start(Kind::Stdio, &[]).await
    }

    pub async fn http() -> Self {
        Self::start(Kind::Http, &[]).await
    }

    /// Adds an option to its entry.
    pub fn option(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.entry[key] = value.into();
        self
    }

    /// The fake in this process; not for stdio.
    pub fn fake(&self) -> &Fake {
        match &self.side {
            Side::Fake(fake) => fake,
            Side::Process { .. } => panic!("a process cannot be told anything"),
        }
    }

    /// Every message it was sent, in order.
    pub fn received(&self) -> Vec<Value> {
        let bodies: Vec<String> = match &self.side {
            Side::Fake(fake) => fake.received().into_iter().map(|it| it.body).collect(),
            // There is no file before the first message.
            Side::Process { record, .. } => std::fs::read_to_string(record)
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

    /// The messages of this method, in order.
    pub fn of_method(&self, method: &str) -> Vec<Value> {
        let mut messages = self.received();
        messages.retain(|message| message["method"] == method);
        messages
    }

    /// How often this method came.
    pub fn count(&self, method: &str) -> usize {
        self.of_method(method).len()
    }

    /// The ids under which this tool was called.
    pub fn calls_of(&self, tool: &str) -> Vec<Value> {
        let calls = self.of_method("tools/call");
        let of_tool = calls
            .into_iter()
            .filter(|call| call["params"]["name"] == tool);
        of_tool.map(|call| call["id"].clone()).collect()
    }

    /// The ids that `notifications/cancelled` named.
    pub fn cancelled(&self) -> Vec<Value> {
        let cancelled = self.of_method("notifications/cancelled");
        let ids = cancelled.iter().map(|it| it["params"]["requestId"].clone());
        ids.collect()
    }

    /// Waits until this method has come as often.
    pub async fn until_count(&self, method: &str, count: usize) {
        let what = format!("{count} × {method}");
        until(&what, || self.count(method) >= count).await;
    }

    /// Waits until this tool has been called, and returns the id of the call.
    pub async fn until_called(&self, tool: &str) -> Value {
        until(&format!("a call of {tool}"), || {
            !self.calls_of(tool).is_empty()
        })
        .await;
        self.calls_of(tool).remove(0)
    }

    /// Waits until the request of this id has been cancelled.
    pub async fn until_cancelled(&self, id: &Value) {
        until(&format!("the cancellation of {id}"), || {
            self.cancelled().contains(id)
        })
        .await;
    }
}
