//! Collects the selected characters of a text that is written in pieces. Other characters are only
//! counted.

use std::io;

use super::{ExcerptError, budget::Budget};

/// Bytes between two checks of the budget.
const STEP: usize = 1 << 16;

pub struct TextWindow<'b> {
    /// First selected character, and number of selected characters.
    offset: usize,
    length: usize,
    selected: Vec<u8>,
    /// Number of characters so far.
    total: usize,
    budget: &'b Budget,
    /// Bytes since the last check of the budget.
    unchecked: usize,
    /// The error that stopped the writer.
    ended: Option<ExcerptError>,
}

impl<'b> TextWindow<'b> {
    pub fn new(offset: usize, length: usize, budget: &'b Budget) -> Self {
        Self {
            offset,
            length,
            selected: Vec::new(),
            total: 0,
            budget,
            unchecked: 0,
            ended: None,
        }
    }

    pub fn push(&mut self, text: &str) -> Result<(), ExcerptError> {
        for piece in text.as_bytes().chunks(STEP) {
            self.take(piece)?;
        }
        Ok(())
    }

    /// Collects what `write` writes to this window.
    pub fn written(
        &mut self,
        write: impl FnOnce(&mut Self) -> serde_json::Result<()>,
    ) -> Result<(), ExcerptError> {
        write(self).map_err(|error| self.ended.take().unwrap_or(ExcerptError::NotJson(error)))
    }

    /// The selected text, and the total number of characters.
    pub fn finish(self) -> (String, usize) {
        let selected_text = String::from_utf8_lossy(&self.selected).into_owned();
        (selected_text, self.total)
    }

    fn take(&mut self, piece: &[u8]) -> Result<(), ExcerptError> {
        self.unchecked += piece.len();
        if self.unchecked >= STEP {
            self.unchecked = 0;
            self.budget.check()?;
        }
        let starts = |piece: &[u8]| piece.iter().filter(|byte| is_start(**byte)).count();
        let end = self.offset.saturating_add(self.length);
        let count = starts(piece);
        // A piece may start inside of a character.
        if self.total > end || self.total + count <= self.offset {
            self.total += count;
            return Ok(());
        }
        for byte in piece {
            self.total += usize::from(is_start(*byte));
            if self.total > self.offset && self.total <= end {
                self.selected.push(*byte);
            }
        }
        Ok(())
    }
}

/// True if this byte starts a character (UTF-8).
fn is_start(byte: u8) -> bool {
    byte & 0b1100_0000 != 0b1000_0000
}

impl io::Write for TextWindow<'_> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let piece = &piece[..piece.len().min(STEP)];
        match self.take(piece) {
            Ok(()) => Ok(piece.len()),
            Err(error) => {
                self.ended = Some(error);
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
                    let mut window = TextWindow::new(offset, length, &budget);
                    for piece in text.as_bytes().chunks(size) {
                        window.write_all(piece).expect("it takes all");
                    }
                    let expected: String = text.chars().skip(offset).take(length).collect();
                    let (selected_text, total) = window.finish();
                    assert_eq!(
                        (selected_text, total),
                        (expected, 42),
                        "{offset} {length} {size}"
                    );
                }
            }
        }
    }
}
