//! What commands print for people: tables, counts, spans of time. It reaches stdout by `screen`.

use std::{borrow::Cow, time::Duration};

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};
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

/// Prints rows under a head; on a terminal the last column takes what is left of the line.
pub fn table<const N: usize>(
    head: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> Result<(), CommandError> {
    // Programs that read on get whole lines.
    let arrangement = if screen::stdout_is_terminal() {
        ContentArrangement::Dynamic
    } else {
        ContentArrangement::Disabled
    };
    text(&laid_out(head, rows, arrangement))
}

fn laid_out<const N: usize>(
    head: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
    arrangement: ContentArrangement,
) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(head);
    table.set_content_arrangement(arrangement);
    for row in rows {
        // Escaped before it is measured.
        table.add_row(row.map(|cell| one_line(&cell).into_owned()));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index + 1 < N {
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
pub fn trouble(reason: Option<&str>, attempt: u32, next_retry: Option<Duration>) -> String {
    let reason = one_line(reason.unwrap_or("no reason known"));
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
        insta::assert_snapshot!(laid_out(
            ["CELL", "NEXT"],
            rows,
            ContentArrangement::Disabled
        ));
    }

    #[test]
    fn a_headline_is_the_first_line() {
        assert_eq!(headline("\n  first\u{7}\nsecond"), "first\\u{7}");
    }
}
