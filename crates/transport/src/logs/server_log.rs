//! The log of one server: the lines of its pipes, and Mainstay's lines about the server.

use std::{
    borrow::Cow,
    collections::VecDeque,
    io,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use mainstay_core::{
    config::{Secret, ServerConfig},
    ids::ServerName,
    lifecycle::Loss,
    redact::{CUT, Secrets, redact_with},
    trouble,
};
use mainstay_platform::{scratch, utc};
use parking_lot::Mutex;
use tokio::{io::AsyncRead, sync::broadcast};
use tokio_util::sync::CancellationToken;

use super::{
    Followed, Line, LineSource,
    log_file::{FollowFrom, LogFile},
    queue::{KEPT_LAST, Queue},
    tail::{Tail, text},
    throttle::Throttle,
    token_bucket::{TokenBucket, rest},
};

/// The maximum length of a line in a file, in bytes. Longer lines are cut.
const MAX_LINE: usize = 64 * 1024;

/// The minimum number of bytes at the end of a growing line that are stored.
const KEPT_TAIL: usize = 2048;

/// The maximum number of bytes at the beginning of a growing line that are stored.
const KEPT_HEAD: usize = MAX_LINE - 2 * KEPT_TAIL - CUT.len();

/// The length, in bytes, above which a line is reported as oversized.
const MAX_READ_LINE: usize = 1024 * 1024;

/// The number of former credentials that are still redacted, because answers to the last requests may quote
/// them.
const MAX_FORMER_CREDENTIALS: usize = 8;

/// The number of foreign ids that are stored. The error of a call without an answer names them.
const MAX_FOREIGN_ANSWERS: usize = 3;

/// The time for which a foreign id may explain why a server is not connected.
const RECENT: Duration = Duration::from_mins(2);

#[derive(Debug)]
pub struct ServerLog {
    server: ServerName,
    files: Option<Files>,
    /// The last lines of stderr.
    pub tail: Tail,
    /// The last lines of stray output on stdout.
    stray_output: Tail,
    /// The line of stderr that explains the end of the previous process. Locked for a copy.
    last_words_before: Mutex<Option<String>>,
    lines: AtomicU64,
    bytes: AtomicU64,
    unparsable: AtomicU64,
    oversized: AtomicU64,
    merged_notifications: AtomicU64,
    dropped_notifications: AtomicU64,
    faults: Mutex<Throttle>,
    /// Locked for a change.
    protected_secrets: Mutex<ProtectedSecrets>,
    /// Times and ids of the last responses that answered no request.
    foreign_answers: Mutex<VecDeque<(tokio::time::Instant, Box<str>)>>,
}

/// The texts that the log redacts.
#[derive(Debug, Default)]
struct ProtectedSecrets {
    configured: Option<Arc<Secrets>>,
    /// The current credentials of each source, and the last former credentials. The newest are at the end.
    credentials: Vec<SourceCredentials>,
}

/// The credentials that a source gave to requests at one time.
#[derive(Debug)]
struct SourceCredentials {
    source: Weak<CredentialMark>,
    is_present: bool,
    secrets: Vec<Secret>,
}

impl SourceCredentials {
    fn is_in_use(&self) -> bool {
        self.is_present && self.source.strong_count() > 0
    }
}

/// Identifies one source of a server's credentials. It lives as long as its source.
#[derive(Debug, Default)]
pub struct CredentialMark;

#[derive(Debug)]
struct Files {
    server_file: Arc<LogFile>,
    /// The log of all servers' errors.
    errors: Arc<LogFile>,
}

/// Counts of a server's output outside of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    /// Lines of stderr, and of stray output on stdout.
    pub lines: u64,
    pub bytes: u64,
    /// Lines that are not in the log, because they came too fast or could not be written.
    pub dropped: u64,
    /// Lines of stray output on stdout.
    pub unparsable: u64,
    /// Lines beyond a limit: 1 MiB, or `maxMessageBytes` for a message.
    pub oversized: u64,
    /// Notifications that repeated a notification in the queue.
    pub merged_notifications: u64,
    /// Notifications that exceeded a rate or a limit.
    pub dropped_notifications: u64,
    pub rotations: u64,
    pub write_errors: u64,
}

impl ServerLog {
    /// Counts a mistake of the server that Mainstay's own log reports. Returns the number of mistakes since
    /// the last report if a report is due.
    pub fn fault(&self) -> Option<u64> {
        // Held for a few operations, never across an await.
        let mut faults = self.faults.lock();
        faults.again()
    }

    pub(super) fn new(server: ServerName, files: Option<(Arc<LogFile>, Arc<LogFile>)>) -> Self {
        Self {
            server,
            files: files.map(|(server_file, errors)| Files {
                server_file,
                errors,
            }),
            tail: Tail::default(),
            stray_output: Tail::default(),
            last_words_before: Mutex::default(),
            lines: AtomicU64::default(),
            bytes: AtomicU64::default(),
            unparsable: AtomicU64::default(),
            oversized: AtomicU64::default(),
            merged_notifications: AtomicU64::default(),
            dropped_notifications: AtomicU64::default(),
            faults: Mutex::default(),
            protected_secrets: Mutex::default(),
            foreign_answers: Mutex::default(),
        }
    }

    /// Stores the id (JSON text) of a response that answers no request.
    pub fn foreign_answer(&self, id: &str) {
        // Held for a few operations, never across an await.
        let mut answers = self.foreign_answers.lock();
        if answers.len() == MAX_FOREIGN_ANSWERS {
            answers.pop_front();
        }
        answers.push_back((tokio::time::Instant::now(), id.into()));
    }

    /// A sentence with the ids of the responses that answered no request, since the time `since`.
    pub fn foreign_ids(&self, since: tokio::time::Instant) -> Option<String> {
        self.foreign_ids_but(since, None)
    }

    fn foreign_ids_but(
        &self,
        since: tokio::time::Instant,
        left_out: Option<&str>,
    ) -> Option<String> {
        // Held for a few operations, never across an await.
        let answers = self.foreign_answers.lock();
        let mut ids: Vec<&str> = answers
            .iter()
            .filter(|(at, _)| *at >= since)
            .map(|(_, id)| &**id)
            .filter(|id| Some(*id) != left_out)
            .collect();
        ids.dedup();
        let ids = ids.join(", ");
        (!ids.is_empty()).then(|| format!("responses came with ids that no request has: {ids}"))
    }

    /// Like [`Self::foreign_ids`], for a connection that cannot be opened: only recent ids, without `null`.
    pub fn recent_foreign_ids(&self) -> Option<String> {
        let since = tokio::time::Instant::now().checked_sub(RECENT)?;
        // A response without an id may have answered a notification.
        self.foreign_ids_but(since, Some("null"))
    }

    pub fn server(&self) -> &ServerName {
        &self.server
    }

    /// Redacts the secrets of this configuration from now on, in the log and in other texts about the server.
    pub fn protect(&self, config: &ServerConfig) {
        self.protect_both(config, None);
    }

    /// Like [`Self::protect`], but also redacts the secrets of the previous configuration, which sessions may
    /// still use.
    pub fn protect_both(&self, config: &ServerConfig, former: Option<&ServerConfig>) {
        let mut protected = self.protected_secrets.lock();
        protected.configured = Secrets::from_configs(config, former).map(Arc::new);
        self.redact_all(&protected);
    }

    /// Redacts the credentials that a source gives to requests, such as the token of a login. The source's
    /// earlier credentials become former credentials.
    pub fn protect_credentials<'c>(
        &self,
        source: &Arc<CredentialMark>,
        credentials: impl IntoIterator<Item = &'c str>,
    ) {
        let source = Arc::downgrade(source);
        let mut protected = self.protected_secrets.lock();
        for former in &mut protected.credentials {
            former.is_present &= !former.source.ptr_eq(&source);
        }
        protected.credentials.push(SourceCredentials {
            source,
            is_present: true,
            secrets: credentials.into_iter().map(Secret::new).collect(),
        });
        let former_count = protected
            .credentials
            .iter()
            .filter(|one| !one.is_in_use())
            .count();
        let mut excess = former_count.saturating_sub(MAX_FORMER_CREDENTIALS);
        protected.credentials.retain(|credentials| {
            let is_kept = credentials.is_in_use() || excess == 0;
            excess -= usize::from(!is_kept);
            is_kept
        });
        self.redact_all(&protected);
    }

    fn redact_all(&self, protected: &ProtectedSecrets) {
        let secrets = if protected.credentials.is_empty() {
            protected.configured.clone()
        } else {
            let configured = protected.configured.as_deref();
            let groups = protected.credentials.iter();
            let secrets = groups.flat_map(|credentials| &credentials.secrets);
            Secrets::with_credentials(configured, secrets).map(Arc::new)
        };
        self.tail.secrets.store(secrets.clone());
        self.stray_output.secrets.store(secrets.clone());
        if let Some(files) = &self.files {
            files.server_file.secrets.store(secrets);
        }
    }

    /// The last line of stray output on stdout.
    pub fn last_stray_line(&self) -> Option<String> {
        let mut lines = self.stray_output.texts();
        lines.retain(|line| !line.trim().is_empty());
        lines.pop()
    }

    /// The line of stderr that explains the end of the previous process.
    pub fn last_words_before(&self) -> Option<String> {
        self.last_words_before.lock().clone()
    }

    /// Forgets the output of the process, except for the line that explains its end.
    pub fn forget(&self) {
        *self.last_words_before.lock() = trouble::telling_line(&self.tail.texts());
        self.tail.clear();
        self.stray_output.clear();
        self.foreign_answers.lock().clear();
    }

    pub fn secrets(&self) -> Option<Arc<Secrets>> {
        self.tail.secrets.load_full()
    }

    /// Redacts the secrets in a text that may quote the server.
    pub fn redacted<'t>(&self, text: &'t str) -> Cow<'t, str> {
        redact_with(text, self.tail.secrets.load().as_deref())
    }

    /// Writes a line of Mainstay about the server.
    pub fn note(&self, text: &str) {
        if let Some(files) = &self.files {
            files.server_file.push(LineSource::Mainstay.as_str(), text);
        }
    }

    /// Writes a line in this log and in the log of all servers' errors.
    pub fn error(&self, text: &str) {
        self.note(text);
        self.error_of_all_servers(text);
    }

    /// Writes a line only in the log of all servers' errors. The server's own log shows the error already.
    pub fn error_of_all_servers(&self, text: &str) {
        if let Some(files) = &self.files {
            // Redact the line here: the log of all servers does not know the secrets of each server.
            files
                .errors
                .push(self.server.as_str(), &self.redacted(text));
        }
    }

    /// Writes the reason that a connection ended or could not be opened.
    pub fn ended(&self, loss: &Loss) {
        match loss {
            Loss::Disconnected(_) => self.note(&loss.to_string()),
            _ => self.error(&loss.to_string()),
        }
    }

    /// Counts lines of stray output on stdout.
    pub fn unparsable(&self, lines: u64) {
        self.unparsable.fetch_add(lines, Ordering::Relaxed);
    }

    /// Counts a notification that repeats a notification in the queue.
    pub fn merged_notification(&self) {
        self.merged_notifications.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts notifications that came too fast.
    pub fn dropped_notifications(&self, count: u64) {
        self.dropped_notifications
            .fetch_add(count, Ordering::Relaxed);
    }

    /// Counts and reports a line beyond a limit.
    pub fn oversized(&self, text: &str) {
        self.oversized.fetch_add(1, Ordering::Relaxed);
        self.error(text);
    }

    /// Returns a stream for a pipe's output that is outside of the protocol.
    pub fn stream(self: &Arc<Self>, source: LineSource) -> LogStream {
        LogStream {
            log: Arc::clone(self),
            source,
            line: GrowingLine::default(),
            after_return: false,
        }
    }

    pub fn diagnostics(&self) -> Diagnostics {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = self.files.as_ref().map(|files| &files.server_file.counts);
        Diagnostics {
            lines: get(&self.lines),
            bytes: get(&self.bytes),
            dropped: counts.map_or(0, |counts| get(&counts.dropped)),
            unparsable: get(&self.unparsable),
            oversized: get(&self.oversized),
            merged_notifications: get(&self.merged_notifications),
            dropped_notifications: get(&self.dropped_notifications),
            rotations: counts.map_or(0, |counts| get(&counts.rotations)),
            write_errors: counts.map_or(0, |counts| get(&counts.write_errors)),
        }
    }

    /// Returns the last lines, and a subscription to all later ones. Blocks while the disk is slow.
    pub fn last(&self, lines: usize) -> io::Result<Followed> {
        self.follow(FollowFrom::Last(lines))
    }

    /// Like [`Self::last`], but with the lines after the line `number`.
    pub fn after(&self, number: u64) -> io::Result<Followed> {
        self.follow(FollowFrom::After(number))
    }

    fn follow(&self, from: FollowFrom) -> io::Result<Followed> {
        match &self.files {
            Some(files) => files.server_file.follow(from),
            // Without files there are only the stored lines. No later lines follow.
            None => Ok(Followed {
                lines: self.tail_lines(from),
                // Older lines may have been dropped.
                is_all: false,
                last: 0,
                batches: broadcast::Sender::new(1).subscribe(),
            }),
        }
    }

    fn tail_lines(&self, from: FollowFrom) -> Vec<Line> {
        let mut lines = self.tail.lines();
        if let FollowFrom::Last(count) = from {
            lines.drain(..lines.len().saturating_sub(count));
        }
        lines
    }

    /// Appends whole lines: `first`, which may have arrived in pieces, and `others` after it. Returns their
    /// number.
    fn append(&self, source: LineSource, first: &[u8], others: &[u8]) -> u64 {
        let tail = match source {
            LineSource::Stderr => Some(&self.tail),
            LineSource::Stdout => Some(&self.stray_output),
            LineSource::Mainstay => None,
        };
        if let Some(tail) = tail {
            tail.extend(first);
            tail.extend(others);
        }
        let lines = match &self.files {
            Some(files) => {
                let time = utc::rfc3339(SystemTime::now());
                files.server_file.append(|queue| {
                    push(queue, &time, source, first) + push_all(queue, &time, source, others)
                })
            }
            None => {
                let lines = others.split_inclusive(|byte| *byte == b'\n');
                lines
                    .chain([first])
                    .filter(|line| !is_silent(source, line))
                    .count() as u64
            }
        };
        self.lines.fetch_add(lines, Ordering::Relaxed);
        lines
    }
}

fn push_all(queue: &mut Queue, time: &str, source: LineSource, lines: &[u8]) -> u64 {
    let (mut rest, mut pushed) = (lines, 0);
    while let Some(end) = memchr::memchr(b'\n', rest) {
        if queue.is_full() {
            // Drop all but the last lines.
            let end = memchr::memrchr_iter(b'\n', rest).nth(KEPT_LAST);
            if let Some(end) = end {
                let (dropped, last) = rest.split_at(end + 1);
                let dropped = memchr::memchr_iter(b'\n', dropped).count() as u64;
                queue.drop(dropped);
                pushed += dropped;
                rest = last;
                continue;
            }
        }
        let (line, after) = rest.split_at(end + 1);
        pushed += push(queue, time, source, line);
        rest = after;
    }
    pushed
}

fn push(queue: &mut Queue, time: &str, source: LineSource, line: &[u8]) -> u64 {
    if is_silent(source, line) {
        return 0;
    }
    queue.push(time, source.as_str(), &text(line, MAX_LINE));
    1
}

/// True for a blank line on stdout, which is neither a message nor stray output.
fn is_silent(source: LineSource, line: &[u8]) -> bool {
    source == LineSource::Stdout && line.trim_ascii().is_empty()
}

/// Splits the output of a pipe into lines. Holds no more of a line than the log stores. Dropping the stream
/// ends the last line.
#[derive(Debug)]
pub struct LogStream {
    log: Arc<ServerLog>,
    source: LineSource,
    /// The line whose end has not arrived yet.
    line: GrowingLine,
    /// True if a carriage return has ended the last line. If a line feed follows, it belongs to that line
    /// end.
    after_return: bool,
}

/// The beginning and the end of a line that arrives in pieces.
#[derive(Debug, Default)]
struct GrowingLine {
    head: Vec<u8>,
    /// The bytes after `head`. Of many bytes, only the last ones are stored.
    tail: Vec<u8>,
    length: usize,
}

impl GrowingLine {
    fn push(&mut self, piece: &[u8]) {
        self.length += piece.len();
        let room = KEPT_HEAD.saturating_sub(self.head.len());
        let (head, tail) = piece.split_at(piece.len().min(room));
        self.head.extend_from_slice(head);
        if tail.len() > KEPT_TAIL {
            // The omitted bytes are between `head` and `tail`.
            self.tail.clear();
        }
        let tail = &tail[tail.len().saturating_sub(KEPT_TAIL)..];
        if self.tail.len() + tail.len() > 2 * KEPT_TAIL {
            let surplus = (self.tail.len() + tail.len() - KEPT_TAIL).min(self.tail.len());
            self.tail.drain(..surplus);
        }
        self.tail.extend_from_slice(tail);
    }

    /// Returns the line. The middle of a long line is omitted.
    fn take(&mut self) -> Vec<u8> {
        let Self {
            mut head,
            tail,
            length,
        } = std::mem::take(self);
        if head.len() + tail.len() < length {
            head.extend_from_slice(CUT.as_bytes());
        }
        head.extend_from_slice(&tail);
        head
    }
}

impl LogStream {
    /// Adds the next piece. Returns the number of lines that ended in it. A carriage return also ends a line,
    /// so that a progress bar, which repeats its line, does not hide an error after it.
    pub fn write(&mut self, piece: &[u8]) -> u64 {
        self.log
            .bytes
            .fetch_add(piece.len() as u64, Ordering::Relaxed);
        if !self.after_return && memchr::memchr(b'\r', piece).is_none() {
            return self.write_lines(piece);
        }
        let lines = self.with_line_feeds(piece);
        self.write_lines(&lines)
    }

    /// Returns the piece with a line feed at the end of each line. Lines that contain only carriage returns
    /// are omitted.
    fn with_line_feeds(&mut self, piece: &[u8]) -> Vec<u8> {
        let mut lines = Vec::with_capacity(piece.len());
        let has_begun = self.line.length > 0;
        for byte in piece {
            match byte {
                b'\r' => {
                    let is_empty = lines.last().map_or(!has_begun, |last| *last == b'\n');
                    if !is_empty {
                        lines.push(b'\n');
                        self.after_return = true;
                    }
                }
                b'\n' if self.after_return => self.after_return = false,
                byte => {
                    lines.push(*byte);
                    self.after_return = false;
                }
            }
        }
        lines
    }

    fn write_lines(&mut self, piece: &[u8]) -> u64 {
        let Some(end) = memchr::memchr(b'\n', piece) else {
            self.begin(piece);
            return 0;
        };
        let (first, rest) = piece.split_at(end + 1);
        let whole = memchr::memrchr(b'\n', rest).map_or(0, |end| end + 1);
        let (others, next) = rest.split_at(whole);
        let lines = if self.line.length == 0 {
            self.log.append(self.source, first, others)
        } else {
            self.begin(first);
            let gathered = self.line.take();
            self.log.append(self.source, &gathered, others)
        };
        self.begin(next);
        lines
    }

    fn begin(&mut self, piece: &[u8]) {
        let before = self.line.length;
        self.line.push(piece);
        if before <= MAX_READ_LINE && self.line.length > MAX_READ_LINE {
            let source = self.source.as_str();
            self.log
                .oversized(&format!("a line on {source} exceeds {MAX_READ_LINE} bytes"));
        }
    }

    /// Handles the end of the pipe. An incomplete line counts, because it may explain why the server died.
    pub fn end(&mut self) {
        if self.line.length > 0 {
            self.write_lines(b"\n");
        }
    }

    /// Reads a pipe to its end, so that the server never waits for Mainstay. Calls `on_bytes` with the length
    /// of each piece. Once the process has `exited`, the rest is read without pauses, because it explains the
    /// exit.
    pub async fn drain(
        mut self,
        mut pipe: impl AsyncRead + Unpin,
        on_bytes: impl Fn(usize),
        exited: CancellationToken,
    ) {
        let mut allowance = TokenBucket::for_reading();
        loop {
            let take = |piece: &[u8]| {
                on_bytes(piece.len());
                self.write(piece);
                piece.len()
            };
            match scratch::read(&mut pipe, take).await {
                Ok(0) => break,
                // During a flood there is always more to read. Let other tasks run.
                Ok(bytes) => {
                    let pause = rest(allowance.spend(bytes));
                    tokio::select! {
                        () = pause => {}
                        () = exited.cancelled() => tokio::task::yield_now().await,
                    }
                }
                Err(error) => {
                    let (server, pipe) = (&self.log.server, self.source.as_str());
                    tracing::debug!(%server, %error, "{pipe} cannot be read any more");
                    break;
                }
            }
        }
        self.end();
    }
}

impl Drop for LogStream {
    fn drop(&mut self) {
        self.end();
    }
}
