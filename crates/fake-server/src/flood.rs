//! Output that no request asked for, and lines on stderr.
#![expect(clippy::print_stderr, reason = "the fake complains as told")]

use std::io::{self, Write};
use std::time::{Duration, Instant};

/// A line on stderr.
pub(crate) fn complain(text: &str) {
    eprintln!("{text}");
}

/// Output that no request asked for.
#[derive(Debug)]
pub(crate) struct Flood {
    pub to: Pipe,
    /// How its first line begins.
    pub begin: &'static str,
    pub bytes: usize,
    /// What is repeated.
    pub text: FloodText,
    /// Goes on for as long, however many bytes that is.
    pub time: Option<Duration>,
}

#[derive(Debug)]
pub(crate) enum FloodText {
    /// Lines of 80 that mean nothing.
    Junk,
    /// One line: it has no end within the flood.
    Endless,
    /// This line.
    Line(String),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Pipe {
    Stdout,
    Stderr,
}

/// Floods beside everything else. If it is not read, it must not stop the answers.
pub(crate) async fn pour(it: Flood) {
    let poured = tokio::task::spawn_blocking(move || {
        let mut to: Box<dyn Write> = match it.to {
            Pipe::Stdout => Box::new(io::stdout()),
            Pipe::Stderr => Box::new(io::stderr()),
        };
        to.write_all(it.begin.as_bytes())?;
        let until = it.time.map(|time| Instant::now() + time);
        flood(&mut to, it.bytes, &it.text, until)?;
        // Whatever comes next is a message of its own.
        if matches!(it.text, FloodText::Endless) {
            to.write_all(b"\n")?;
        }
        io::Result::Ok(())
    });
    // A pipe whose reader is gone takes no flood.
    let _ = poured.await.expect("a flood does not panic");
}

/// Writes the text over and over: so many bytes, or until then.
pub(crate) fn flood(
    mut to: impl Write,
    bytes: usize,
    text: &FloodText,
    until: Option<Instant>,
) -> io::Result<()> {
    let mut line = vec![b'x'; 80];
    match text {
        FloodText::Junk => line[79] = b'\n',
        FloodText::Endless => {}
        FloodText::Line(text) => line = format!("{text}\n").into_bytes(),
    }
    // As fast as the reader: a write for each line would be slower than any reader.
    let lines = line.repeat((64_000 / line.len()).max(1));
    let mut left = bytes;
    while left > 0 || until.is_some_and(|until| Instant::now() < until) {
        let size = if until.is_some() {
            lines.len()
        } else {
            left.min(lines.len())
        };
        left = left.saturating_sub(size);
        // The last line ends too. Lines that mean something are whole.
        let size = match text {
            FloodText::Line(_) => size.div_ceil(line.len()) * line.len(),
            FloodText::Junk | FloodText::Endless => size,
        };
        to.write_all(&lines[lines.len() - size..])?;
    }
    to.flush()
}
