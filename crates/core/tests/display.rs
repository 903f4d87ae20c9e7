//! Tests that text for a terminal is safe, with an independent list of dangerous characters.

use std::fmt::Write as _;

use mainstay_core::display::{self, MAX_MARKS, lookalike::lookalikes};
use proptest::prelude::*;

/// True for a character that a terminal interprets or hides.
fn is_dangerous(c: char) -> bool {
    let code = u32::from(c);
    (code < 0x20 && !matches!(c, '\n' | '\t'))
        || matches!(code,
            0x7f..=0x9f | 0xad | 0x34f | 0x61c | 0x115f | 0x1160 | 0x17b4 | 0x17b5 | 0x180b..=0x180e
            | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0x2800 | 0x3164
            | 0xe000..=0xf8ff | 0xfe00..=0xfe0d | 0xfeff | 0xffa0 | 0xfff9..=0xfffb
            | 0x1d173..=0x1d17a | 0xe0000..=0x0010_ffff)
}

/// True for a mark that is drawn onto the previous character.
fn is_mark(c: char) -> bool {
    matches!(u32::from(c), 0x300..=0x36f | 0x1ab0..=0x1ace | 0x1dc0..=0x1dff | 0x20d0..=0x20f0 | 0xfe20..=0xfe2f)
}

fn longest_run_of_marks(text: &str) -> usize {
    let runs = text.split(|c: char| !is_mark(c));
    runs.map(|run| run.chars().count())
        .max()
        .unwrap_or_default()
}

/// Generates texts of mostly dangerous characters.
fn nasty() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => (0u32..0xa0).prop_filter_map("a character", char::from_u32),
        4 => proptest::sample::select(vec![
            '\u{1b}', '\u{9b}', '\u{9d}', '\u{7}', '\r', '\n', '\t', '\u{202e}', '\u{2066}', '\u{200b}',
            '\u{200d}', '\u{feff}', '\u{ad}', '\u{34f}', '\u{115f}', '\u{3164}', '\u{2028}', '\u{e0041}',
            '\u{fe0f}', '\u{fe00}', '\u{e0100}', '\u{301}', '\u{489}', '\u{20dd}', '"', '\\',
        ]),
        1 => any::<char>(),
        1 => proptest::sample::select(vec!['a', '漢', '🦀', 'é', 'ß', '⚠', 'א']),
        // Runs of combining marks.
        2 => Just('\u{336}'),
    ];
    proptest::collection::vec(piece, 0..60).prop_map(String::from_iter)
}

/// Decodes escapes. For a text without backslashes, this returns the original text.
fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('r') {
            out.push('\r');
            rest = after;
            continue;
        }
        let after = after.strip_prefix("u{").expect("an escape");
        let (code, after) = after.split_once('}').expect("the end of an escape");
        let code = u32::from_str_radix(code, 16).expect("a number");
        out.push(char::from_u32(code).expect("a character"));
        rest = after;
    }
    out + rest
}

proptest! {
    #[test]
    fn nothing_dangerous_is_shown(text in nasty()) {
        let lines = display::lines(&text);
        prop_assert!(!lines.contains(is_dangerous), "{lines:?}");
        prop_assert!(longest_run_of_marks(&lines) <= MAX_MARKS, "{lines:?}");
        prop_assert_eq!(&display::lines(&lines), &lines, "shown twice");

        let line = display::line(&text);
        prop_assert!(!line.contains(is_dangerous), "{line:?}");
        prop_assert!(!line.contains(['\n', '\t']), "{line:?}");
        prop_assert_eq!(&display::line(&line), &line, "shown twice");

        let word = display::word(&text);
        prop_assert!(!word.contains(is_dangerous) && !word.contains(['\n', '\t']), "{word:?}");
        prop_assert_eq!(longest_run_of_marks(&word), 0);
    }

    #[test]
    fn escaping_loses_no_text(text in nasty()) {
        let text = text.replace('\\', "/");
        prop_assert_eq!(unescape(&display::lines(&text)), text.replace("\r\n", "\n"));
    }

    #[test]
    fn different_words_are_shown_differently(one in nasty(), other in nasty()) {
        prop_assert_eq!(one == other, display::word(&one) == display::word(&other));
        // A quoted word has the syntax of JSON, except for its escapes.
        let word = display::word(&one);
        if !word.starts_with('"') {
            prop_assert_eq!(word.trim_matches('\''), &one, "as it is");
            return Ok(());
        }
        prop_assert!(!word.contains(['$', '`', '!']), "obeyed by a shell: {}", word);
        let mut decoded_text = String::new();
        let mut rest = word.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).expect("quotes");
        while let Some((before, after)) = rest.split_once('\\') {
            decoded_text.push_str(before);
            let escape = match after.as_bytes()[0] {
                b'u' => after.find('}').expect("the end of an escape") + 1,
                _ => 1,
            };
            match &after[..escape] {
                character @ ("\"" | "\\") => decoded_text.push_str(character),
                escape => decoded_text.push_str(&unescape(&format!("\\{escape}"))),
            }
            rest = &after[escape..];
        }
        prop_assert_eq!(decoded_text + rest, one);
    }

    #[test]
    fn json_keeps_its_meaning(text in nasty(), key in nasty()) {
        let value = serde_json::json!({key: [text, {"n": 1.5}]});
        for raw in [value.to_string(), format!("{value:#}"), value.to_string().replace(':', " :\r\n\t")] {
            // This replacement breaks the JSON if a string contains a colon.
            let Ok(value) = serde_json::from_str::<serde_json::Value>(&raw) else { continue };
            let safe_text = display::json(&raw);
            prop_assert!(!safe_text.contains(is_dangerous), "{safe_text:?}");
            prop_assert!(longest_run_of_marks(&safe_text) <= MAX_MARKS, "{safe_text:?}");
            let parsed_value: serde_json::Value = serde_json::from_str(&safe_text).expect("it stays JSON");
            prop_assert_eq!(parsed_value, value);
            prop_assert_eq!(&display::json(&safe_text), &safe_text, "shown twice");
        }
    }

    #[test]
    fn any_bytes_are_shown(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        let safe_text = display::bytes(&bytes);
        prop_assert!(!safe_text.contains(is_dangerous), "{safe_text:?}");
        if let Ok(text) = std::str::from_utf8(&bytes) {
            prop_assert_eq!(safe_text, display::lines(text));
        }
    }
}

/// Tests each dangerous character, because the property tests may not generate all of them.
#[test]
fn every_character_is_shown_or_escaped() {
    for c in ('\0'..=char::MAX).filter(|c| is_dangerous(*c)) {
        let text = format!("a{c}b");
        let mut expected = String::from("a");
        match c {
            '\r' => expected.push_str("\\r"),
            _ => write!(expected, "\\u{{{:x}}}", u32::from(c)).expect("written"),
        }
        expected.push('b');
        assert_eq!(display::lines(&text), expected);
        assert_eq!(display::line(&text), expected);
    }
}

#[test]
fn ordinary_text_is_shown_unchanged() {
    for text in [
        "Grüße, Ελλάδα, Привет, 漢字, ひらがな, 한국어, עִבְרִית, العربية, हिन्दी, ไทย, Tiếng Việt",
        "10\u{a0}000 €, «\u{202f}oui\u{202f}», 全\u{3000}角",
        "🦀 ⚠\u{fe0f} ☎\u{fe0e} — … “x” ✓",
        "a\tb\nc",
        "e\u{301}",
    ] {
        assert_eq!(display::lines(text), text);
    }
    assert_eq!(display::lines("a\r\nb\n"), "a\nb\n");
    assert_eq!(display::line("a\r\n\tb\nc"), "a b c");
    assert_eq!(display::bytes(b"a\xff\xc3(\n"), "a\\xff\\xc3(\n");
}

#[test]
fn marks_are_limited_and_need_a_base_character() {
    let stacked_marks = format!("a{}b", "\u{336}".repeat(500));
    let safe_text = display::line(&stacked_marks);
    assert!(
        safe_text.starts_with(&format!("a{}\\u{{336}}", "\u{336}".repeat(MAX_MARKS))),
        "{safe_text}"
    );
    // A mark at the beginning, or after a blank, a sign or an escape.
    assert_eq!(display::line("\u{301}"), "\\u{301}");
    assert_eq!(display::line(" \u{301}\"\u{338}"), " \\u{301}\"\\u{338}");
    assert_eq!(display::line("\u{1b}\u{301}"), "\\u{1b}\\u{301}");
    // A run of style selectors, or one after a letter, can hide data.
    assert_eq!(
        display::line("⚠\u{fe0f}\u{fe0f}x\u{fe0f}"),
        "⚠\u{fe0f}\\u{fe0f}x\\u{fe0f}"
    );
}

#[test]
fn similar_words_are_distinguished() {
    for (text, expected) in [
        ("npx", "npx"),
        ("", "\"\""),
        ("a b", "\"a b\""),
        (r"C:\x", r"'C:\x'"),
        ("c1$(id>/tmp/x)", "'c1$(id>/tmp/x)'"),
        ("it's", "\"it's\""),
        (
            "it's `id` \"x\" $y !z \\",
            "\"it's \\u{60}id\\u{60} \\u{22}x\\u{22} \\u{24}y \\u{21}z \\\\\"",
        ),
        (
            "https://example.com/?a=1&b=2",
            "\"https://example.com/?a=1&b=2\"",
        ),
        ("a;b", "\"a;b\""),
        ("a\u{2019}; id", "\"a\\u{2019}; id\""),
        ("--require=/tmp/x.js", "--require=/tmp/x.js"),
        // Cyrillic letters in a Latin word.
        ("n\u{440}x", "\"n\\u{440}x\""),
        ("https://p\u{430}ypal.com", "\"https://p\\u{430}ypal.com\""),
        // A word of only such letters.
        (
            "\u{430}\u{440}\u{440}\u{4cf}\u{435}.com",
            "\"\\u{430}\\u{440}\\u{440}\\u{4cf}\\u{435}.com\"",
        ),
        ("ｎｐｘ", "\"\\u{ff4e}\\u{ff50}\\u{ff58}\""),
        // Signs that look like the end of a host, or like the dash of an option.
        (
            "https://example.com\u{2044}x",
            "\"https://example.com\\u{2044}x\"",
        ),
        ("\u{2013}y", "\"\\u{2013}y\""),
        // A letter of another script in a Latin word, without a similar ASCII letter.
        ("ls\u{5d0}", "\"ls\\u{5d0}\""),
        (
            "x\u{202e}y\u{a0}\u{3164}e\u{301}",
            "\"x\\u{202e}y\\u{a0}\\u{3164}e\\u{301}\"",
        ),
        // Normal words.
        ("/home/zoë/пользователь/漢字", "/home/zoë/пользователь/漢字"),
    ] {
        assert_eq!(display::word(text), expected);
    }
    let descriptions = |text| {
        let characters = lookalikes(text).into_iter();
        characters
            .map(|lookalike| lookalike.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        descriptions("n\u{440}m\u{5d0}-n\u{440}"),
        [
            "U+0440 looks like 'p'",
            "U+05D0 is of another script than the letters beside it"
        ]
    );
}

/// A shell reads a pasted word as one argument, and executes nothing in it.
#[cfg(unix)]
#[test]
fn a_word_is_one_word_for_a_shell() {
    let pieces = [
        "$(echo run)",
        "`echo run`",
        "${x}",
        "'",
        "\"",
        "\\",
        ";",
        "&",
        "|",
        ">x",
        " ",
        "!",
        "~",
        "*",
        "#",
        "(",
        "{a,b}",
        "\n",
        "a",
    ];
    let pairs = pieces
        .iter()
        .flat_map(|first| pieces.map(|second| format!("{first}{second}")));
    let texts: Vec<String> = pairs.collect();
    let words: Vec<String> = texts.iter().map(|text| display::word(text)).collect();
    let script = format!("printf '%s\\0' {}", words.join(" "));
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .output()
        .expect("a shell");
    let printed_text = String::from_utf8(output.stdout).expect("text");
    let printed_words: Vec<&str> = printed_text.split_terminator('\0').collect();
    assert_eq!(
        printed_words.len(),
        texts.len(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for ((text, word), printed_word) in texts.iter().zip(words).zip(printed_words) {
        assert!(
            !printed_word.replace("echo run", "").contains("run"),
            "{word}"
        );
        // A word with both kinds of quotes or with unprintable characters is escaped.
        assert!(
            printed_word == text || word.contains("\\u{"),
            "{word} is printed as {printed_word}"
        );
    }
}
