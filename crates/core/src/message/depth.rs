//! The depth of a message's nesting. Mainstay reads messages without recursion; clients and servers
//! often do not.

/// Levels of objects and arrays in what a message carries. Readers that recurse stop at a hundred or a few
/// hundred levels (`serde_json` at 128, Python at about 1,000); no tool's arguments need more.
pub const MAX_DEPTH: usize = 512;

/// Around `arguments` there are `params` and the message itself, which do not count.
const ENVELOPE: usize = 2;

/// Whether a JSON text of a message is nested too deep. Costs one count of its brackets, and a second look
/// only if there are enough of them.
pub fn is_too_deep(text: &str) -> bool {
    let most = MAX_DEPTH + ENVELOPE;
    let text = text.as_bytes();
    // Each level has two brackets.
    if text.len() <= 2 * most {
        return false;
    }
    let opening = |byte: &&u8| matches!(**byte, b'{' | b'[');
    text.iter().filter(opening).count() > most && depth(text) > most
}

/// The levels of a valid JSON text.
fn depth(text: &[u8]) -> usize {
    let (mut depth, mut deepest, mut rest) = (0, 0_usize, text);
    while let [byte, behind @ ..] = rest {
        rest = behind;
        match byte {
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => rest = after_string(behind),
            _ => {}
        }
    }
    deepest
}

/// What follows a string, given what follows its first quotation mark.
fn after_string(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = memchr::memchr2(b'"', b'\\', rest) {
        match rest[at] {
            b'"' => return &rest[at + 1..],
            // Whatever is escaped ends no string.
            _ => rest = rest.get(at + 2..).unwrap_or_default(),
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_count_outside_of_strings() {
        for (text, expected) in [
            ("1", 0),
            ("{}", 1),
            (r#"[{"a":[]},[[]]]"#, 3),
            (r#"["[[[[","\"[[","\\",[]]"#, 2),
            (r#"{"[\\\"[":{"{":1}}"#, 2),
        ] {
            assert_eq!(depth(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn wide_and_long_texts_are_not_deep() {
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        let padding = format!("[{:?},", "x".repeat(4 * MAX_DEPTH));
        for (text, expected) in [
            (deep(MAX_DEPTH + ENVELOPE), false),
            (deep(MAX_DEPTH + ENVELOPE + 1), true),
            (deep(200_000), true),
            (format!("[{}[]]", "[],".repeat(100_000)), false),
            (format!("[{:?}]", "[".repeat(100_000)), false),
            (format!("{padding}{}]", deep(MAX_DEPTH + ENVELOPE)), true),
        ] {
            assert_eq!(is_too_deep(&text), expected, "{} bytes", text.len());
        }
    }
}
