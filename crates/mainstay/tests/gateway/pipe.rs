//! A raw client on stdio.

use std::sync::Arc;

use mainstay::daemon::Daemon;
use serde_json::{Value, json};
use tokio::{
    io::{self, AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines},
    task::JoinHandle,
};

use tokio_util::sync::CancellationToken;

use crate::{
    client::{initialize, try_raw, value},
    gateway::soon,
};

pub struct Pipe {
    input: DuplexStream,
    output: Lines<BufReader<DuplexStream>>,
    server: JoinHandle<()>,
    next_id: u64,
    /// Messages that arrived while [`Pipe::answer`] waited for an answer.
    pub other_messages: Vec<Value>,
}

impl Pipe {
    /// Opens a connection to a profile. Makes no handshake.
    pub fn open(daemon: Arc<Daemon>, profile: &str) -> Self {
        let (input, far_input) = io::duplex(64 * 1024);
        let (far_output, output) = io::duplex(64 * 1024);
        let profile = daemon.gateway.registry.profile(profile).expect("a profile");
        let server = tokio::spawn(async move {
            let serve_result = daemon
                .serve_stdio(profile, far_input, far_output, CancellationToken::new())
                .await;
            serve_result.expect("a pipe is written or closed");
        });
        Self {
            input,
            output: BufReader::new(output).lines(),
            server,
            next_id: 100,
            other_messages: Vec::new(),
        }
    }

    pub async fn send(&mut self, line: impl AsRef<[u8]>) {
        let line = [line.as_ref(), b"\n"].concat();
        soon("room in the pipe", self.input.write_all(&line))
            .await
            .expect("it reads");
    }

    /// The next line as raw text. `None` at the end of the output.
    pub async fn line(&mut self) -> Option<String> {
        soon("a line", self.output.next_line())
            .await
            .expect("UTF-8")
    }

    /// The next message. Fails at the end of the output.
    pub async fn message(&mut self) -> Value {
        value(&self.line().await.expect("the pipe is open"))
    }

    pub async fn initialize(&mut self, revision: &str) -> Value {
        self.send(initialize(revision)).await;
        let response = self.message().await;
        assert_eq!(response["id"], "hello", "{response}");
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
            .await;
        response["result"].clone()
    }

    /// Sends a request, and does not wait for the response. Returns the id of the request.
    pub async fn begin(&mut self, method: &str, params: &str) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        let text =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        self.send(text).await;
        id.into()
    }

    /// Waits for the response to a request that was sent. Returns its raw text.
    pub async fn answer(&mut self, id: &Value) -> String {
        let id_text = id.to_string();
        loop {
            let line = self.line().await.expect("the pipe is open");
            if try_raw(&line, "id") == Some(&id_text) {
                return line;
            }
            self.other_messages.push(value(&line));
        }
    }

    /// Sends a request. Returns the raw text of the response.
    pub async fn ask(&mut self, method: &str, params: &str) -> String {
        let id = self.begin(method, params).await;
        self.answer(&id).await
    }

    pub async fn result(&mut self, method: &str, params: Value) -> Value {
        let response = value(&self.ask(method, &params.to_string()).await);
        assert!(response["result"].is_object(), "{response}");
        response["result"].clone()
    }

    pub async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        self.result("tools/call", params).await
    }

    /// Asserts that an `echo` tool answers.
    pub async fn assert_echo(&mut self, tool: &str) {
        let result = self.call(tool, json!({"text": "hello"})).await;
        assert_eq!(result["content"][0]["text"], "hello");
    }

    /// Closes the input, and waits until the gateway has ended. Returns the remaining messages.
    pub async fn close(mut self) -> Vec<Value> {
        drop(self.input);
        let mut rest = Vec::new();
        while let Some(line) = soon("the end", self.output.next_line())
            .await
            .expect("UTF-8")
        {
            rest.push(value(&line));
        }
        soon("the door to close", self.server)
            .await
            .expect("no panic");
        rest
    }
}
