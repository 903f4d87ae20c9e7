//! A client of the program on stdio.

use std::process::{ExitStatus, Stdio};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::{initialize, notification, parse};

pub struct Peer {
    pub child: Child,
    pub stdin: Option<ChildStdin>,
    pub stdout: BufReader<ChildStdout>,
}

impl Peer {
    pub fn spawn(flags: &[&str]) -> Self {
        let mut child = Command::new(fake_server::binary())
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("starts");
        Self {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().expect("piped")),
            child,
        }
    }

    pub async fn open(flags: &[&str]) -> Self {
        let mut peer = Self::spawn(flags);
        let answer = peer.ask(initialize("2025-06-18")).await;
        assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
        peer.send(notification("notifications/initialized", &json!({})))
            .await;
        peer
    }

    pub async fn send(&mut self, message: String) {
        let stdin = self.stdin.as_mut().expect("open");
        stdin
            .write_all(format!("{message}\n").as_bytes())
            .await
            .expect("written");
    }

    pub async fn line(&mut self) -> Vec<u8> {
        let mut line = Vec::new();
        self.stdout
            .read_until(b'\n', &mut line)
            .await
            .expect("read");
        line
    }

    pub async fn next(&mut self) -> Value {
        parse(std::str::from_utf8(&self.line().await).expect("UTF-8"))
    }

    pub async fn ask(&mut self, message: String) -> Value {
        self.send(message).await;
        self.next().await
    }

    pub async fn exit(mut self) -> ExitStatus {
        drop(self.stdin.take());
        self.child.wait().await.expect("ends")
    }
}
