//! Reads the standard output of a server: one JSON-RPC message on each line.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use mainstay_core::{ids::ServerName, message};
use tokio::io::AsyncRead;

use super::{
    Frame, Line, LineReader, Liveness, Stray, Unreadable, message_router::MessageRouter,
    pending::Pending, stray_output::StrayOutput,
};
use crate::logs::{MESSAGE_COST, ServerLog, pause};

/// The longest message that no call can be waiting for.
const MAX_UNASKED: usize = 4 * 1024 * 1024;

/// Reads the messages of one process.
pub struct StdoutReader {
    pub server: ServerName,
    pub pending: Arc<Pending>,
    pub router: MessageRouter,
    pub max_message_bytes: usize,
    pub log: Arc<ServerLog>,
    pub stray_output: StrayOutput,
    pub liveness: Arc<Liveness>,
}

impl StdoutReader {
    /// Reads to the end of the output.
    pub async fn run(mut self, stdout: impl AsyncRead + Unpin) {
        let mut lines = LineReader::new(stdout, self.max_message_bytes);
        loop {
            let stray = |stray: Stray<'_>| {
                if let Stray::Text(piece) = stray {
                    self.stray_output.hear(piece);
                }
                self.router.count(stray.bytes())
            };
            let limit = |head: &[u8]| {
                if self.pending.may_await(head) {
                    usize::MAX
                } else {
                    MAX_UNASKED
                }
            };
            match lines.message(stray, limit).await {
                Ok(Some(Line::Whole(line))) => {
                    // What follows is read after it, however long it is: messages keep their order.
                    let read = Frame::of_server_aside(line.clone()).await;
                    pause(self.line(&line, read)).await;
                }
                Ok(Some(Line::TooLong { head, limit })) => self.too_long(&head, limit),
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(server = %self.server, %error, "stdout cannot be read any more");
                    break;
                }
            }
        }
        self.stray_output.end();
    }

    /// Takes a line that begins as a message; returns how long to wait before more is read.
    fn line(&mut self, line: &Bytes, read: Result<Frame, Unreadable>) -> Duration {
        match read {
            Ok(frame) => self.frame(frame),
            Err(_) if line.starts_with(b"[") => self.batch(line),
            Err(error) => self.broken(line, &error.to_string()),
        }
    }

    fn frame(&mut self, frame: Frame) -> Duration {
        self.liveness.hear();
        self.router.sort(frame, &self.pending)
    }

    fn broken(&mut self, line: &[u8], why: &str) -> Duration {
        self.stray_output.broken(line, why);
        self.router.count(line.len() + MESSAGE_COST)
    }

    /// A batch, as a server of revision 2025-03-26 may send it. A batch inside a batch is stray
    /// output: Mainstay does not read nested arrays again at each level.
    fn batch(&mut self, line: &Bytes) -> Duration {
        let items = std::str::from_utf8(line)
            .ok()
            .and_then(|text| message::batch(text).ok());
        match items {
            Some(items) => {
                let pauses = items.into_iter().map(|item| {
                    let item = line.slice_ref(item.as_bytes());
                    match Frame::of_server(item.clone()) {
                        Ok(frame) => self.frame(frame),
                        Err(error) => self.broken(&item, &error.to_string()),
                    }
                });
                pauses.max().unwrap_or_default()
            }
            None => self.broken(line, "no batch of messages"),
        }
    }

    fn too_long(&self, head: &[u8], limit: usize) {
        let id = self.pending.too_large(head, limit);
        let why = if limit < self.max_message_bytes {
            "nobody waits for it"
        } else {
            "maxMessageBytes"
        };
        if let Some(times) = self.log.fault() {
            tracing::warn!(server = %self.server, id, limit, why, times, "a line is too long");
        }
        self.log.oversized(&format!(
            "a message on stdout exceeds {limit} bytes ({why})"
        ));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use mainstay_platform::blocking::LONG;

    use super::*;
    use crate::{Listener, Notice, Question, logs::Logs, reply_sink::ReplySink};

    #[derive(Debug)]
    struct Nobody;

    impl Listener for Nobody {
        fn hear(&self, _: Notice) {}
        fn ask(&self, _: Question) {}
    }

    fn server() -> ServerName {
        ServerName::new("s").expect("a name")
    }

    fn reader(pending: &Arc<Pending>) -> StdoutReader {
        let server = server();
        let log = Logs::default().server(&server);
        let replies = ReplySink::pipe(server.clone(), Arc::default());
        StdoutReader {
            pending: Arc::clone(pending),
            router: MessageRouter::new(replies, Arc::new(Nobody), Arc::clone(&log)),
            max_message_bytes: 16 * LONG,
            stray_output: StrayOutput::new(&log),
            log,
            liveness: Arc::new(Liveness::new(Duration::from_secs(120))),
            server,
        }
    }

    fn answer(id: u64, bytes: usize) -> String {
        let text = "x".repeat(bytes);
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"x\":\"{text}\"}}}}\n")
    }

    /// The runtime's thread does not read a long message, and what follows it waits.
    #[test]
    fn a_long_message_is_read_elsewhere_and_in_its_turn() {
        let pending = Arc::new(Pending::new(server()));
        let mut calls: Vec<_> = (0..3)
            .map(|_| pending.register(None, None).expect("open"))
            .collect();
        let text: Vec<String> = calls
            .iter()
            .zip([0, 8 * LONG, 0])
            .map(|(call, bytes)| answer(call.id, bytes))
            .collect();
        let text = text.concat();
        let (runtime, release) = mainstay_testkit::runtime_that_waits();
        runtime.block_on(async {
            let mut running = Box::pin(reader(&pending).run(text.as_bytes()));
            assert!((&mut running).now_or_never().is_none(), "it is read here");
            let mut has_come = |call: usize| calls[call].next().now_or_never().is_some();
            assert!(has_come(0));
            assert!(!has_come(2), "the short one came first");
            drop(release);
            tokio::time::timeout(Duration::from_secs(20), running)
                .await
                .expect("it ends");
            assert!(has_come(1) && has_come(2));
        });
    }
}
