//! Tables, counts and spans of time, printed for people through `screen`.

use std::{borrow::Cow, time::Duration};

use comfy_table::{ColumnConstraint, ContentArrangement, Row, Table, Width, presets};
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
    /// This column wraps. Where little room is left for it, it has lines of its own: above the others if
    /// it is the first, else indented below them.
    Wrap(usize),
    /// A row is one line: these columns share what the others leave, and end in `…`.
    Cut(&'a [&'a str]),
}

/// The blanks between two columns.
const GAP: u16 = 2;

/// A column that wraps has lines of its own where less room is left for it.
const LEAST_ROOM: u16 = 30;

/// What is left of a column at least, with the blanks behind it.
const LEAST_COLUMN: u16 = 10;

/// How far lines of a row are indented below its first one.
const INDENT: u16 = 4;

/// Prints rows under a head; on a terminal the last column wraps.
pub fn table<const N: usize>(
    head: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> Result<(), CommandError> {
    text(&laid_out(head, rows, Wide::Wrap(N - 1), terminal_width()))
}

/// Prints rows under a head; on a terminal the first column wraps.
pub fn table_of_names<const N: usize>(
    head: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> Result<(), CommandError> {
    text(&laid_out(head, rows, Wide::Wrap(0), terminal_width()))
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
    // Escaped before it is measured.
    let escaped = |cells: [String; N]| cells.map(|cell| one_line(&cell).into_owned());
    let rows: Vec<[String; N]> = rows.into_iter().map(escaped).collect();
    if let (Wide::Wrap(wide), Some(width)) = (wide, width)
        && let Some(narrow) = Narrow::of(&head, &rows, wide, width)
    {
        return narrow.laid_out(&head, &rows);
    }
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
        table.add_row(row_of(Row::from(cells)));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, GAP));
        let is_flexible = match wide {
            Wide::Wrap(wide) => index == wide,
            Wide::Cut(columns) => columns.contains(&head[index]),
        };
        if !is_flexible {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    lines_of(&table).join("\n")
}

fn lines_of(table: &Table) -> Vec<String> {
    let lines = table.lines().map(|line| line.trim_end().to_owned());
    lines.collect()
}

/// A layout for narrow terminals: one column has lines of its own.
struct Narrow {
    /// The column with its own lines.
    wide: usize,
    /// The width of the terminal.
    width: u16,
    /// The widths of all columns, with the blanks behind them.
    columns: Vec<u16>,
}

impl Narrow {
    /// `None` where the others leave enough room for the column.
    fn of<const N: usize>(
        head: &[&str; N],
        rows: &[[String; N]],
        wide: usize,
        width: u16,
    ) -> Option<Self> {
        let mut table = Table::new();
        table.set_header(head);
        table.add_rows(rows);
        let columns = table.column_max_content_widths().into_iter();
        let mut columns: Vec<u16> = columns.map(|width| width.saturating_add(GAP)).collect();
        let others = |columns: &[u16]| -> u16 {
            let others = columns.iter().enumerate();
            let others = others.filter(|(index, _)| *index != wide);
            others.fold(0, |sum, (_, width)| sum.saturating_add(*width))
        };
        let room = width.saturating_sub(others(&columns));
        if room >= LEAST_ROOM || room >= columns[wide] {
            return None;
        }
        // Names of servers may be long: the longest column of the others wraps.
        let indent = if wide == 0 { INDENT } else { 0 };
        let excess = others(&columns).saturating_sub(width.saturating_sub(indent));
        let others = (0..N).filter(|index| *index != wide);
        if let Some(longest) = others.max_by_key(|index| columns[*index]) {
            columns[longest] = columns[longest].saturating_sub(excess).max(LEAST_COLUMN);
        }
        Some(Self {
            wide,
            width,
            columns,
        })
    }

    fn laid_out<const N: usize>(&self, head: &[&str; N], rows: &[[String; N]]) -> String {
        let mut lines = self.entry(&head.map(str::to_owned));
        lines.extend(rows.iter().flat_map(|row| self.entry(row)));
        lines.join("\n")
    }

    /// The lines of one row.
    fn entry<const N: usize>(&self, cells: &[String; N]) -> Vec<String> {
        let others = (0..N).filter(|index| *index != self.wide);
        let others: Vec<(&String, u16)> = others
            .map(|index| (&cells[index], self.columns[index]))
            .collect();
        let own = [(&cells[self.wide], self.width.saturating_sub(INDENT))];
        let indented = |lines: Vec<String>| -> Vec<String> {
            let indent = " ".repeat(INDENT.into());
            let lines = lines.into_iter().filter(|line| !line.is_empty());
            lines.map(|line| format!("{indent}{line}")).collect()
        };
        if self.wide == 0 {
            [fixed(&own), indented(fixed(&others))].concat()
        } else {
            [fixed(&others), indented(fixed(&own))].concat()
        }
    }
}

/// A row of cells with these widths.
fn fixed(cells: &[(&String, u16)]) -> Vec<String> {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(cells.iter().map(|(_, width)| width).sum());
    table.add_row(cells.iter().map(|(cell, _)| cell));
    for (column, (_, width)) in table.column_iter_mut().zip(cells) {
        column.set_padding((0, if cells.len() > 1 { GAP } else { 0 }));
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(*width)));
    }
    lines_of(&table)
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
        insta::assert_snapshot!(laid_out(["CELL", "NEXT"], rows, Wide::Wrap(1), None));
    }

    /// `list` and `stats` on terminals of 60, 80 and 140 columns.
    #[test]
    fn a_wide_column_has_lines_of_its_own_on_a_narrow_terminal() {
        let servers = || {
            [
                ["files", "connected", "stdio", "14", "81432", "up 3 min"],
                [
                    "a-server-with-a-name-of-32-bytes",
                    "reconnecting",
                    "stdio",
                    "0",
                    "",
                    "process exited unexpectedly (code 7): no licence found; attempt 3 in 4.0 s; see \"mainstay logs a-server-with-a-name-of-32-bytes\"",
                ],
                ["off", "disabled", "http", "0", "", ""],
            ]
            .map(|row| row.map(str::to_owned))
        };
        let head = ["NAME", "STATUS", "TRANSPORT", "TOOLS", "PID", "DETAIL"];
        let calls = || {
            let row = |name: &str| {
                [name, "12345", "17", "1.2 s", "12.5 s", "29.9 s", "1.2 MB"].map(str::to_owned)
            };
            [
                row("a-server-with-a-name-of-32-bytes/and_a_tool"),
                row("x/y"),
            ]
        };
        let head_of_calls = ["CALL", "CALLS", "ERRORS", "P50", "P95", "P99", "SENT"];
        let shown = [60, 80, 140].map(|width| {
            let list = laid_out(head, servers(), Wide::Wrap(5), Some(width));
            let stats = laid_out(head_of_calls, calls(), Wide::Wrap(0), Some(width));
            let shown = format!("{list}\n\n{stats}");
            for line in shown.lines() {
                assert!(line.chars().count() <= width.into(), "{width}: {line}");
            }
            format!("--- {width}\n{shown}")
        });
        insta::assert_snapshot!(shown.join("\n"));
        for width in 20..200 {
            let shown = laid_out(head, servers(), Wide::Wrap(5), Some(width));
            assert!(shown.lines().count() <= 26, "{width}: {shown}");
        }
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
