//! The last lines of a server's stderr, to be shown when it fails, and the error before them.

use std::{borrow::Cow, collections::VecDeque, time::SystemTime};

use arc_swap::ArcSwapOption;
use mainstay_core::{
    display::escapes,
    redact::{CUT, Secrets, shown},
    trouble,
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
    kept: Mutex<Kept>,
    /// Secrets of the server's configuration.
    pub(super) secrets: ArcSwapOption<Secrets>,
}

#[derive(Debug, Default)]
struct Kept {
    /// The first line that began as an error, once so many others came behind it that it would be lost.
    error: Option<(SystemTime, String)>,
    lines: VecDeque<(SystemTime, String)>,
}

impl Kept {
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
    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Held for a few lines, never across an await.
        self.kept.lock()
    }

    /// Takes whole lines; of many, only the first and the last ones are looked at.
    pub fn extend(&self, lines: &[u8]) {
        if lines.is_empty() {
            return;
        }
        // One that was cut has lost its end.
        let body = lines.strip_suffix(b"\n").unwrap_or(lines);
        let first = memchr::memchr_iter(b'\n', body).nth(KEPT_LINES - 1);
        let last = memchr::memrchr_iter(b'\n', body).nth(KEPT_LINES - 1);
        let now = SystemTime::now();
        let mut kept = self.kept();
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
        lines.for_each(|line| kept.push(now, line));
    }

    /// Forgets what an earlier process wrote.
    pub fn clear(&self) {
        *self.kept() = Kept::default();
    }

    /// The lines, without secrets.
    pub fn texts(&self) -> Vec<String> {
        let (kept, secrets) = (self.kept(), self.secrets.load());
        let texts = kept.all().map(|(_, text)| shown(text, secrets.as_deref()));
        texts.map(Cow::into_owned).collect()
    }

    pub fn lines(&self) -> Vec<Line> {
        let (kept, secrets) = (self.kept(), self.secrets.load());
        let lines = kept.all().map(|(time, text)| Line {
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
