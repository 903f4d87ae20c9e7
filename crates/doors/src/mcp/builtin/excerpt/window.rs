//! The part of a long text that is shown, taken while the text is written. The rest is counted, and
//! never kept.

use std::io;

use super::{Unreadable, budget::Budget};

/// Bytes between two looks at the budget.
const STEP: usize = 1 << 16;

pub struct Window<'b> {
    /// Characters in front of the window, and in it.
    offset: usize,
    length: usize,
    shown: Vec<u8>,
    /// Characters so far.
    total: usize,
    budget: &'b Budget,
    /// Bytes since the last look at the budget.
    unchecked: usize,
    /// Why the writing ended.
    ended: Option<Unreadable>,
}

impl<'b> Window<'b> {
    pub fn new(offset: usize, length: usize, budget: &'b Budget) -> Self {
        Self {
            offset,
            length,
            shown: Vec::new(),
            total: 0,
            budget,
            unchecked: 0,
            ended: None,
        }
    }

    pub fn push(&mut self, text: &str) -> Result<(), Unreadable> {
        for piece in text.as_bytes().chunks(STEP) {
            self.take(piece)?;
        }
        Ok(())
    }

    /// Takes what `write` writes.
    pub fn written(
        &mut self,
        write: impl FnOnce(&mut Self) -> serde_json::Result<()>,
    ) -> Result<(), Unreadable> {
        write(self).map_err(|error| self.ended.take().unwrap_or(Unreadable::NotJson(error)))
    }

    /// What is shown, and how many characters there are.
    pub fn finish(self) -> (String, usize) {
        let shown = String::from_utf8_lossy(&self.shown).into_owned();
        (shown, self.total)
    }

    fn take(&mut self, piece: &[u8]) -> Result<(), Unreadable> {
        self.unchecked += piece.len();
        if self.unchecked >= STEP {
            self.unchecked = 0;
            self.budget.check()?;
        }
        let starts = |piece: &[u8]| piece.iter().filter(|byte| is_start(**byte)).count();
        let last = self.offset.saturating_add(self.length);
        let count = starts(piece);
        // A piece may begin within a character.
        if self.total > last || self.total + count <= self.offset {
            self.total += count;
            return Ok(());
        }
        for byte in piece {
            self.total += usize::from(is_start(*byte));
            if self.total > self.offset && self.total <= last {
                self.shown.push(*byte);
            }
        }
        Ok(())
    }
}

/// Whether a character begins with this byte of a text.
fn is_start(byte: u8) -> bool {
    byte & 0b1100_0000 != 0b1000_0000
}

impl io::Write for Window<'_> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let piece = &piece[..piece.len().min(STEP)];
        match self.take(piece) {
            Ok(()) => Ok(piece.len()),
            Err(why) => {
                self.ended = Some(why);
                Err(io::Error::other("the reading ended"))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::{super::budget::Reader, *};

    #[test]
    fn a_window_shows_what_a_slice_of_characters_shows() {
        let text = "aé日𝄞\nb".repeat(7);
        let reader = Reader::new();
        let budget = reader.budget();
        for offset in [0, 1, 2, 3, 5, 41, 42, 43] {
            for length in [1, 2, 6, 100] {
                for size in [1, 2, 3, 7, 1000] {
                    let mut window = Window::new(offset, length, &budget);
                    for piece in text.as_bytes().chunks(size) {
                        window.write_all(piece).expect("it takes all");
                    }
                    let expected: String = text.chars().skip(offset).take(length).collect();
                    let (shown, total) = window.finish();
                    assert_eq!((shown, total), (expected, 42), "{offset} {length} {size}");
                }
            }
        }
    }
}
