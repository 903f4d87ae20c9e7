//! Reads the standard output of a server: one JSON-RPC message on each line.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use mainstay_core::{
    ids::ServerName,
    message::{self, lenient},
};
use tokio::io::AsyncRead;

use crate::{
    Frame, InputLine, LineReader, Liveness, Stray, UnreadableMessage,
    exchanges::{message_router::MessageRouter, pending::PendingRequests},
    lines::stray_output::StrayOutput,
    logs::{MESSAGE_COST, ServerLog, pause},
};

/// The maximum length, in bytes, of a message that no call waits for.
const MAX_UNAWAITED: usize = 4 * 1024 * 1024;

/// The maximum number of messages on one line. A server whose threads write at the same time may put several
/// messages on a line.
const MAX_ON_A_LINE: usize = 1000;

/// Reads the messages of one process.
pub struct StdoutReader {
    pub server: ServerName,
    pub pending: Arc<PendingRequests>,
    pub router: MessageRouter,
    pub max_message_bytes: usize,
    pub log: Arc<ServerLog>,
    pub stray_output: StrayOutput,
    pub liveness: Arc<Liveness>,
    /// Number of messages read so far.
    pub messages: u64,
}

impl StdoutReader {
    /// Reads to the end of the output.
    pub async fn run(mut self, stdout: impl AsyncRead + Unpin) {
        let mut lines = LineReader::new(stdout, self.max_message_bytes);
        loop {
            let stray = |stray: Stray<'_>| {
                if let Stray::Text(piece) = stray {
                    self.stray_output.add(piece);
                }
                self.router.count(stray.bytes())
            };
            let limit = |head: &[u8]| {
                if self.pending.may_await(head) {
                    usize::MAX
                } else {
                    MAX_UNAWAITED
                }
            };
            match lines.message(stray, limit).await {
                Ok(Some(InputLine::Whole(line))) => {
                    if line.len() > self.max_message_bytes / 2 {
                        self.note_long(line.len());
                    }
                    // Wait until a long message is parsed, so that messages keep their order.
                    let read = Frame::of_server_aside(line.clone()).await;
                    pause(self.line(&line, read)).await;
                }
                Ok(Some(InputLine::TooLong { head, limit })) => self.too_long(&head, limit),
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(server = %self.server, %error, "stdout cannot be read any more");
                    break;
                }
            }
        }
        self.stray_output.end();
    }

    /// Handles a line that begins like a message. Returns the time to wait before the next read.
    fn line(&mut self, line: &Bytes, read: Result<Frame, UnreadableMessage>) -> Duration {
        match read {
            Ok(frame) => self.frame(frame),
            Err(error) => {
                let line = line.slice(lenient::bare(line));
                if line.starts_with(b"[") {
                    return self.batch(&line);
                }
                match lenient::values(&line, MAX_ON_A_LINE) {
                    Some(values) => {
                        let messages = values.into_iter().map(|value| line.slice(value));
                        self.messages(messages)
                    }
                    None => self.broken(&line, &error.to_string()),
                }
            }
        }
    }

    fn frame(&mut self, frame: Frame) -> Duration {
        self.messages += 1;
        self.liveness.note_message();
        self.router.route(frame, &self.pending)
    }

    /// Handles a line that begins like a message but is not one. The call that it may answer fails, because
    /// no other answer will come.
    fn broken(&mut self, line: &[u8], reason: &str) -> Duration {
        self.pending.break_off_unreadable(line, reason);
        self.stray_output.add_broken_line(line, reason);
        self.router.count(line.len() + MESSAGE_COST)
    }

    /// Handles a batch, which a server of revision 2025-03-26 may send. A batch inside a batch is stray
    /// output, because nested arrays would be parsed again at each level.
    fn batch(&mut self, line: &Bytes) -> Duration {
        let items = std::str::from_utf8(line)
            .ok()
            .and_then(|text| message::batch(text).ok());
        match items {
            Some(items) => {
                let messages = items
                    .into_iter()
                    .map(|item| line.slice_ref(item.as_bytes()));
                self.messages(messages)
            }
            None => self.broken(line, "no batch of messages"),
        }
    }

    /// Handles several messages of one line.
    fn messages(&mut self, messages: impl Iterator<Item = Bytes>) -> Duration {
        let pauses = messages.map(|message| match Frame::of_server(message.clone()) {
            Ok(frame) => self.frame(frame),
            Err(error) => self.broken(&message, &error.to_string()),
        });
        pauses.max().unwrap_or_default()
    }

    /// Logs a long message, as a warning before a longer one exceeds the limit.
    fn note_long(&self, length: usize) {
        let max = self.max_message_bytes;
        self.log.note(&format!(
            "a message on stdout has {length} bytes, more than half of maxMessageBytes ({max})"
        ));
    }

    fn too_long(&self, head: &[u8], limit: usize) {
        let id = self.pending.break_off_too_large(head, limit);
        let cause = if limit < self.max_message_bytes {
            "nobody waits for it"
        } else {
            "maxMessageBytes"
        };
        if let Some(times) = self.log.fault() {
            tracing::warn!(server = %self.server, id, limit, why = cause, times, "a line is too long");
        }
        let (messages, lines) = (self.messages, self.stray_output.lines());
        self.log.oversized(&format!(
            "a message on stdout exceeds {limit} bytes ({cause}); {messages} messages were read before it, \
             {lines} lines were none"
        ));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use mainstay_platform::blocking::LONG;

    use super::*;
    use tokio_util::sync::CancellationToken;

    use crate::{
        Listener, Notice, ServerQuestion,
        exchanges::reply_sink::{ReplyQueue, ReplySink},
        logs::ServerLogs,
    };

    #[derive(Debug)]
    struct Nobody;

    impl Listener for Nobody {
        fn take_notice(&self, _: Notice) {}
        fn ask(&self, _: ServerQuestion) {}
    }

    fn server() -> ServerName {
        ServerName::new("s").expect("a name")
    }

    fn reader(pending: &Arc<PendingRequests>) -> StdoutReader {
        let server = server();
        let log = ServerLogs::default().server(&server);
        let replies = ReplySink::new(
            server.clone(),
            ReplyQueue::Pipe(Arc::default(), Arc::clone(pending)),
            CancellationToken::new(),
        );
        StdoutReader {
            pending: Arc::clone(pending),
            router: MessageRouter::new(replies, Arc::new(Nobody), Arc::clone(&log)),
            max_message_bytes: 16 * LONG,
            stray_output: StrayOutput::new(&log),
            log,
            liveness: Arc::new(Liveness::new(Duration::from_secs(120))),
            messages: 0,
            server,
        }
    }

    fn answer(id: u64, bytes: usize) -> String {
        let text = "x".repeat(bytes);
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"x\":\"{text}\"}}}}\n")
    }

    /// The answers to the calls in these lines. `ID` stands for the id of the next call.
    async fn answered(lines: &str) -> Vec<String> {
        let pending = Arc::new(PendingRequests::new(server()));
        let mut calls = Vec::new();
        let mut text = String::new();
        for (at, part) in lines.split("ID").enumerate() {
            if at > 0 {
                let call = pending.register(None, None).expect("open");
                text.push_str(&call.id.to_string());
                calls.push(call);
            }
            text.push_str(part);
        }
        reader(&pending).run(text.as_bytes()).await;
        let answers = calls.iter_mut().map(|call| {
            let message = call.next().now_or_never();
            match message {
                Some(Ok(crate::ServerMessage::Message(frame))) => frame.text().to_owned(),
                other => format!("{other:?}"),
            }
        });
        answers.collect()
    }

    /// Harmless bytes around a message do not hide the message. Neither do other messages on its line.
    #[tokio::test]
    async fn harmless_bytes_hide_no_message() {
        const ANSWER: &str = r#"{"jsonrpc":"2.0","id":ID,"result":{}}"#;
        for around in [
            "*\n",
            "\u{feff}*\n",
            "\u{1b}[0m*\u{1b}[0m\n",
            "\r*\r\n",
            "\u{1b}[2K\r\u{1b}[?25h *\r\r\n",
            "\0*\0\n",
            "\u{1b}]0;a title\u{7}*\n",
            "50%\r100%\r*\n",
            "**\n",
            "* \r*\u{1b}[0m\n",
            "[*,*]\n",
            "\u{feff}[*,*]\u{1b}[0m\n",
        ] {
            let lines = around.replace('*', ANSWER);
            for answer in answered(&lines).await {
                assert!(answer.starts_with(r#"{"jsonrpc""#), "{around:?}: {answer}");
            }
        }
        let [answer] =
            &answered("{\r \"jsonrpc\":\r\"2.0\",\"id\":ID,\"result\":{}\r}\r\n").await[..]
        else {
            panic!("one call");
        };
        assert!(answer.contains("jsonrpc"), "{answer}");
    }

    /// An unreadable answer ends its call with the reason.
    #[tokio::test]
    async fn a_call_does_not_wait_behind_an_answer_that_cannot_be_read() {
        for line in [
            r#"{"jsonrpc":"2.0","id":ID,"result":{"x":NaN}}"#,
            r#"{"jsonrpc":"3.0","id":ID,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":ID,"result":{}} and more"#,
        ] {
            let answers = answered(&format!("{line}\n")).await;
            assert!(answers[0].contains("Unreadable"), "{line}: {answers:?}");
        }
        // Invalid UTF-8 is replaced, and the rest of the message is kept.
        let pending = Arc::new(PendingRequests::new(server()));
        let mut call = pending.register(None, None).expect("open");
        let line = [
            br#"{"jsonrpc":"2.0","id":1,"result":"caf"#.as_slice(),
            b"\xe9",
            b"\"}\n",
        ]
        .concat();
        reader(&pending).run(&line[..]).await;
        let Some(Ok(crate::ServerMessage::Message(frame))) = call.next().now_or_never() else {
            panic!("an answer");
        };
        assert_eq!(frame.result(), Some("\"caf\u{fffd}\""));
    }

    /// A blocking thread parses a long message, and the next messages wait for it.
    #[test]
    fn a_long_message_is_read_elsewhere_and_in_its_turn() {
        let pending = Arc::new(PendingRequests::new(server()));
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
