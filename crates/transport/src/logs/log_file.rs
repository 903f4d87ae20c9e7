//! One log file: its queue, and the followers that read it.

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
    redact::{Secrets, redact_with},
};
use mainstay_platform::utc;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::broadcast;

use super::{
    Line, LineSource,
    queue::Queue,
    read,
    rotating::{MAX_FILE, Rotating},
    wake::Wake,
};

/// The number of queued lines at which the queue is written at once.
const FULL_BATCH: usize = 100;

/// The time after which a shorter queue is written. A queue that has overflowed is not written more often: a
/// flood is not worth the time of the disk and of other servers.
const FLUSH_AFTER: Duration = Duration::from_secs(1);

/// The capacity that a file keeps for the next lines. A file has two buffers of this size.
const KEPT_ROOM: usize = 1024;

/// The time after a write error in which the file is not written.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The number of batches that a slow follower may fall behind. A batch is at most about as large as a full
/// queue.
const MAX_UNREAD: usize = 16;

#[derive(Debug)]
pub struct LogFile {
    queue: Mutex<Queue>,
    /// Locked while the files are written or read: by the writer's thread, and by blocking threads.
    disk: Mutex<Disk>,
    wake: Arc<Wake>,
    pub counts: Counts,
    /// The server of this log. `None` for a file of several servers.
    server: Option<ServerName>,
    /// Secrets of the server's configuration. Empty for a file of several servers.
    pub secrets: ArcSwapOption<Secrets>,
    redaction: Redaction,
}

/// The step that removes secrets from the lines of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redaction {
    /// In [`LogFile::write`], in whole batches.
    AtWriting,
    /// Before a line is pushed. [`LogFile::write`] could not do it: it does not know the secrets of each
    /// server.
    Done,
}

/// Counts of one file.
#[derive(Debug, Default)]
pub struct Counts {
    pub dropped: AtomicU64,
    pub rotations: AtomicU64,
    pub write_errors: AtomicU64,
}

#[derive(Debug)]
struct Disk {
    file: Rotating,
    /// An empty buffer for the next queue.
    spare: String,
    /// The earliest time of the next write.
    not_before: Option<Instant>,
    /// Number of dropped lines that the file does not report yet.
    unreported: u64,
    /// True if the last write has failed. The failure has been reported.
    failing: bool,
    /// Number of lines written since the start. It is also the number of the last line.
    written: u64,
    followers: broadcast::Sender<Batch>,
}

/// Lines that were written at once.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The number of the last line.
    pub last: u64,
    text: Arc<str>,
}

impl Batch {
    /// The number of the first line.
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

/// The last lines of a log, and a subscription to all later ones.
#[derive(Debug)]
pub struct Followed {
    pub lines: Vec<Line>,
    /// True if no line is missing before `lines`: the log has no older lines, or it has none after the
    /// requested line.
    pub is_all: bool,
    /// The number of the last line in `lines`.
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
                unreported: 0,
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

    /// Appends lines. Never waits for the disk.
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

    /// Appends one line.
    pub fn push(&self, mark: &str, text: &str) {
        let time = utc::rfc3339(SystemTime::now());
        self.append(|queue| queue.push(&time, mark, text));
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock()
    }

    /// Writes the queue. If it is too early, returns the earliest time of the write instead.
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
        let mut queued = {
            let mut queue = self.queue.lock();
            queue.take(spare)
        };
        disk.not_before = (queued.dropped > 0).then(|| Instant::now() + FLUSH_AFTER);
        disk.unreported += queued.dropped;
        self.counts
            .dropped
            .fetch_add(queued.dropped, Ordering::Relaxed);
        let queued_lines = (queued.lines + queued.last.len()) as u64;
        let mut lines = queued_lines;
        if disk.unreported > 0 {
            let (time, mark) = (
                utc::rfc3339(SystemTime::now()),
                LineSource::Mainstay.as_str(),
            );
            let notice = format!("{time} {mark} … {} lines dropped\n", disk.unreported);
            queued.text.push_str(&notice);
            lines += 1;
        }
        queued.text.extend(queued.last);
        let batch = match self.redaction {
            Redaction::AtWriting => redact_with(&queued.text, self.secrets.load().as_deref()),
            Redaction::Done => Cow::Borrowed(&*queued.text),
        };
        if lines > 0 {
            match disk.file.write(batch.as_bytes()) {
                Ok(rotated) => {
                    self.counts
                        .rotations
                        .fetch_add(u64::from(rotated), Ordering::Relaxed);
                    disk.unreported = 0;
                    disk.failing = false;
                    disk.written += lines;
                    disk.send_to_followers(&batch);
                }
                Err(error) => self.failed(disk, queued_lines, &error),
            }
        }
        // Shrink the buffer after a burst, because the next burst may be far away.
        let mut spare = queued.text;
        spare.clear();
        spare.shrink_to(KEPT_ROOM);
        disk.spare = spare;
    }

    /// Handles a failed write. The failure is reported once and is never fatal.
    fn failed(&self, disk: &mut Disk, lines: u64, error: &io::Error) {
        let path = disk.file.path().display();
        if !disk.failing {
            let server = self.server.as_ref().map(tracing::field::display);
            tracing::warn!(server, %error, "{path} cannot be written; its lines are lost until it can");
        }
        self.counts.write_errors.fetch_add(1, Ordering::Relaxed);
        self.counts.dropped.fetch_add(lines, Ordering::Relaxed);
        disk.failing = true;
        disk.unreported += lines;
        disk.not_before = Some(Instant::now() + RETRY_AFTER);
    }

    /// Returns the last lines, and a subscription to all later ones. Blocks.
    pub fn follow(&self, tail: FollowFrom) -> io::Result<Followed> {
        let mut disk = self.disk();
        self.write(&mut disk);
        let count = match tail {
            FollowFrom::Last(lines) => lines,
            FollowFrom::After(number) => {
                usize::try_from(disk.written.saturating_sub(number)).unwrap_or(usize::MAX)
            }
        };
        let end = read::tail(disk.file.path(), count)?;
        Ok(Followed {
            is_all: match tail {
                FollowFrom::Last(_) => end.is_all,
                FollowFrom::After(_) => end.lines.len() >= count,
            },
            lines: end.lines,
            last: disk.written,
            batches: disk.followers.subscribe(),
        })
    }
}

/// The first line for a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowFrom {
    /// This number of lines before the end.
    Last(usize),
    /// The line after the line with this number.
    After(u64),
}

impl Disk {
    fn send_to_followers(&self, batch: &str) {
        if self.followers.receiver_count() > 0 {
            let batch = Batch {
                last: self.written,
                text: batch.into(),
            };
            // An error means that the last follower has just ended.
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
