//! Breaks lines for people between words.

use unicode_width::UnicodeWidthStr as _;

/// The indentation of all lines after the first.
const INDENT: &str = "    ";

/// Breaks a text into lines of at most `columns`. It is broken at blanks, but not within a command in
/// backquotes. A word or a command that is longer than a line is left to the terminal.
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    if text.width() <= columns {
        return vec![text.to_owned()];
    }
    let start = text.len() - text.trim_start_matches(' ').len();
    let (blanks, rest) = text.split_at(start);
    let mut lines = Vec::new();
    let mut line = blanks.to_owned();
    let mut is_empty = true;
    for piece in pieces(rest) {
        let more = piece.width() + usize::from(!is_empty);
        if !is_empty && line.width() + more > columns {
            let whole = std::mem::replace(&mut line, format!("{blanks}{INDENT}"));
            lines.push(whole.trim_end().to_owned());
            is_empty = true;
        }
        if is_empty && piece.is_empty() {
            continue;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(piece);
        is_empty = false;
    }
    lines.push(line);
    lines
}

/// The words of a text. Two adjacent blanks have an empty word between them. A command in backquotes is one
/// word.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    text.split(move |character| {
        is_quoted ^= character == '`';
        character == ' ' && !is_quoted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words() {
        let text = "  hint: did you mean alpha? `mainstay list` shows the servers";
        assert_eq!(wrapped(text, 200), [text]);
        assert_eq!(
            wrapped(text, 40),
            [
                "  hint: did you mean alpha?",
                "      `mainstay list` shows the servers",
            ]
        );
        assert_eq!(
            wrapped(text, 36),
            [
                "  hint: did you mean alpha?",
                "      `mainstay list` shows the",
                "      servers",
            ]
        );
        for columns in 30..60 {
            for line in wrapped(text, columns) {
                assert!(line.len() <= columns, "{columns}: {line}");
            }
        }
    }

    #[test]
    fn a_word_that_is_wider_than_a_line_is_left_whole() {
        let text = "error: cannot write /a/very/long/path/that/is/somewhere now";
        assert_eq!(
            wrapped(text, 20),
            [
                "error: cannot write",
                "    /a/very/long/path/that/is/somewhere",
                "    now",
            ]
        );
        // Blanks within a line stay.
        assert_eq!(wrapped("a  b   c", 5), ["a  b", "    c"]);
        // An unclosed backquote.
        assert_eq!(wrapped("a `b c d", 4), ["a", "    `b c d"]);
    }
}
