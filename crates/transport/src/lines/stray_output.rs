//! Output on stdout that is not a message. It goes to the server's log. Mainstay's own log reports it at a
//! limited rate.

use std::{sync::Arc, time::Instant};

use crate::logs::{LineSource, LogStream, ServerLog, Throttle, ThrottleVerdict};

/// The number of bytes of a line that are searched for signs of a message.
const HEAD: usize = 256;

/// The stray output of one process.
#[derive(Debug)]
pub struct StrayOutput {
    log: Arc<ServerLog>,
    stream: LogStream,
    throttle: Throttle,
    /// Number of lines of stray output so far.
    lines: u64,
}

impl StrayOutput {
    pub fn new(log: &Arc<ServerLog>) -> Self {
        Self {
            log: Arc::clone(log),
            stream: log.stream(LineSource::Stdout),
            throttle: Throttle::default(),
            lines: 0,
        }
    }

    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Adds a piece of text that does not begin like a message.
    pub fn add(&mut self, piece: &[u8]) {
        let lines = self.stream.write(piece);
        self.count(lines);
    }

    /// Adds a line that begins like a message but is not one. If it was intended as a message, only its
    /// length is logged, because it may contain arguments and results.
    pub fn add_broken_line(&mut self, line: &[u8], reason: &str) {
        let head = &line[..line.len().min(HEAD)];
        if memchr::memmem::find(head, b"\"jsonrpc\"").is_some() {
            self.log.note(&format!(
                "{} bytes on stdout are no message: {reason}",
                line.len()
            ));
        } else {
            self.stream.write(line);
            self.stream.write(b"\n");
        }
        self.count(1);
    }

    /// Handles the end of stdout.
    pub fn end(&mut self) {
        self.stream.end();
        let rest = self.throttle.rest();
        self.report(rest);
    }

    fn count(&mut self, lines: u64) {
        if lines > 0 {
            self.lines += lines;
            self.log.unparsable(lines);
            let verdict = self.throttle.happened(lines, Instant::now());
            self.report(verdict);
        }
    }

    /// Reports stray output if the rate limit allows.
    fn report(&self, verdict: ThrottleVerdict) {
        if let ThrottleVerdict::Report(lines) = verdict {
            let server = self.log.server();
            tracing::warn!(%server, lines, "failed to parse JSON-RPC message from stdout");
            self.log.error_of_all_servers(&format!(
                "failed to parse JSON-RPC message from stdout ({lines} lines)"
            ));
        }
    }
}
