//! A client that starts a front as its child process.

use std::{collections::VecDeque, process::Stdio, time::Duration};

use mainstay_testkit::{Home, limits::PROGRAMS, lines, soon, within};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
    time::timeout,
};

pub static INITIALIZE: std::sync::LazyLock<Value> =
    std::sync::LazyLock::new(|| initialize("2025-11-25"));

pub fn initialize(revision: &str) -> Value {
    json!({
        "protocolVersion": revision,
        "capabilities": {"sampling": {}, "roots": {}},
        "clientInfo": {"name": "test", "version": "0"},
    })
}

pub struct Front {
    child: Child,
    /// `None` after it was closed.
    stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
    next: u64,
    /// Messages that arrived before the message that a test waits for.
    unread: VecDeque<Value>,
}

impl Front {
    pub fn start(home: &Home, arguments: &[&str]) -> Self {
        let mut command = home.command(arguments);
        let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
        Self {
            stdin: child.stdin.take(),
            stdout: lines(child.stdout.take()),
            child,
            next: 0,
            unread: VecDeque::new(),
        }
    }

    /// Starts a front and completes the client's handshake.
    pub async fn open(home: &Home, arguments: &[&str], revision: &str) -> Self {
        let mut front = Self::start(home, arguments);
        let id = front.ask("initialize", &initialize(revision)).await;
        let answer = front.answer(id).await;
        assert_eq!(answer["result"]["protocolVersion"], revision, "{answer}");
        front.initialized().await;
        front
    }

    pub async fn initialized(&mut self) {
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
    }

    pub async fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        let stdin = self.stdin.as_mut().expect("open");
        within(stdin.write_all(line.as_bytes()))
            .await
            .expect("it reads");
    }

    /// Sends a request; returns its id.
    pub async fn ask(&mut self, method: &str, params: &Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await;
        id
    }

    pub async fn begin(&mut self, tool: &str, arguments: Value) -> u64 {
        self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))
            .await
    }

    /// Calls a tool, and waits for the answer.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.begin(tool, arguments).await;
        self.answer(id).await
    }

    pub async fn answer(&mut self, id: u64) -> Value {
        self.find("an answer", |message| {
            message["id"] == id && message.get("method").is_none()
        })
        .await
    }

    /// The next message with this method.
    pub async fn next_with_method(&mut self, method: &str) -> Value {
        self.find(method, |message| message["method"] == method)
            .await
    }

    async fn find(&mut self, description: &str, matches_message: impl Fn(&Value) -> bool) -> Value {
        if let Some(index) = self.unread.iter().position(&matches_message) {
            return self.unread.remove(index).expect("it was found");
        }
        loop {
            let message = soon(PROGRAMS, description, self.next()).await;
            if matches_message(&message) {
                return message;
            }
            self.unread.push_back(message);
        }
    }

    async fn next(&mut self) -> Value {
        let line = self.stdout.next_line().await.expect("UTF-8");
        let line = line.expect("the session goes on");
        serde_json::from_str(&line).expect("JSON")
    }

    /// All unread messages.
    pub async fn rest(&mut self) -> Vec<Value> {
        // Answers are in order, so earlier messages arrive before the answer to a ping.
        let id = self.ask("ping", &json!({})).await;
        self.answer(id).await;
        self.unread.drain(..).collect()
    }

    /// True if the front has exited.
    pub async fn is_over(&mut self) -> bool {
        timeout(Duration::ZERO, self.child.wait()).await.is_ok()
    }

    /// Closes stdin. The front still answers the requests in flight.
    pub fn close(&mut self) {
        self.stdin = None;
    }

    /// Closes stdin, and waits for the exit. Returns the exit code and stderr.
    pub async fn end(mut self) -> (Option<i32>, String) {
        self.close();
        Self::wait(self.child).await
    }

    /// Waits for the exit without closing stdin. Returns the exit code and stderr.
    pub async fn ended(self) -> (Option<i32>, String) {
        let _stdin = self.stdin;
        Self::wait(self.child).await
    }

    async fn wait(mut child: Child) -> (Option<i32>, String) {
        let mut stderr = child.stderr.take().expect("a pipe");
        let mut text = String::new();
        within(stderr.read_to_string(&mut text))
            .await
            .expect("UTF-8");
        let status = within(child.wait()).await.expect("waited for");
        (status.code(), text)
    }
}

impl Front {
    /// The next error response.
    pub async fn hear_error(&mut self) -> Value {
        self.find("an error", |message| message.get("error").is_some())
            .await
    }
}
