//! Prints tables, counts and durations for people through `screen`.

use std::{borrow::Cow, time::Duration};

use mainstay_core::display;

pub use super::screen::{bytes, data, escaped, json, line, palette, pretty, sentence, text, width};
use super::{
    CommandError,
    table::{self, Cell, Column, Room},
    wrap::wrapped,
};

/// Least width of a column of names, in which names stay distinguishable.
const NAME: usize = 20;

/// External text as part of a line of ours.
pub fn one_line(text: &str) -> Cow<'_, str> {
    display::line(text)
}

/// The first line of a description.
pub fn headline(text: &str) -> Cow<'_, str> {
    one_line(text.trim().lines().next().unwrap_or_default().trim())
}

/// Prints rows under a head. On a terminal the last column is shortened to fit.
pub fn table<const N: usize>(
    head: [&'static str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> Result<(), CommandError> {
    rows_of(&cut_column(head, N - 1), rows, false)
}

pub fn cut_column<const N: usize>(head: [&'static str; N], cut: usize) -> [Column; N] {
    let mut columns = head.map(Column::new);
    columns[cut] = columns[cut].cut_to(NAME);
    columns
}

/// Prints rows under the heads of columns, one line each. On a terminal they fit its width, except for wide
/// tables.
pub fn rows_of<const N: usize, C: Into<Cell>>(
    columns: &[Column; N],
    rows: impl IntoIterator<Item = [C; N]>,
    wide: bool,
) -> Result<(), CommandError> {
    let width = width().filter(|_| !wide);
    escaped(&lines_of(columns, rows, wide, width))
}

/// Like [`rows_of`], as lines that are ready to print, of at most this width.
pub fn lines_of<const N: usize, C: Into<Cell>>(
    columns: &[Column; N],
    rows: impl IntoIterator<Item = [C; N]>,
    wide: bool,
    width: Option<usize>,
) -> Vec<String> {
    let palette = palette();
    let room = Room {
        width,
        wide,
        palette,
    };
    table::laid_out(columns, rows, room)
}

/// Breaks a line between words into rows of the terminal. The line is escaped already.
pub fn rows(line: &str) -> Vec<String> {
    rows_within(line, width().unwrap_or(usize::MAX).saturating_sub(1))
}

fn rows_within(line: &str, width: usize) -> Vec<String> {
    let lines = wrapped(line, width);
    lines.iter().flat_map(|line| in_rows(line, width)).collect()
}

fn in_rows(line: &str, width: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    let mut used = 0;
    for c in line.chars() {
        let columns = columns(c);
        if used + columns > width.max(2) {
            rows.push(String::new());
            used = 0;
        }
        used += columns;
        if let Some(row) = rows.last_mut() {
            row.push(c);
        }
    }
    rows
}

/// The largest width of a character.
fn columns(c: char) -> usize {
    if c.is_ascii() { 1 } else { 2 }
}

/// `1 tool`, `2 tools`
pub fn count(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// `12 ms`, `1.2 s`, `3 min`, `1 min 22 s`, `4 h 10 min`, `5 d 2 h`
pub fn span(span: Duration) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    let seconds = span.as_secs();
    let parts = |unit, name, smaller, smaller_name| match seconds % unit / smaller {
        0 => format!("{} {name}", seconds / unit),
        rest => format!("{} {name} {rest} {smaller_name}", seconds / unit),
    };
    match seconds {
        0 => format!("{} ms", span.as_millis()),
        1..MINUTE => format!("{:.1} s", span.as_secs_f64()),
        MINUTE..HOUR => parts(MINUTE, "min", 1, "s"),
        HOUR..DAY => parts(HOUR, "h", MINUTE, "min"),
        _ => parts(DAY, "d", HOUR, "h"),
    }
}

/// `process exited unexpectedly (signal 9); attempt 1 in 1.0 s`
pub fn trouble(reason: &str, attempt: u32, next_retry: Option<Duration>) -> String {
    let reason = one_line(reason);
    match next_retry {
        Some(wait) => format!("{reason}; attempt {attempt} in {}", span(wait)),
        None => reason.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short() {
        for (millis, expected) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1000, "1.0 s"),
            (59_949, "59.9 s"),
            (60_000, "1 min"),
            (61_500, "1 min 1 s"),
            (82_800, "1 min 22 s"),
            (7_200_000, "2 h"),
            (15_000_000, "4 h 10 min"),
            (172_800_000, "2 d"),
            (183_600_000, "2 d 3 h"),
        ] {
            assert_eq!(span(Duration::from_millis(millis)), expected);
        }
    }

    #[test]
    fn a_long_line_takes_several_rows() {
        assert_eq!(
            rows_within("gone failed: install it, or name it", 24),
            ["gone failed: install it,", "    or name it"]
        );
        assert_eq!(
            rows_within("gone /a/very/long/path", 12),
            ["gone", "    /a/very/", "long/path"]
        );
        assert_eq!(in_rows("", 10), [""]);
        assert_eq!(in_rows("abcdef", 4), ["abcd", "ef"]);
        assert_eq!(in_rows("漢字abc", 4), ["漢字", "abc"]);
    }

    #[test]
    fn a_headline_is_the_first_line() {
        assert_eq!(headline("\n  first\u{7}\nsecond"), "first\\u{7}");
    }
}
