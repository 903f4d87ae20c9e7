//! What commands print: data on stdout, for people or as JSON.

use std::{
    borrow::Cow,
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};
use serde::Serialize;

use super::CommandError;

/// Prints text to stdout, ending its last line. A reader that has seen enough (`| head`) is no error.
pub fn line(text: &str) -> Result<(), CommandError> {
    let mut stdout = io::stdout().lock();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    match write!(stdout, "{text}{end}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CommandError::Output(error)),
        _ => Ok(()),
    }
}

/// Prints data as one line of JSON; raw parts keep their bytes.
pub fn json(data: &impl Serialize) -> Result<(), CommandError> {
    let text = serde_json::to_string(data).map_err(|error| CommandError::Output(error.into()))?;
    line(&mainstay_core::message::one_line(&text))
}

/// Text from outside. A terminal gets no control characters, with which a server could rewrite
/// what stands there.
pub fn text(text: &str) -> Result<(), CommandError> {
    if io::stdout().is_terminal() {
        line(&printable(text))
    } else {
        line(text)
    }
}

fn printable(text: &str) -> Cow<'_, str> {
    let hidden = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if text.contains(hidden) {
        text.replace(hidden, "\u{fffd}").into()
    } else {
        text.into()
    }
}

/// Text from outside as part of a line of ours.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if text.contains(char::is_control) {
        text.replace(char::is_control, " ").into()
    } else {
        text.into()
    }
}

/// The first line of a description.
pub fn headline(text: &str) -> Cow<'_, str> {
    one_line(text.trim().lines().next().unwrap_or_default().trim())
}

/// Prints rows under a head; the last column takes what is left of the line.
pub fn table<const N: usize>(
    head: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> Result<(), CommandError> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(head);
    // Programs that read on get whole lines.
    let arrangement = if io::stdout().is_terminal() {
        ContentArrangement::Dynamic
    } else {
        ContentArrangement::Disabled
    };
    table.set_content_arrangement(arrangement);
    for row in rows {
        table.add_row(row.map(|cell| one_line(&cell).into_owned()));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index + 1 < N {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    let lines: Vec<String> = table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    line(&lines.join("\n"))
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

    #[test]
    fn a_server_cannot_write_over_the_terminal() {
        assert_eq!(printable("a\tb\n\u{1b}[2Jc"), "a\tb\n\u{fffd}[2Jc");
        assert_eq!(one_line("a\r\u{1b}b\nc"), "a  b c");
        assert_eq!(headline("\n  first\nsecond"), "first");
    }
}
