//! Lines that wait to be written to one file, bounded, in the form of the file.

use std::borrow::Cow;

/// Bytes that may wait for the writer: a second's worth of a server's output, and cheap enough for
/// every server at once.
pub const MAX_QUEUED: usize = 512 * 1024;

#[derive(Debug, Default)]
pub struct Queue {
    text: String,
    lines: usize,
    dropped: u64,
}

/// What was taken from a queue.
#[derive(Debug, Default)]
pub struct Taken {
    /// Whole lines.
    pub text: String,
    pub lines: usize,
    /// Lines that found no room after them.
    pub dropped: u64,
}

impl Queue {
    pub fn lines(&self) -> usize {
        self.lines
    }

    /// Once a line found no room, none does before the writer has been here: what is dropped lies
    /// in one place.
    pub fn is_full(&self) -> bool {
        self.dropped > 0
    }

    /// Queues `TIME MARK TEXT`, if there is room.
    pub fn push(&mut self, time: &str, mark: &str, text: &str) {
        let size = time.len() + mark.len() + text.len() + 3;
        if self.is_full() || self.text.len() + size > MAX_QUEUED {
            self.drop(1);
            return;
        }
        for part in [time, " ", mark, " ", &one_line(text), "\n"] {
            self.text.push_str(part);
        }
        self.lines += 1;
    }

    pub fn drop(&mut self, lines: u64) {
        self.dropped += lines;
    }

    /// Empties the queue; `spare` is the room for what comes next.
    pub fn take(&mut self, spare: String) -> Taken {
        Taken {
            text: std::mem::replace(&mut self.text, spare),
            lines: std::mem::take(&mut self.lines),
            dropped: std::mem::take(&mut self.dropped),
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
    fn what_finds_no_room_is_counted_in_one_place() {
        let mut queue = Queue::default();
        let half = "x".repeat(MAX_QUEUED / 2);
        queue.push("T", "stderr", &half);
        queue.push("T", "stderr", &half);
        // This one would fit, but it would stand before those that are missing.
        queue.push("T", "stderr", "small");
        let taken = queue.take(String::new());
        assert_eq!((taken.lines, taken.dropped), (1, 2));
        assert_eq!(taken.text, format!("T stderr {half}\n"));
        queue.push("T", "mainstay", "two\nlines");
        assert_eq!(queue.take(String::new()).text, "T mainstay two lines\n");
    }
}
