//! Lines that wait to be written to one file, bounded, in the form of the file.

use std::{borrow::Cow, collections::VecDeque};

use super::tail::cut;

/// Bytes that may wait for the writer: a second's worth of a server's output, and cheap enough for
/// every server at once.
pub const MAX_QUEUED: usize = 512 * 1024;

/// Lines at the end of a flood that are kept: they say why a process died.
pub const KEPT_LAST: usize = 20;

/// The longest of these lines, in bytes; a longer one is cut.
const MAX_LAST_LINE: usize = 2048;

#[derive(Debug, Default)]
pub struct Queue {
    text: String,
    lines: usize,
    dropped: u64,
    /// The last lines that found no room, in the form of the file.
    last: VecDeque<String>,
}

/// What was taken from a queue.
#[derive(Debug, Default)]
pub struct Taken {
    /// Whole lines.
    pub text: String,
    pub lines: usize,
    /// Lines that found no room after them.
    pub dropped: u64,
    /// The lines after those.
    pub last: VecDeque<String>,
}

impl Queue {
    pub fn lines(&self) -> usize {
        self.lines
    }

    /// Once a line found no room, none does before the writer has been here: what is dropped lies
    /// in one place.
    pub fn is_full(&self) -> bool {
        self.dropped > 0 || !self.last.is_empty()
    }

    /// Queues `TIME MARK TEXT`, if there is room. Else it is one of the last lines.
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

    /// Drops lines that come after all that there are.
    pub fn drop(&mut self, lines: u64) {
        self.dropped += lines + self.last.len() as u64;
        self.last.clear();
    }

    /// Empties the queue; `spare` is the room for what comes next.
    pub fn take(&mut self, spare: String) -> Taken {
        Taken {
            text: std::mem::replace(&mut self.text, spare),
            lines: std::mem::take(&mut self.lines),
            dropped: std::mem::take(&mut self.dropped),
            last: std::mem::take(&mut self.last),
        }
    }
}

/// What would break a line's frame: only words of our own, such as an error's text, have that.
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
            // This one would fit, but it would stand before those that are missing.
            queue.push("T", "stderr", &number.to_string());
        }
        let taken = queue.take(String::new());
        let missing = 2 * (KEPT_LAST + 2) - KEPT_LAST;
        assert_eq!((taken.lines, taken.dropped), (1, missing as u64));
        assert_eq!(taken.text, format!("T stderr {half}\n"));
        assert_eq!(taken.last.len(), KEPT_LAST);
        assert_eq!(
            taken.last[KEPT_LAST - 1],
            format!("T stderr {}\n", KEPT_LAST + 1)
        );
        assert!(taken.last[0].len() < 2 * MAX_LAST_LINE);
        queue.push("T", "mainstay", "two\nlines");
        assert_eq!(queue.take(String::new()).text, "T mainstay two lines\n");
    }

    /// Lines that are dropped at once come after those that were kept as the last.
    #[test]
    fn lines_that_were_the_last_are_dropped_with_those_behind_them() {
        let mut queue = Queue::default();
        queue.push("T", "stderr", &"x".repeat(MAX_QUEUED));
        queue.drop(5);
        queue.push("T", "stderr", "end");
        let taken = queue.take(String::new());
        assert_eq!((taken.lines, taken.dropped), (0, 6));
        assert_eq!(taken.last, ["T stderr end\n"]);
    }
}
