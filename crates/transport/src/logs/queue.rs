//! A bounded queue of lines for one file, in the format of the file.

use std::{borrow::Cow, collections::VecDeque};

use super::tail::cut;

/// The maximum number of bytes in a queue. A server can write this much in one second, and every server can
/// have a full queue at the same time.
pub const MAX_QUEUED: usize = 512 * 1024;

/// The number of lines at the end of a flood that are stored. They explain why a process died.
pub const KEPT_LAST: usize = 20;

/// The maximum length of these lines, in bytes. Longer lines are cut.
const MAX_LAST_LINE: usize = 2048;

#[derive(Debug, Default)]
pub struct Queue {
    text: String,
    lines: usize,
    dropped: u64,
    /// The last lines that arrived while the queue was full, in the format of the file.
    last: VecDeque<String>,
}

/// The contents of a queue.
#[derive(Debug, Default)]
pub struct QueuedLines {
    /// Whole lines.
    pub text: String,
    pub lines: usize,
    /// Number of lines after `text` that were dropped because the queue was full.
    pub dropped: u64,
    /// The lines after the dropped ones.
    pub last: VecDeque<String>,
}

impl Queue {
    pub fn lines(&self) -> usize {
        self.lines
    }

    /// True from the first line that does not fit until the writer empties the queue. All dropped lines are
    /// therefore adjacent.
    pub fn is_full(&self) -> bool {
        self.dropped > 0 || !self.last.is_empty()
    }

    /// Queues `TIME MARK TEXT` if there is room. Otherwise stores the line as one of the last lines.
    pub fn push(&mut self, time: &str, mark: &str, text: &str) {
        let size = time.len() + mark.len() + text.len() + 3;
        if self.is_full() || self.text.len() + size > MAX_QUEUED {
            if self.last.len() == KEPT_LAST {
                self.last.pop_front();
                self.dropped += 1;
            }
            let text = cut(text.as_bytes(), MAX_LAST_LINE);
            self.last
                .push_back(format!("{time} {mark} {}\n", one_line(&text)));
            return;
        }
        for part in [time, " ", mark, " ", &one_line(text), "\n"] {
            self.text.push_str(part);
        }
        self.lines += 1;
    }

    /// Drops `lines` more lines. They come after all stored lines, so the stored last lines are dropped, too.
    pub fn drop(&mut self, lines: u64) {
        self.dropped += lines + self.last.len() as u64;
        self.last.clear();
    }

    /// Empties the queue. `spare` is the buffer for the next lines.
    pub fn take(&mut self, spare: String) -> QueuedLines {
        QueuedLines {
            text: std::mem::replace(&mut self.text, spare),
            lines: std::mem::take(&mut self.lines),
            dropped: std::mem::take(&mut self.dropped),
            last: std::mem::take(&mut self.last),
        }
    }
}

/// Replaces line breaks with blanks. Only Mainstay's own texts, such as error texts, contain line breaks.
fn one_line(text: &str) -> Cow<'_, str> {
    if text.contains('\n') {
        text.replace('\n', " ").into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted_in_one_place_and_the_end_is_kept() {
        let mut queue = Queue::default();
        let half = "x".repeat(MAX_QUEUED / 2);
        queue.push("T", "stderr", &half);
        for number in 0..KEPT_LAST + 2 {
            queue.push("T", "stderr", &half);
            // The number would fit, but the line would then stand before the dropped lines.
            queue.push("T", "stderr", &number.to_string());
        }
        let queued = queue.take(String::new());
        let missing = 2 * (KEPT_LAST + 2) - KEPT_LAST;
        assert_eq!((queued.lines, queued.dropped), (1, missing as u64));
        assert_eq!(queued.text, format!("T stderr {half}\n"));
        assert_eq!(queued.last.len(), KEPT_LAST);
        assert_eq!(
            queued.last[KEPT_LAST - 1],
            format!("T stderr {}\n", KEPT_LAST + 1)
        );
        assert!(queued.last[0].len() < 2 * MAX_LAST_LINE);
        queue.push("T", "mainstay", "two\nlines");
        assert_eq!(queue.take(String::new()).text, "T mainstay two lines\n");
    }

    /// `drop` also drops the stored last lines, because its lines come after them.
    #[test]
    fn lines_that_were_the_last_are_dropped_with_those_behind_them() {
        let mut queue = Queue::default();
        queue.push("T", "stderr", &"x".repeat(MAX_QUEUED));
        queue.drop(5);
        queue.push("T", "stderr", "end");
        let queued = queue.take(String::new());
        assert_eq!((queued.lines, queued.dropped), (0, 6));
        assert_eq!(queued.last, ["T stderr end\n"]);
    }
}
