//! Output on stdout that is no message. It is kept in the server's log, and reported in Mainstay's log
//! without flooding it.

use std::{sync::Arc, time::Instant};

use crate::logs::{LogStream, ServerLog, Source, Throttle, Verdict};

/// How much of a line is looked at to tell whether it was meant as a message.
const HEAD: usize = 256;

/// The stray output of one process.
#[derive(Debug)]
pub struct StrayOutput {
    log: Arc<ServerLog>,
    stream: LogStream,
    throttle: Throttle,
    /// Lines that were no message, so far.
    lines: u64,
}

impl StrayOutput {
    pub fn new(log: &Arc<ServerLog>) -> Self {
        Self {
            log: Arc::clone(log),
            stream: log.stream(Source::Stdout),
            throttle: Throttle::default(),
            lines: 0,
        }
    }

    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// A piece of text that does not begin as a message does.
    pub fn hear(&mut self, piece: &[u8]) {
        let lines = self.stream.write(piece);
        self.count(lines);
    }

    /// A line that begins as a message, and is none. If it was meant as a message, only its length is
    /// logged: it may hold arguments and results.
    pub fn broken(&mut self, line: &[u8], why: &str) {
        let head = &line[..line.len().min(HEAD)];
        if memchr::memmem::find(head, b"\"jsonrpc\"").is_some() {
            self.log.note(&format!(
                "{} bytes on stdout are no message: {why}",
                line.len()
            ));
        } else {
            self.stream.write(line);
            self.stream.write(b"\n");
        }
        self.count(1);
    }

    /// The end of stdout.
    pub fn end(&mut self) {
        self.stream.end();
        let rest = self.throttle.rest();
        self.say(rest);
    }

    fn count(&mut self, lines: u64) {
        if lines > 0 {
            self.lines += lines;
            self.log.unparsable(lines);
            let verdict = self.throttle.happened(lines, Instant::now());
            self.say(verdict);
        }
    }

    /// Reports stray output. It never stops the messages.
    fn say(&self, verdict: Verdict) {
        if let Verdict::Say(lines) = verdict {
            let server = self.log.server();
            tracing::warn!(%server, lines, "failed to parse JSON-RPC message from stdout");
            self.log.error_of_all_servers(&format!(
                "failed to parse JSON-RPC message from stdout ({lines} lines)"
            ));
        }
    }
}
