//! Unsolicited output, and lines on stderr.
#![expect(clippy::print_stderr, reason = "the fake complains as told")]

use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Writes a line to stderr.
pub(crate) fn complain(text: &str) {
    eprintln!("{text}");
}

/// Unsolicited output.
#[derive(Debug)]
pub(crate) struct Flood {
    pub to: Pipe,
    /// The beginning of the first line.
    pub begin: &'static str,
    pub bytes: usize,
    /// The text that is repeated.
    pub text: FloodText,
    /// The duration of the flood, for any number of bytes.
    pub time: Option<Duration>,
}

#[derive(Debug)]
pub(crate) enum FloodText {
    /// Lines of 80 characters.
    Junk,
    /// One line without an end within the flood.
    Endless,
    /// Repetitions of this line.
    Line(String),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Pipe {
    Stdout,
    Stderr,
}

/// Writes the flood on a separate thread, so that unread output does not delay answers.
pub(crate) async fn pour(order: Flood) {
    let flood_task = tokio::task::spawn_blocking(move || {
        let mut to: Box<dyn Write> = match order.to {
            Pipe::Stdout => Box::new(io::stdout()),
            Pipe::Stderr => Box::new(io::stderr()),
        };
        to.write_all(order.begin.as_bytes())?;
        let deadline = order.time.map(|time| Instant::now() + time);
        flood(&mut to, order.bytes, &order.text, deadline)?;
        // End the line, so that the next message has its own.
        if matches!(order.text, FloodText::Endless) {
            to.write_all(b"\n")?;
        }
        io::Result::Ok(())
    });
    // A write error means that the reader has gone.
    let _ = flood_task.await.expect("a flood does not panic");
}

/// Writes the text repeatedly, up to this number of bytes or until this time.
pub(crate) fn flood(
    mut output: impl Write,
    bytes: usize,
    text: &FloodText,
    deadline: Option<Instant>,
) -> io::Result<()> {
    let mut line = vec![b'x'; 80];
    match text {
        FloodText::Junk => line[79] = b'\n',
        FloodText::Endless => {}
        FloodText::Line(text) => line = format!("{text}\n").into_bytes(),
    }
    // Combine lines, because a write for each line is slow.
    let lines = line.repeat((64_000 / line.len()).max(1));
    let mut remaining_bytes = bytes;
    while remaining_bytes > 0 || deadline.is_some_and(|deadline| Instant::now() < deadline) {
        let size = if deadline.is_some() {
            lines.len()
        } else {
            remaining_bytes.min(lines.len())
        };
        remaining_bytes = remaining_bytes.saturating_sub(size);
        // End with a complete copy of a repeated line.
        let size = match text {
            FloodText::Line(_) => size.div_ceil(line.len()) * line.len(),
            FloodText::Junk | FloodText::Endless => size,
        };
        output.write_all(&lines[lines.len() - size..])?;
    }
    output.flush()
}
