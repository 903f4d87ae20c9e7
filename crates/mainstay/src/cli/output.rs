//! Tables, counts and spans of time, printed for people through `screen`.

use std::{borrow::Cow, time::Duration};

use comfy_table::{ColumnConstraint, ContentArrangement, Row, Table, presets};
use mainstay_core::display;

pub use super::screen::{bytes, data, json, line, pretty, text};
use super::{CommandError, screen};

/// Text from outside as part of a line of ours.
pub fn one_line(text: &str) -> Cow<'_, str> {
    display::line(text)
}

/// The first line of a description.
pub fn headline(text: &str) -> Cow<'_, str> {
    one_line(text.trim().lines().next().unwrap_or_default().trim())
}

/// How rows that are wider than the terminal are laid out. Output to anything else is never cut.
#[derive(Clone, Copy)]
enum Wide<'a> {
    /// The last column wraps.
    Wrap,
    /// A row is one line: these columns share what the others leave, and end in `…`.
    Cut(&'a [&'a str]),
}

/// Prints rows under a head; on a terminal the last column wraps.
pub fn table<const N: usize>(
    head: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> Result<(), CommandError> {
    text(&laid_out(head, rows, Wide::Wrap, terminal_width()))
}

/// Prints rows under a head, one line each; on a terminal the columns in `cut` are cut to its width.
pub fn lines<const N: usize>(
    head: [&str; N],
    cut: &[&str],
    rows: impl IntoIterator<Item = [String; N]>,
) -> Result<(), CommandError> {
    text(&laid_out(head, rows, Wide::Cut(cut), terminal_width()))
}

/// The width of the terminal. `None` where a program reads, which gets whole lines.
fn terminal_width() -> Option<u16> {
    screen::stdout_is_terminal()
        .then(|| Table::new().width())
        .flatten()
}

fn laid_out<const N: usize>(
    head: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
    wide: Wide<'_>,
    width: Option<u16>,
) -> String {
    let mut table = Table::new();
    let row_of = |mut row: Row| {
        if let Wide::Cut(_) = wide {
            row.max_height(1);
        }
        row
    };
    table
        .load_style(presets::NOTHING)
        .set_header(row_of(Row::from(head)));
    match width {
        Some(width) => table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width),
        None => table.set_content_arrangement(ContentArrangement::Disabled),
    };
    for cells in rows {
        // Escaped before it is measured.
        let row = Row::from(cells.map(|cell| one_line(&cell).into_owned()));
        table.add_row(row_of(row));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        let is_flexible = match wide {
            Wide::Wrap => index + 1 == N,
            Wide::Cut(columns) => columns.contains(&head[index]),
        };
        if !is_flexible {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    let lines = table.lines().map(|line| line.trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}

/// `1 tool`, `2 tools`
pub fn count(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// `12 ms`, `1.2 s`, `3 min`, `4 h`, `5 d`
pub fn span(span: Duration) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    match span.as_secs() {
        0 => format!("{} ms", span.as_millis()),
        1..MINUTE => format!("{:.1} s", span.as_secs_f64()),
        MINUTE..HOUR => format!("{} min", span.as_secs() / MINUTE),
        HOUR..DAY => format!("{} h", span.as_secs() / HOUR),
        _ => format!("{} d", span.as_secs() / DAY),
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
            (7_200_000, "2 h"),
            (172_800_000, "2 d"),
        ] {
            assert_eq!(span(Duration::from_millis(millis)), expected);
        }
    }

    /// Wide characters take two places, marks none, and escapes what they are long.
    #[test]
    fn columns_stand_below_each_other_whatever_is_in_them() {
        let row = |cell: &str| [cell.to_owned(), "|".to_owned()];
        let zalgo = format!("a{}", "\u{336}".repeat(6));
        let rows = [
            "plain",
            "漢字",
            "e\u{301}",
            "🦀",
            "⚠\u{fe0f}",
            "\u{1b}[2J",
            &zalgo,
        ]
        .map(row);
        insta::assert_snapshot!(laid_out(["CELL", "NEXT"], rows, Wide::Wrap, None));
    }

    /// `records` at 80 columns: the columns that may be cut share what the others leave.
    #[test]
    fn a_row_of_lines_is_one_line_however_narrow_the_terminal_is() {
        let row = |name: &str, error: &str| ["4711", name, "ok", error].map(str::to_owned);
        let rows = || {
            [
                row("files/read_text_file", ""),
                row("a-server-with-a-long-name/and_a_long_tool_name", ""),
                row(
                    "x/y",
                    &"the server answered with an error that is long ".repeat(9),
                ),
            ]
        };
        let head = ["ID", "CALL", "STATUS", "ERROR"];
        let cut = Wide::Cut(&["CALL", "ERROR"]);
        insta::assert_snapshot!(laid_out(head, rows(), cut, Some(60)));
        for width in 20..120 {
            let shown = laid_out(head, rows(), cut, Some(width));
            assert_eq!(shown.lines().count(), 4, "{shown}");
        }
    }

    #[test]
    fn a_headline_is_the_first_line() {
        assert_eq!(headline("\n  first\u{7}\nsecond"), "first\\u{7}");
    }
}
