//! The log of one server: lines of its pipes, and Mainstay's lines about it.

use std::{
    borrow::Cow,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use mainstay_core::{
    config::ServerConfig,
    ids::ServerName,
    lifecycle::Loss,
    redact::{Secrets, shown},
};
use mainstay_platform::{scratch, utc};
use parking_lot::Mutex;
use tokio::{io::AsyncRead, sync::broadcast};

use super::{
    Followed, Line, Source,
    log_file::{LogFile, Tail as From},
    queue::Queue,
    tail::{Tail, text},
    throttle::Throttle,
    token_bucket::{TokenBucket, rest},
};

/// Longest line in a file, in bytes; a longer one is cut.
const MAX_LINE: usize = 64 * 1024;

/// A line longer than this is an overflow.
const MAX_READ_LINE: usize = 1024 * 1024;

#[derive(Debug)]
pub struct ServerLog {
    server: ServerName,
    files: Option<Files>,
    /// The last lines of stderr.
    pub tail: Tail,
    /// The last lines of stdout that are no messages.
    stray_output: Tail,
    lines: AtomicU64,
    bytes: AtomicU64,
    unparsable: AtomicU64,
    oversized: AtomicU64,
    merged_notifications: AtomicU64,
    dropped_notifications: AtomicU64,
    faults: Mutex<Throttle>,
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
            lines: AtomicU64::default(),
            bytes: AtomicU64::default(),
            unparsable: AtomicU64::default(),
            oversized: AtomicU64::default(),
            merged_notifications: AtomicU64::default(),
            dropped_notifications: AtomicU64::default(),
            faults: Mutex::default(),
        }
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

    /// Forgets what an earlier process said.
    pub fn forget(&self) {
        self.tail.clear();
        self.stray_output.clear();
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
            line: Vec::new(),
            length: 0,
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
            let dropped = memchr::memchr_iter(b'\n', rest).count() as u64;
            queue.drop(dropped);
            return pushed + dropped;
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

/// Splits what a pipe says into lines, and never holds more of one than the log keeps.
#[derive(Debug)]
pub struct LogStream {
    log: Arc<ServerLog>,
    source: Source,
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
    /// How long that line is by now.
    length: usize,
}

impl LogStream {
    /// Takes the next piece; returns how many lines ended in it.
    pub fn write(&mut self, piece: &[u8]) -> u64 {
        self.log
            .bytes
            .fetch_add(piece.len() as u64, Ordering::Relaxed);
        let Some(end) = memchr::memchr(b'\n', piece) else {
            self.begin(piece);
            return 0;
        };
        let (first, rest) = piece.split_at(end + 1);
        let whole = memchr::memrchr(b'\n', rest).map_or(0, |end| end + 1);
        let (others, next) = rest.split_at(whole);
        let lines = if self.length == 0 {
            self.log.append(self.source, first, others)
        } else {
            self.begin(first);
            let gathered = std::mem::take(&mut self.line);
            self.log.append(self.source, &gathered, others)
        };
        self.length = 0;
        self.begin(next);
        lines
    }

    fn begin(&mut self, piece: &[u8]) {
        // One byte more than is kept shows that the line is to be cut.
        let room = (MAX_LINE + 1).saturating_sub(self.line.len());
        self.line.extend_from_slice(&piece[..piece.len().min(room)]);
        let before = self.length;
        self.length += piece.len();
        if before <= MAX_READ_LINE && self.length > MAX_READ_LINE {
            let source = self.source.as_str();
            self.log
                .oversized(&format!("a line on {source} exceeds {MAX_READ_LINE} bytes"));
        }
    }

    /// The end of the pipe: a line without an end counts, for it may be the last word of a server
    /// that died.
    pub fn end(&mut self) {
        if self.length > 0 {
            self.write(b"\n");
        }
    }

    /// Reads a pipe to its end, so that the server never waits for us. `heard` is told how many bytes
    /// come.
    pub async fn drain(mut self, mut pipe: impl AsyncRead + Unpin, heard: impl Fn(usize)) {
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
                Ok(bytes) => rest(allowance.spend(bytes)).await,
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
