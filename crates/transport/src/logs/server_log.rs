//! The log of one server: lines of its pipes, and Mainstay's lines about it.

use std::{
    borrow::Cow,
    collections::VecDeque,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use mainstay_core::{
    config::ServerConfig,
    ids::ServerName,
    lifecycle::Loss,
    redact::{CUT, Secrets, shown},
    trouble,
};
use mainstay_platform::{scratch, utc};
use parking_lot::Mutex;
use tokio::{io::AsyncRead, sync::broadcast};
use tokio_util::sync::CancellationToken;

use super::{
    Followed, Line, Source,
    log_file::{LogFile, Tail as From},
    queue::{KEPT_LAST, Queue},
    tail::{Tail, text},
    throttle::Throttle,
    token_bucket::{TokenBucket, rest},
};

/// Longest line in a file, in bytes; a longer one is cut.
const MAX_LINE: usize = 64 * 1024;

/// How much of the end of a line is kept that comes in pieces, at least.
const KEPT_TAIL: usize = 2048;

/// How much of its beginning.
const KEPT_HEAD: usize = MAX_LINE - 2 * KEPT_TAIL - CUT.len();

/// A line longer than this is an overflow.
const MAX_READ_LINE: usize = 1024 * 1024;

/// Foreign ids that are named where a call waits in vain.
const MAX_FOREIGN_ANSWERS: usize = 3;

/// How long a foreign id explains why a server is not connected.
const RECENT: Duration = Duration::from_mins(2);

#[derive(Debug)]
pub struct ServerLog {
    server: ServerName,
    files: Option<Files>,
    /// The last lines of stderr.
    pub tail: Tail,
    /// The last lines of stdout that are no messages.
    stray_output: Tail,
    /// The line of stderr that tells most of why the process before the last one ended. Held to copy it.
    said_before: Mutex<Option<String>>,
    lines: AtomicU64,
    bytes: AtomicU64,
    unparsable: AtomicU64,
    oversized: AtomicU64,
    merged_notifications: AtomicU64,
    dropped_notifications: AtomicU64,
    faults: Mutex<Throttle>,
    /// The ids of the last responses that answered no request, and when they came.
    foreign_answers: Mutex<VecDeque<(tokio::time::Instant, Box<str>)>>,
}

#[derive(Debug)]
struct Files {
    own: Arc<LogFile>,
    /// The log of all servers' errors.
    errors: Arc<LogFile>,
}

/// What a server wrote beside the protocol, and what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    /// Lines of stderr, and of stray output on stdout.
    pub lines: u64,
    pub bytes: u64,
    /// Lines that are not in the log: they came too fast, or could not be written.
    pub dropped: u64,
    /// Lines on stdout that are no messages.
    pub unparsable: u64,
    /// Lines beyond a limit: 1 MiB, or `maxMessageBytes` for a message.
    pub oversized: u64,
    /// Notifications that said what one that waited said already.
    pub merged_notifications: u64,
    /// Notifications that came too fast.
    pub dropped_notifications: u64,
    pub rotations: u64,
    pub write_errors: u64,
}

impl ServerLog {
    /// The server has made a mistake that our own log tells of. Returns how often that has happened since
    /// it was told last, unless it was told a moment ago.
    pub fn fault(&self) -> Option<u64> {
        // Held for a few operations, never across an await.
        let mut faults = self.faults.lock();
        faults.again()
    }

    pub(super) fn new(server: ServerName, files: Option<(Arc<LogFile>, Arc<LogFile>)>) -> Self {
        Self {
            server,
            files: files.map(|(own, errors)| Files { own, errors }),
            tail: Tail::default(),
            stray_output: Tail::default(),
            said_before: Mutex::default(),
            lines: AtomicU64::default(),
            bytes: AtomicU64::default(),
            unparsable: AtomicU64::default(),
            oversized: AtomicU64::default(),
            merged_notifications: AtomicU64::default(),
            dropped_notifications: AtomicU64::default(),
            faults: Mutex::default(),
            foreign_answers: Mutex::default(),
        }
    }

    /// A response came under an id (JSON text) that no request has.
    pub fn foreign_answer(&self, id: &str) {
        // Held for a few operations, never across an await.
        let mut kept = self.foreign_answers.lock();
        if kept.len() == MAX_FOREIGN_ANSWERS {
            kept.pop_front();
        }
        kept.push_back((tokio::time::Instant::now(), id.into()));
    }

    /// Says under which ids responses have come since then that no request has.
    pub fn foreign_ids(&self, since: tokio::time::Instant) -> Option<String> {
        self.foreign_ids_but(since, None)
    }

    fn foreign_ids_but(
        &self,
        since: tokio::time::Instant,
        left_out: Option<&str>,
    ) -> Option<String> {
        // Held for a few operations, never across an await.
        let kept = self.foreign_answers.lock();
        let ids = kept.iter().filter(|(at, _)| *at >= since);
        let ids = ids.map(|(_, id)| &**id);
        let mut ids: Vec<&str> = ids.filter(|id| Some(*id) != left_out).collect();
        ids.dedup();
        let ids = ids.join(", ");
        (!ids.is_empty()).then(|| format!("responses came with ids that no request has: {ids}"))
    }

    /// The same of a connection that does not come about.
    pub fn recent_foreign_ids(&self) -> Option<String> {
        let since = tokio::time::Instant::now().checked_sub(RECENT)?;
        // Without an id a server may have answered a notification.
        self.foreign_ids_but(since, Some("null"))
    }

    pub fn server(&self) -> &ServerName {
        &self.server
    }

    /// From now on the secrets of this configuration are kept out of the log, and of texts about the
    /// server elsewhere.
    pub fn protect(&self, config: &ServerConfig) {
        self.protect_both(config, None);
    }

    /// The same with the secrets that the server had before, which its sessions may still have.
    pub fn protect_both(&self, config: &ServerConfig, former: Option<&ServerConfig>) {
        let secrets = Secrets::of_both(config, former).map(Arc::new);
        self.tail.secrets.store(secrets.clone());
        self.stray_output.secrets.store(secrets.clone());
        if let Some(files) = &self.files {
            files.own.secrets.store(secrets);
        }
    }

    /// The last line of stdout that is no message.
    pub fn last_stray_line(&self) -> Option<String> {
        let mut lines = self.stray_output.texts();
        lines.retain(|line| !line.trim().is_empty());
        lines.pop()
    }

    /// What the process before this one said on stderr that tells why it ended.
    pub fn said_before(&self) -> Option<String> {
        self.said_before.lock().clone()
    }

    /// Forgets what an earlier process said, but for the line that tells why it ended.
    pub fn forget(&self) {
        *self.said_before.lock() = trouble::telling_line(&self.tail.texts());
        self.tail.clear();
        self.stray_output.clear();
        self.foreign_answers.lock().clear();
    }

    pub fn secrets(&self) -> Option<Arc<Secrets>> {
        self.tail.secrets.load_full()
    }

    /// A text that may quote the server, without secrets.
    pub fn shown<'t>(&self, text: &'t str) -> Cow<'t, str> {
        shown(text, self.tail.secrets.load().as_deref())
    }

    /// A line of our own about the server.
    pub fn note(&self, text: &str) {
        if let Some(files) = &self.files {
            files.own.push(Source::Mainstay.as_str(), text);
        }
    }

    /// Writes a line here and in the log of all servers' errors.
    pub fn error(&self, text: &str) {
        self.note(text);
        self.error_of_all_servers(text);
    }

    /// A line in the log of all servers' errors, about what the server's own log shows itself.
    pub fn error_of_all_servers(&self, text: &str) {
        if let Some(files) = &self.files {
            // The file of all servers does not know single servers' secrets.
            files.errors.push(self.server.as_str(), &self.shown(text));
        }
    }

    /// How a connection ended, or why none came about.
    pub fn ended(&self, loss: &Loss) {
        match loss {
            Loss::Disconnected(_) => self.note(&loss.to_string()),
            _ => self.error(&loss.to_string()),
        }
    }

    /// Lines on stdout that are no messages.
    pub fn unparsable(&self, lines: u64) {
        self.unparsable.fetch_add(lines, Ordering::Relaxed);
    }

    /// A notification that says what one that waits says already.
    pub fn merged_notification(&self) {
        self.merged_notifications.fetch_add(1, Ordering::Relaxed);
    }

    /// Notifications that came too fast.
    pub fn dropped_notifications(&self, count: u64) {
        self.dropped_notifications
            .fetch_add(count, Ordering::Relaxed);
    }

    /// A line beyond a limit.
    pub fn oversized(&self, text: &str) {
        self.oversized.fetch_add(1, Ordering::Relaxed);
        self.error(text);
    }

    /// What a pipe says beside the protocol.
    pub fn stream(self: &Arc<Self>, source: Source) -> LogStream {
        LogStream {
            log: Arc::clone(self),
            source,
            line: GrowingLine::default(),
            after_return: false,
        }
    }

    pub fn diagnostics(&self) -> Diagnostics {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = self.files.as_ref().map(|files| &files.own.counts);
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

    /// The last lines, and all that come after them. Blocks for as long as the disk does.
    pub fn last(&self, lines: usize) -> io::Result<Followed> {
        self.follow(From::Last(lines))
    }

    /// What was written after the line of this number.
    pub fn after(&self, number: u64) -> io::Result<Followed> {
        self.follow(From::After(number))
    }

    fn follow(&self, from: From) -> io::Result<Followed> {
        match &self.files {
            Some(files) => files.own.follow(from),
            // What there is; nothing comes after it.
            None => Ok(Followed {
                lines: self.tail_lines(from),
                // Older lines may have gone.
                is_all: false,
                last: 0,
                batches: broadcast::Sender::new(1).subscribe(),
            }),
        }
    }

    fn tail_lines(&self, from: From) -> Vec<Line> {
        let mut lines = self.tail.lines();
        if let From::Last(wanted) = from {
            lines.drain(..lines.len().saturating_sub(wanted));
        }
        lines
    }

    /// Takes whole lines: one that was gathered, and those that follow it. Returns how many.
    fn append(&self, source: Source, first: &[u8], others: &[u8]) -> u64 {
        let tail = match source {
            Source::Stderr => Some(&self.tail),
            Source::Stdout => Some(&self.stray_output),
            Source::Mainstay => None,
        };
        if let Some(tail) = tail {
            tail.extend(first);
            tail.extend(others);
        }
        let lines = match &self.files {
            Some(files) => {
                let time = utc::rfc3339(SystemTime::now());
                files.own.append(|queue| {
                    push(queue, &time, source, first) + push_all(queue, &time, source, others)
                })
            }
            None => {
                let lines = others.split_inclusive(|byte| *byte == b'\n');
                let lines = lines.chain([first]).filter(|line| !is_silent(source, line));
                lines.count() as u64
            }
        };
        self.lines.fetch_add(lines, Ordering::Relaxed);
        lines
    }
}

fn push_all(queue: &mut Queue, time: &str, source: Source, lines: &[u8]) -> u64 {
    let (mut rest, mut pushed) = (lines, 0);
    while let Some(end) = memchr::memchr(b'\n', rest) {
        if queue.is_full() {
            // All but the last lines.
            let kept = memchr::memrchr_iter(b'\n', rest).nth(KEPT_LAST);
            if let Some(kept) = kept {
                let (dropped, last) = rest.split_at(kept + 1);
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

fn push(queue: &mut Queue, time: &str, source: Source, line: &[u8]) -> u64 {
    if is_silent(source, line) {
        return 0;
    }
    queue.push(time, source.as_str(), &text(line, MAX_LINE));
    1
}

/// A blank line on stdout is no message, and no stray output either.
fn is_silent(source: Source, line: &[u8]) -> bool {
    source == Source::Stdout && line.trim_ascii().is_empty()
}

/// Splits what a pipe says into lines, and never holds more of one than the log keeps. Dropping it ends the
/// last line.
#[derive(Debug)]
pub struct LogStream {
    log: Arc<ServerLog>,
    source: Source,
    /// The line whose end has not come yet.
    line: GrowingLine,
    /// A carriage return has ended the line before: a line feed that comes next belongs to it.
    after_return: bool,
}

/// The beginning and the end of a line that grows.
#[derive(Debug, Default)]
struct GrowingLine {
    head: Vec<u8>,
    /// What came behind `head`, at least the last of it.
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
            // What is left out stands between the two.
            self.tail.clear();
        }
        let tail = &tail[tail.len().saturating_sub(KEPT_TAIL)..];
        if self.tail.len() + tail.len() > 2 * KEPT_TAIL {
            let surplus = (self.tail.len() + tail.len() - KEPT_TAIL).min(self.tail.len());
            self.tail.drain(..surplus);
        }
        self.tail.extend_from_slice(tail);
    }

    /// The line, of which the middle is left out where it was too long.
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
    /// Takes the next piece; returns how many lines ended in it. A carriage return ends a line, too: what a
    /// progress bar writes again and again must not hide the error behind it.
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

    /// The piece with a line feed at each end of a line. Lines that would be empty but for carriage returns are
    /// none.
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

    /// The end of the pipe: a line without an end counts, for it may be the last word of a server
    /// that died.
    pub fn end(&mut self) {
        if self.line.length > 0 {
            self.write_lines(b"\n");
        }
    }

    /// Reads a pipe to its end, so that the server never waits for us. `heard` is told how many bytes
    /// come. Once the process has `exited`, what it has left behind is read without pauses: the end of it says
    /// why.
    pub async fn drain(
        mut self,
        mut pipe: impl AsyncRead + Unpin,
        heard: impl Fn(usize),
        exited: CancellationToken,
    ) {
        let mut allowance = TokenBucket::for_reading();
        loop {
            let take = |piece: &[u8]| {
                heard(piece.len());
                self.write(piece);
                piece.len()
            };
            match scratch::read(&mut pipe, take).await {
                Ok(0) => break,
                // A flood has always more to say; others have their turn.
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
