//! The last lines of a server's stderr, and the first error before them. They are shown when the server
//! fails.

use std::{borrow::Cow, collections::VecDeque, time::SystemTime};

use arc_swap::ArcSwapOption;
use mainstay_core::{
    display::escapes,
    redact::{CUT, Secrets, redact_with},
    trouble,
};
use mainstay_platform::utc;
use parking_lot::{Mutex, MutexGuard};

use super::{Line, LineSource};

/// The maximum number of stored lines.
const KEPT_LINES: usize = 20;

/// The maximum length of a stored line, in bytes. Longer lines are cut.
const MAX_LINE: usize = 2048;

const ESCAPE: u8 = 0x1B;

#[derive(Debug, Default)]
pub struct Tail {
    stored: Mutex<TailLines>,
    /// Secrets of the server's configuration.
    pub(super) secrets: ArcSwapOption<Secrets>,
}

#[derive(Debug, Default)]
struct TailLines {
    /// The first line that looks like an error. It is set when that line is dropped from `lines`.
    error: Option<(SystemTime, String)>,
    lines: VecDeque<(SystemTime, String)>,
}

impl TailLines {
    fn push(&mut self, now: SystemTime, line: &[u8]) {
        if self.lines.len() == KEPT_LINES {
            let oldest = self.lines.pop_front();
            let is_error = |(_, line): &(SystemTime, String)| trouble::is_error(line);
            if self.error.is_none() {
                self.error = oldest.filter(is_error);
            }
        }
        self.lines
            .push_back((now, text(line, MAX_LINE).into_owned()));
    }

    fn all(&self) -> impl Iterator<Item = &(SystemTime, String)> {
        self.error.iter().chain(&self.lines)
    }
}

impl Tail {
    fn stored(&self) -> MutexGuard<'_, TailLines> {
        // Locked for a few lines, never across an await.
        self.stored.lock()
    }

    /// Adds whole lines. Of many lines, only the first and the last ones are parsed.
    pub fn extend(&self, lines: &[u8]) {
        if lines.is_empty() {
            return;
        }
        // A line that was cut has no line end.
        let body = lines.strip_suffix(b"\n").unwrap_or(lines);
        let first = memchr::memchr_iter(b'\n', body).nth(KEPT_LINES - 1);
        let last = memchr::memrchr_iter(b'\n', body).nth(KEPT_LINES - 1);
        let now = SystemTime::now();
        let mut stored = self.stored();
        let parts = match (first, last) {
            (Some(first), Some(last)) if first < last => {
                [Some(&body[..first]), Some(&body[last + 1..])]
            }
            _ => [None, Some(body)],
        };
        let lines = parts
            .into_iter()
            .flatten()
            .flat_map(|part| part.split(|byte| *byte == b'\n'));
        lines.for_each(|line| stored.push(now, line));
    }

    /// Drops the output of an earlier process.
    pub fn clear(&self) {
        *self.stored() = TailLines::default();
    }

    /// The lines, with secrets redacted.
    pub fn texts(&self) -> Vec<String> {
        let (stored, secrets) = (self.stored(), self.secrets.load());
        let texts = stored
            .all()
            .map(|(_, text)| redact_with(text, secrets.as_deref()));
        texts.map(Cow::into_owned).collect()
    }

    pub fn lines(&self) -> Vec<Line> {
        let (stored, secrets) = (self.stored(), self.secrets.load());
        let lines = stored.all().map(|(time, text)| Line {
            time: utc::rfc3339(*time),
            source: LineSource::Stderr,
            text: redact_with(text, secrets.as_deref()).into_owned(),
        });
        lines.collect()
    }
}

/// Returns a line as text, without its line end and without escape sequences of terminals. A line of more
/// than `limit` bytes is cut.
pub fn text(line: &[u8], limit: usize) -> Cow<'_, str> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if !line.contains(&ESCAPE) {
        return cut(line, limit);
    }
    let text = String::from_utf8_lossy(line);
    cut(escapes::without(&text).as_bytes(), limit)
        .into_owned()
        .into()
}

/// Cuts a text to at most `limit` bytes: its beginning, and its end, which often contains the error.
pub fn cut(text: &[u8], limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return String::from_utf8_lossy(text);
    }
    let half = limit / 2;
    let [begin, end] =
        [&text[..half], &text[text.len() - half..]].map(|part| String::from_utf8_lossy(part));
    format!("{begin}{CUT}{end}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_before_a_long_usage_text_is_kept() {
        let flags: Vec<_> = (0..50)
            .map(|n| format!("      --flag-{n} string\n"))
            .collect();
        let usage = flags.concat();
        for in_one_go in [true, false] {
            let tail = Tail::default();
            let all = format!("starting\nError: no context is set\nUsage:\n{usage}");
            if in_one_go {
                tail.extend(all.as_bytes());
            } else {
                all.split_inclusive('\n')
                    .for_each(|line| tail.extend(line.as_bytes()));
            }
            let texts = tail.texts();
            assert_eq!(texts.len(), 1 + KEPT_LINES);
            assert_eq!(
                trouble::telling_line(&texts).as_deref(),
                Some("Error: no context is set")
            );
            assert_eq!(
                texts.last().map(String::as_str),
                Some("      --flag-49 string")
            );
        }
    }

    #[test]
    fn a_line_is_cut_in_the_middle_and_shows_no_escapes() {
        let check = |line: &str, limit, expected: &str| {
            assert_eq!(text(line.as_bytes(), limit), expected, "{line:?}");
        };
        check("plain\r\n", 10, "plain");
        check("\u{1b}[31mError: no\u{1b}[0m\n", 10, "Error: no");
        check("0123456789end", 10, "01234 … 89end");
    }
}
