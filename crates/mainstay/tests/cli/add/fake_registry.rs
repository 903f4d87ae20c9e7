//! A local registry with the API of the official registry.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use mainstay_testkit::{Home, Run, within};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};

/// An answer of the registry.
#[derive(Clone)]
pub enum FakeAnswer {
    /// The complete response.
    Raw(Vec<u8>),
    /// The beginning of a response. The rest never comes.
    Slow(Vec<u8>),
    /// A response with an endless body.
    Endless,
}

impl FakeAnswer {
    pub fn json(value: &Value) -> Self {
        Self::with_body("200 OK", "application/json", value.to_string().as_bytes())
    }

    pub fn with_body(status: &str, kind: &str, body: &[u8]) -> Self {
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        Self::Raw([head.as_bytes(), body].concat())
    }

    pub fn redirect(location: &str) -> Self {
        Self::Raw(
            format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .into_bytes(),
        )
    }
}

/// A local registry.
pub struct FakeRegistry {
    pub url: String,
    pub answers: Arc<Mutex<HashMap<String, FakeAnswer>>>,
    pub requested_paths: Arc<Mutex<Vec<String>>>,
    pub serving: JoinHandle<()>,
}

impl Drop for FakeRegistry {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl FakeRegistry {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let answers = Arc::<Mutex<HashMap<String, FakeAnswer>>>::default();
        let requested_paths = Arc::<Mutex<Vec<String>>>::default();
        let serve_task = tokio::spawn({
            let (answers, requested_paths) = (Arc::clone(&answers), Arc::clone(&requested_paths));
            async move {
                while let Ok((mut stream, _)) = listener.accept().await {
                    let (answers, requested_paths) =
                        (Arc::clone(&answers), Arc::clone(&requested_paths));
                    tokio::spawn(async move {
                        let mut head = Vec::new();
                        while !head.ends_with(b"\r\n\r\n") {
                            match stream.read_u8().await {
                                Ok(byte) => head.push(byte),
                                Err(_) => return,
                            }
                        }
                        let head = String::from_utf8(head).expect("UTF-8");
                        let path = head.split(' ').nth(1).expect("a path").to_owned();
                        let answer = answers.lock().expect("whole").get(&path).cloned();
                        requested_paths.lock().expect("whole").push(path);
                        let not_found = FakeAnswer::with_body(
                            "404 Not Found",
                            "application/json",
                            br#"{"error": "Server not found"}"#,
                        );
                        // Ignore write errors: the client may close the connection.
                        match answer.unwrap_or(not_found) {
                            FakeAnswer::Raw(bytes) => drop(stream.write_all(&bytes).await),
                            FakeAnswer::Slow(bytes) => {
                                drop(stream.write_all(&bytes).await);
                                drop(stream.read_u8().await);
                            }
                            FakeAnswer::Endless => {
                                let head =
                                    b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"servers\": [";
                                drop(stream.write_all(head).await);
                                let blank_chunk = vec![b' '; 65536];
                                while stream.write_all(&blank_chunk).await.is_ok() {}
                            }
                        }
                    });
                }
            }
        });
        Self {
            url,
            answers,
            requested_paths,
            serving: serve_task,
        }
    }

    pub fn answer(&self, path: &str, answer: FakeAnswer) {
        self.answers
            .lock()
            .expect("whole")
            .insert(path.to_owned(), answer);
    }

    /// Publishes a server as its latest version.
    pub fn publish(&self, name: &str, server: &Value) {
        self.publish_as(name, server, "active");
    }

    pub fn publish_as(&self, name: &str, server: &Value, status: &str) {
        let mut server_entry = json!({
            "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
            "name": name, "description": "Does things", "version": "1.2.3",
        });
        for (key, value) in server.as_object().expect("an object") {
            server_entry[key] = value.clone();
        }
        let answer = json!({"server": server_entry, "_meta": {"io.modelcontextprotocol.registry/official":
            {"status": status, "publishedAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-01T00:00:00Z", "isLatest": true}}});
        self.answer(&path_of(name, "latest"), FakeAnswer::json(&answer));
    }

    pub async fn run(&self, home: &Home, arguments: &[&str]) -> Run {
        let output = within(self.command(home, arguments).output())
            .await
            .expect("it starts");
        Run::new(arguments, &output)
    }

    pub fn command(&self, home: &Home, arguments: &[&str]) -> tokio::process::Command {
        let mut command = home.command(arguments);
        let path = std::env::var("PATH").expect("a PATH");
        command.env("MAINSTAY_REGISTRY", &self.url).env(
            "PATH",
            format!("{}:{path}", home.path().join("bin").display()),
        );
        command
    }

    pub async fn transcript(&self, home: &Home, commands: &[&[&str]]) -> String {
        let mut transcript = String::new();
        for arguments in commands {
            let run = self.run(home, arguments).await;
            transcript.extend([run.to_string(), "\n".to_owned()]);
        }
        self.redacted(home, &transcript)
    }

    pub fn redacted(&self, home: &Home, text: &str) -> String {
        let text = text.replace(&self.url, "[REGISTRY]");
        let text = home.redacted(&text);
        // Remove the number of tools, which changes when the fake changes.
        let lines = text.lines().map(|line| match line.split_once(" tools: ") {
            Some((before, _)) => format!(
                "{} tools: [TOOLS]",
                before.trim_end_matches(|c: char| c.is_ascii_digit())
            ),
            None => line.to_owned(),
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

pub fn path_of(name: &str, version: &str) -> String {
    format!(
        "/v0.1/servers/{}/versions/{version}",
        name.replace('/', "%2F")
    )
}
