//! A client of a front, as programs that spawn a command have it.

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
    /// `None` once it is closed.
    stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
    next: u64,
    /// Messages that were read while another one was waited for.
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

    /// A front whose client has initialized.
    pub async fn open(home: &Home, arguments: &[&str], revision: &str) -> Self {
        let mut front = Self::start(home, arguments);
        let asked = front.ask("initialize", &initialize(revision)).await;
        let answer = front.answer(asked).await;
        assert_eq!(answer["result"]["protocolVersion"], revision, "{answer}");
        front.initialized().await;
        front
    }

    pub async fn initialized(&mut self) {
        self.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
    }

    pub async fn say(&mut self, message: &Value) {
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
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await;
        id
    }

    pub async fn begin(&mut self, tool: &str, arguments: Value) -> u64 {
        self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))
            .await
    }

    /// The answer to a call.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let asked = self.begin(tool, arguments).await;
        self.answer(asked).await
    }

    pub async fn answer(&mut self, id: u64) -> Value {
        self.find("an answer", |message| {
            message["id"] == id && message.get("method").is_none()
        })
        .await
    }

    /// The next message with this method.
    pub async fn hear(&mut self, method: &str) -> Value {
        self.find(method, |message| message["method"] == method)
            .await
    }

    async fn find(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.unread.iter().position(&is_it) {
            return self.unread.remove(at).expect("it was found");
        }
        loop {
            let message = soon(PROGRAMS, what, self.next()).await;
            if is_it(&message) {
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

    /// What has come without being waited for.
    pub async fn rest(&mut self) -> Vec<Value> {
        // What is on its way already is there after the answer to a ping.
        let asked = self.ask("ping", &json!({})).await;
        self.answer(asked).await;
        self.unread.drain(..).collect()
    }

    /// Whether the session ended though nobody wanted it to.
    pub async fn is_over(&mut self) -> bool {
        timeout(Duration::ZERO, self.child.wait()).await.is_ok()
    }

    /// Closes stdin. What was asked is still answered.
    pub fn close(&mut self) {
        self.stdin = None;
    }

    /// Closes stdin. Returns the exit code and what was said on stderr.
    pub async fn end(mut self) -> (Option<i32>, String) {
        self.close();
        Self::wait(self.child).await
    }

    /// Waits for its end without closing stdin.
    pub async fn ended(self) -> (Option<i32>, String) {
        let _stdin = self.stdin;
        Self::wait(self.child).await
    }

    async fn wait(mut child: Child) -> (Option<i32>, String) {
        let mut stderr = child.stderr.take().expect("a pipe");
        let mut said = String::new();
        within(stderr.read_to_string(&mut said))
            .await
            .expect("UTF-8");
        let status = within(child.wait()).await.expect("waited for");
        (status.code(), said)
    }
}

impl Front {
    /// The next error response.
    pub async fn hear_error(&mut self) -> Value {
        self.find("an error", |message| message.get("error").is_some())
            .await
    }
}
