//! The queue of lines for stderr in a program that serves others: it is bounded, and a thread writes the
//! lines. A stopped terminal, a pipe without a reader and a full disk block nothing else. Lines that could
//! not be written are counted, and the count is written in their place.

use std::{
    io::{self, Write},
    mem, thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

/// Bytes that wait to be written at most. Later lines are dropped.
const MOST_WAITING: usize = 1024 * 1024;

/// Pause while a shared pipe is non-blocking and full.
const FULL_PIPE_PAUSE: Duration = Duration::from_millis(50);

/// Time between two attempts to report lines that could not be written.
const RETRY: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(crate) struct LineQueue {
    waiting: Mutex<Waiting>,
    has_lines: Condvar,
    written: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// Complete lines.
    lines: String,
    /// Number of lines that were dropped after these.
    dropped: u64,
    is_writing: bool,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.dropped == 0
    }
}

impl LineQueue {
    pub fn push(&self, line: &str) {
        let mut waiting = self.waiting.lock();
        // No line follows a dropped one, so that the count stands in the right place.
        if waiting.dropped > 0 || waiting.lines.len() + line.len() >= MOST_WAITING {
            waiting.dropped += 1;
        } else {
            waiting.lines.push_str(line);
            waiting.lines.push('\n');
        }
        self.has_lines.notify_one();
    }

    /// Waits until all queued lines are written, or cannot be.
    pub fn flush(&self, limit: Duration) {
        let end = Instant::now() + limit;
        let mut waiting = self.waiting.lock();
        while waiting.is_writing || !waiting.is_empty() {
            if self.written.wait_until(&mut waiting, end).timed_out() {
                return;
            }
        }
    }

    /// Writes lines forever.
    pub fn write_to(&self, to: impl Write) {
        let mut lines = LineWriter {
            to,
            unwritten: 0,
            is_torn: false,
        };
        loop {
            let (text, dropped) = self.next(lines.unwritten > 0);
            text.split_inclusive('\n')
                .for_each(|line| lines.write(line));
            lines.unwritten += dropped;
            lines.tell_unwritten().ok();
            self.waiting.lock().is_writing = false;
            self.written.notify_all();
        }
    }

    /// Takes the waiting lines, and the number of lines that were dropped after them. Returns nothing when it
    /// is time to retry the report of missing lines.
    fn next(&self, tries_again: bool) -> (String, u64) {
        let mut waiting = self.waiting.lock();
        while waiting.is_empty() {
            if !tries_again {
                self.has_lines.wait(&mut waiting);
            } else if self.has_lines.wait_for(&mut waiting, RETRY).timed_out() {
                break;
            }
        }
        waiting.is_writing = true;
        (
            mem::take(&mut waiting.lines),
            mem::take(&mut waiting.dropped),
        )
    }
}

struct LineWriter<W> {
    to: W,
    /// Number of lines that are missing after the last written one.
    unwritten: u64,
    /// True if the last line may be incomplete.
    is_torn: bool,
}

impl<W: Write> LineWriter<W> {
    fn write(&mut self, line: &str) {
        let written = self.tell_unwritten().and_then(|()| self.write_all(line));
        if written.is_err() {
            self.unwritten += 1;
        }
    }

    fn tell_unwritten(&mut self) -> io::Result<()> {
        if self.unwritten == 0 {
            return Ok(());
        }
        let begin = if self.is_torn { "\n" } else { "" };
        let lines = if self.unwritten == 1 { "line" } else { "lines" };
        self.write_all(&format!(
            "{begin}warning: {} {lines} could not be written here\n",
            self.unwritten
        ))?;
        (self.unwritten, self.is_torn) = (0, false);
        Ok(())
    }

    fn write_all(&mut self, text: &str) -> io::Result<()> {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            match self.to.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(length) => {
                    rest = &rest[length..];
                    self.is_torn = !rest.is_empty();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    thread::sleep(FULL_PIPE_PAUSE)
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    /// Takes as many bytes as allowed, and then fails or blocks.
    #[derive(Default)]
    struct Disk {
        room: Mutex<usize>,
        text: Mutex<String>,
    }

    impl Write for &Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut room = self.room.lock();
            let length = bytes.len().min(*room);
            if length == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            *room -= length;
            self.text
                .lock()
                .push_str(std::str::from_utf8(&bytes[..length]).expect("text"));
            Ok(length)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_did_not_fit_are_counted_where_they_are_missing() {
        let disk = Disk {
            room: Mutex::new("one\ntw".len()),
            ..Disk::default()
        };
        let mut lines = LineWriter {
            to: &disk,
            unwritten: 0,
            is_torn: false,
        };
        for line in ["one\n", "two\n", "three\n"] {
            lines.write(line);
        }
        assert_eq!(lines.unwritten, 2);
        *disk.room.lock() = usize::MAX;
        lines.write("four\n");
        lines.write("five\n");
        assert_eq!(
            *disk.text.lock(),
            "one\ntw\nwarning: 2 lines could not be written here\nfour\nfive\n"
        );
    }

    #[test]
    fn nobody_waits_for_a_writer_that_is_held_up() {
        struct Stopped(mpsc::Receiver<()>, mpsc::Sender<String>);
        impl Write for Stopped {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.recv().ok();
                self.1
                    .send(String::from_utf8_lossy(bytes).into_owned())
                    .ok();
                Ok(bytes.len())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let queue = Arc::new(LineQueue::default());
        let ((release, released), (sender, written_lines)) = (mpsc::channel(), mpsc::channel());
        let writer = Arc::clone(&queue);
        thread::spawn(move || writer.write_to(Stopped(released, sender)));
        queue.push("first");
        while !queue.waiting.lock().is_writing {
            thread::yield_now();
        }
        let line = "x".repeat(64 * 1024);
        let fitting = MOST_WAITING / (line.len() + 1);
        (0..fitting + 3).for_each(|_| queue.push(&line));
        queue.push("short");
        assert!(queue.waiting.lock().lines.len() <= MOST_WAITING);
        queue.flush(Duration::from_millis(1));
        drop(release);
        queue.flush(LIMIT);
        let written_lines: Vec<String> = written_lines.try_iter().collect();
        assert_eq!(written_lines.len(), 1 + fitting + 1);
        assert_eq!(written_lines.first().map(String::as_str), Some("first\n"));
        assert_eq!(
            written_lines.last().map(String::as_str),
            Some("warning: 4 lines could not be written here\n")
        );
    }
}
