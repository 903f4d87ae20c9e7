//! One log file: its queue, and the readers that follow it.

use std::{
    borrow::Cow,
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use arc_swap::ArcSwapOption;
use mainstay_core::{
    ids::ServerName,
    redact::{Secrets, shown},
};
use mainstay_platform::utc;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::broadcast;

use super::{
    Line, Source,
    queue::Queue,
    read,
    rotating::{MAX_FILE, Rotating},
    wake::Wake,
};

/// A queue with so many lines is written at once.
const FULL_BATCH: usize = 100;

/// One with fewer is written after this time. One that overflowed is written no more often: what
/// a flood says is not worth the disk's and other servers' time.
const FLUSH_AFTER: Duration = Duration::from_secs(1);

/// Room that a file keeps for the next lines. It has two buffers of this size.
const KEPT_ROOM: usize = 1024;

/// After an error, the file is left alone for this long.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Batches that a slow follower may fall behind; each is about as large as a queue at most.
const MAX_UNREAD: usize = 16;

#[derive(Debug)]
pub struct LogFile {
    queue: Mutex<Queue>,
    /// Held during writes and reads of the files: by the writer's thread, and threads that may block.
    disk: Mutex<Disk>,
    wake: Arc<Wake>,
    pub counts: Counts,
    /// The server whose log it is; none for a file of several servers.
    server: Option<ServerName>,
    /// Secrets of the server's configuration; none in a file of several servers.
    pub secrets: ArcSwapOption<Secrets>,
    redaction: Redaction,
}

/// Where secrets are taken out of a file's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redaction {
    /// Here, in whole batches.
    AtWriting,
    /// Before a line is pushed. A second time would not know the server's own findings.
    Done,
}

/// What has happened to a file.
#[derive(Debug, Default)]
pub struct Counts {
    pub dropped: AtomicU64,
    pub rotations: AtomicU64,
    pub write_errors: AtomicU64,
}

#[derive(Debug)]
struct Disk {
    file: Rotating,
    /// Room for the next queue.
    spare: String,
    /// Not to be written before.
    not_before: Option<Instant>,
    /// Lines that were dropped, and of which the file does not say so yet.
    unsaid: u64,
    /// The last write failed, and that was said.
    failing: bool,
    /// Lines written since the start; also the id of the last one.
    written: u64,
    followers: broadcast::Sender<Batch>,
}

/// What was written at once.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The number of its last line.
    pub last: u64,
    text: Arc<str>,
}

impl Batch {
    /// The number of its first line.
    pub fn first(&self) -> u64 {
        self.last + 1 - self.text.lines().count() as u64
    }

    /// The lines with their numbers.
    pub fn lines(&self) -> impl Iterator<Item = (u64, Line)> {
        (self.first()..)
            .zip(self.text.lines())
            .filter_map(|(number, line)| Some((number, Line::parse(line)?)))
    }
}

/// The end of a log, and what comes after it.
#[derive(Debug)]
pub struct Followed {
    pub lines: Vec<Line>,
    /// Whether nothing is missing before these lines: nothing at all, or nothing since the line after which they
    /// were asked for.
    pub is_all: bool,
    /// The number of the last of these lines.
    pub last: u64,
    pub batches: broadcast::Receiver<Batch>,
}

impl LogFile {
    pub fn new(
        path: PathBuf,
        server: Option<ServerName>,
        wake: Arc<Wake>,
        redaction: Redaction,
    ) -> Self {
        Self {
            queue: Mutex::default(),
            disk: Mutex::new(Disk {
                file: Rotating::new(path, MAX_FILE),
                spare: String::new(),
                not_before: None,
                unsaid: 0,
                failing: false,
                written: 0,
                followers: broadcast::Sender::new(MAX_UNREAD),
            }),
            wake,
            counts: Counts::default(),
            server,
            secrets: ArcSwapOption::empty(),
            redaction,
        }
    }

    /// Appends lines; never waits for the disk.
    pub fn append<T>(&self, add: impl FnOnce(&mut Queue) -> T) -> T {
        // Held for a copy of bytes, never across an await.
        let mut queue = self.queue.lock();
        let before = queue.lines();
        let added = add(&mut queue);
        let after = queue.lines();
        drop(queue);
        if before < FULL_BATCH && after >= FULL_BATCH {
            self.wake.by(Instant::now());
        } else if before == 0 && after > 0 {
            self.wake.by(Instant::now() + FLUSH_AFTER);
        }
        added
    }

    /// One line.
    pub fn push(&self, mark: &str, text: &str) {
        let time = utc::rfc3339(SystemTime::now());
        self.append(|queue| queue.push(&time, mark, text));
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock()
    }

    /// Writes what waits, unless it is too early for that: then, when to come back.
    pub fn flush_if_due(&self) -> Option<Instant> {
        let mut disk = self.disk();
        let early = disk.not_before.filter(|at| *at > Instant::now());
        if early.is_none() {
            self.write(&mut disk);
        }
        early
    }

    pub fn flush(&self) {
        self.write(&mut self.disk());
    }

    fn write(&self, disk: &mut Disk) {
        let spare = std::mem::take(&mut disk.spare);
        let mut taken = {
            let mut queue = self.queue.lock();
            queue.take(spare)
        };
        disk.not_before = (taken.dropped > 0).then(|| Instant::now() + FLUSH_AFTER);
        disk.unsaid += taken.dropped;
        self.counts
            .dropped
            .fetch_add(taken.dropped, Ordering::Relaxed);
        let told = (taken.lines + taken.last.len()) as u64;
        let mut lines = told;
        if disk.unsaid > 0 {
            let (time, mark) = (utc::rfc3339(SystemTime::now()), Source::Mainstay.as_str());
            let said = format!("{time} {mark} … {} lines dropped\n", disk.unsaid);
            taken.text.push_str(&said);
            lines += 1;
        }
        taken.text.extend(taken.last);
        let batch = match self.redaction {
            Redaction::AtWriting => shown(&taken.text, self.secrets.load().as_deref()),
            Redaction::Done => Cow::Borrowed(&*taken.text),
        };
        if lines > 0 {
            match disk.file.write(batch.as_bytes()) {
                Ok(rotated) => {
                    self.counts
                        .rotations
                        .fetch_add(u64::from(rotated), Ordering::Relaxed);
                    disk.unsaid = 0;
                    disk.failing = false;
                    disk.written += lines;
                    disk.tell(&batch);
                }
                Err(error) => self.failed(disk, told, &error),
            }
        }
        // A burst's room is given back: it may be the last one for long.
        let mut spare = taken.text;
        spare.clear();
        spare.shrink_to(KEPT_ROOM);
        disk.spare = spare;
    }

    /// Reported once, never fatal.
    fn failed(&self, disk: &mut Disk, lines: u64, error: &io::Error) {
        let path = disk.file.path().display();
        if !disk.failing {
            let server = self.server.as_ref().map(tracing::field::display);
            tracing::warn!(server, %error, "{path} cannot be written; its lines are lost until it can");
        }
        self.counts.write_errors.fetch_add(1, Ordering::Relaxed);
        self.counts.dropped.fetch_add(lines, Ordering::Relaxed);
        disk.failing = true;
        disk.unsaid += lines;
        disk.not_before = Some(Instant::now() + RETRY_AFTER);
    }

    /// The last lines, and all that come after them. Blocks.
    pub fn follow(&self, tail: Tail) -> io::Result<Followed> {
        let mut disk = self.disk();
        self.write(&mut disk);
        let wanted = match tail {
            Tail::Last(lines) => lines,
            Tail::After(number) => {
                usize::try_from(disk.written.saturating_sub(number)).unwrap_or(usize::MAX)
            }
        };
        let end = read::tail(disk.file.path(), wanted)?;
        Ok(Followed {
            is_all: match tail {
                Tail::Last(_) => end.is_all,
                Tail::After(_) => end.lines.len() >= wanted,
            },
            lines: end.lines,
            last: disk.written,
            batches: disk.followers.subscribe(),
        })
    }
}

/// Where to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// With this many lines from the end.
    Last(usize),
    /// After the line of this number.
    After(u64),
}

impl Disk {
    fn tell(&self, batch: &str) {
        if self.followers.receiver_count() > 0 {
            let batch = Batch {
                last: self.written,
                text: batch.into(),
            };
            // An error means that the last one has just gone.
            self.followers.send(batch).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_of_a_burst_is_given_back() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = LogFile::new(
            folder.path().join("x.log"),
            None,
            Arc::default(),
            Redaction::AtWriting,
        );
        for _ in 0..2 {
            for _ in 0..1000 {
                file.push("stderr", &"x".repeat(100));
            }
            file.flush();
        }
        let waiting = {
            let mut queue = file.queue.lock();
            queue.take(String::new()).text
        };
        assert!(waiting.capacity() <= KEPT_ROOM, "{}", waiting.capacity());
        assert!(file.disk().spare.capacity() <= KEPT_ROOM);
    }
}
