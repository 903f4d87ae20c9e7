//! The last lines of a server's stderr, to be shown when it fails.

use std::{borrow::Cow, collections::VecDeque, time::SystemTime};

use arc_swap::ArcSwapOption;
use mainstay_core::{
    display::escapes,
    redact::{Secrets, shown},
};
use mainstay_platform::utc;
use parking_lot::{Mutex, MutexGuard};

use super::{Line, Source};

/// Lines that are kept.
const KEPT_LINES: usize = 20;

/// Longest line that is kept, in bytes; a longer one is cut.
const MAX_LINE: usize = 2048;

const ESCAPE: u8 = 0x1B;

#[derive(Debug, Default)]
pub struct Tail {
    kept: Mutex<VecDeque<(SystemTime, String)>>,
    /// Secrets of the server's configuration.
    pub(super) secrets: ArcSwapOption<Secrets>,
}

impl Tail {
    fn kept(&self) -> MutexGuard<'_, VecDeque<(SystemTime, String)>> {
        // Held for a few lines, never across an await.
        self.kept.lock()
    }

    /// Takes whole lines; of many, only the last ones are looked at.
    pub fn extend(&self, lines: &[u8]) {
        if lines.is_empty() {
            return;
        }
        // One that was cut has lost its end.
        let body = lines.strip_suffix(b"\n").unwrap_or(lines);
        let before = memchr::memrchr_iter(b'\n', body).nth(KEPT_LINES - 1);
        let now = SystemTime::now();
        let mut kept = self.kept();
        for line in body[before.map_or(0, |at| at + 1)..].split(|byte| *byte == b'\n') {
            if kept.len() == KEPT_LINES {
                kept.pop_front();
            }
            kept.push_back((now, text(line, MAX_LINE).into_owned()));
        }
    }

    /// Forgets what an earlier process wrote.
    pub fn clear(&self) {
        self.kept().clear();
    }

    /// The lines, without secrets.
    pub fn texts(&self) -> Vec<String> {
        let (kept, secrets) = (self.kept(), self.secrets.load());
        let texts = kept.iter().map(|(_, text)| shown(text, secrets.as_deref()));
        texts.map(Cow::into_owned).collect()
    }

    pub fn lines(&self) -> Vec<Line> {
        let (kept, secrets) = (self.kept(), self.secrets.load());
        let lines = kept.iter().map(|(time, text)| Line {
            time: utc::rfc3339(*time),
            source: Source::Stderr,
            text: shown(text, secrets.as_deref()).into_owned(),
        });
        lines.collect()
    }
}

/// A line as text, without its end and without escape sequences of terminals; one of more than `limit` bytes
/// is cut.
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

/// At most `limit` bytes of a text: its beginning and its end, which says what went wrong.
pub fn cut(text: &[u8], limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return String::from_utf8_lossy(text);
    }
    let half = limit / 2;
    let [begin, end] =
        [&text[..half], &text[text.len() - half..]].map(|part| String::from_utf8_lossy(part));
    format!("{begin} … {end}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

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
