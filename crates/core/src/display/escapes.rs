//! Terminal escape sequences (ECMA-48): colours, cursor movements, window titles.

use std::borrow::Cow;

const ESCAPE: u8 = 0x1B;
const BELL: u8 = 0x07;

/// Maximum length of a sequence to recognise, in bytes. A longer one counts as text.
const MAX_LENGTH: usize = 4096;

/// The length of the escape sequence at the beginning of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    Whole(usize),
    /// The sequence is not complete in this text.
    Unfinished,
    /// The text does not begin with a sequence.
    None,
}

/// The length of the escape sequence at the beginning of `text`.
pub fn length(text: &[u8]) -> Length {
    let Some((&ESCAPE, rest)) = text.split_first() else {
        return Length::None;
    };
    let text = &text[..text.len().min(MAX_LENGTH)];
    let length_at_end = if text.len() == MAX_LENGTH {
        Length::None
    } else {
        Length::Unfinished
    };
    match rest.first() {
        None => Length::Unfinished,
        // CSI: parameters, intermediate bytes, one final byte.
        Some(b'[') => {
            let body = &text[2..];
            let end = body.iter().position(|byte| !matches!(byte, 0x20..=0x3F));
            match end.map(|end| (end, body[end])) {
                Some((end, 0x40..=0x7E)) => Length::Whole(2 + end + 1),
                Some(_) => Length::None,
                None => length_at_end,
            }
        }
        // OSC, DCS, SOS, PM and APC: text up to BEL or `ESC \`.
        Some(b']' | b'P' | b'X' | b'^' | b'_') => {
            let body = &text[2..];
            match body
                .iter()
                .position(|byte| matches!(*byte, BELL | ESCAPE | b'\n'))
            {
                Some(end) if body[end] == BELL => Length::Whole(2 + end + 1),
                Some(end) if body[end] == ESCAPE => match body.get(end + 1) {
                    Some(b'\\') => Length::Whole(2 + end + 2),
                    Some(_) => Length::None,
                    None => length_at_end,
                },
                Some(_) => Length::None,
                None => length_at_end,
            }
        }
        // Other sequences: intermediate bytes and one final byte, such as `ESC ( B`.
        Some(_) => {
            let body = &text[1..];
            let end = body.iter().position(|byte| !matches!(byte, 0x20..=0x2F));
            match end.map(|end| (end, body[end])) {
                Some((end, 0x30..=0x7E)) => Length::Whole(1 + end + 1),
                Some(_) => Length::None,
                None => length_at_end,
            }
        }
    }
}

/// Removes escape sequences.
pub fn without(text: &str) -> Cow<'_, str> {
    let Some(first_escape) = memchr::memchr(ESCAPE, text.as_bytes()) else {
        return text.into();
    };
    let mut out = String::with_capacity(text.len());
    out.push_str(&text[..first_escape]);
    let mut rest = &text[first_escape..];
    while !rest.is_empty() {
        let skipped_bytes = match length(rest.as_bytes()) {
            Length::Whole(length) => length,
            // Remove only the escape character of a sequence that is incomplete or unknown.
            Length::Unfinished | Length::None => 1,
        };
        rest = &rest[skipped_bytes..];
        let next_escape = memchr::memchr(ESCAPE, rest.as_bytes()).unwrap_or(rest.len());
        out.push_str(&rest[..next_escape]);
        rest = &rest[next_escape..];
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_removed() {
        for (text, expected) in [
            ("plain", "plain"),
            ("\u{1b}[31mError:\u{1b}[0m no licence", "Error: no licence"),
            ("\u{1b}[38;2;255;0;0mred\u{1b}[m", "red"),
            ("\u{1b}[2K\u{1b}[1Gdone\u{1b}[?25h", "done"),
            ("\u{1b}]0;a title\u{7}text", "text"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}(Btext\u{1b}=", "text"),
            ("\u{1b}Pq data\u{1b}\\é", "é"),
            ("cut \u{1b}[3", "cut [3"),
            ("cut \u{1b}", "cut "),
            ("\u{1b}é", "é"),
            ("\u{1b}[é", "[é"),
            ("\u{1b}]never ends\nnext", "]never ends\nnext"),
        ] {
            assert_eq!(without(text), expected, "{text:?}");
        }
    }

    #[test]
    fn an_unfinished_sequence_is_not_complete() {
        for text in [
            "\u{1b}",
            "\u{1b}[",
            "\u{1b}[3;",
            "\u{1b}]0;t",
            "\u{1b}(",
            "\u{1b}]0;t\u{1b}",
        ] {
            assert_eq!(length(text.as_bytes()), Length::Unfinished, "{text:?}");
        }
        let endless = format!("\u{1b}]{}", "x".repeat(MAX_LENGTH));
        assert_eq!(length(endless.as_bytes()), Length::None);
        assert_eq!(length(b"x"), Length::None);
    }
}
