//! Text on a terminal: any bytes, as text, as a line, as a word, and as a JSON string, against a list of
//! characters that a terminal interprets or hides.

use mainstay_core::display::{self, MAX_MARKS};
use serde_json::{Value, json};

/// Displays the bytes in every way.
pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let lines = display::lines(&text);
    harmless(&lines);
    assert_eq!(display::lines(&lines), lines, "shown twice");
    assert_eq!(display::bytes(lines.as_bytes()), lines, "shown as bytes");
    harmless(&display::bytes(data));

    let line = display::line(&text);
    harmless(&line);
    assert!(!line.contains(['\n', '\t']), "more than a line: {line:?}");
    assert_eq!(display::line(&line), line, "shown twice");

    let word = display::word(&text);
    harmless(&word);
    assert!(!word.contains(['\n', '\t']), "more than a line: {word:?}");

    shows_json(&json!({&*text: [&text]}).to_string());
    shows_json(&text);
}

/// Valid JSON stays valid, and keeps its meaning.
fn shows_json(text: &str) {
    let displayed = display::json(text);
    harmless(&displayed);
    if let Ok(original) = serde_json::from_str::<Value>(text) {
        let read: Value = serde_json::from_str(&displayed).expect("it stays JSON");
        assert_eq!(read, original, "{displayed:?}");
    }
}

fn harmless(displayed: &str) {
    let mut marks = 0;
    for c in displayed.chars() {
        let obeyed = c.is_control() && c != '\n' && c != '\t';
        let hidden = matches!(u32::from(c), 0xad | 0x34f | 0x61c | 0x115f | 0x1160 | 0x17b4 | 0x17b5
            | 0x180b..=0x180e | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0x3164
            | 0xe000..=0xf8ff | 0xfe00..=0xfe0d | 0xfeff | 0xffa0 | 0xfff9..=0xfffb
            | 0xe0000..=0x0010_ffff);
        assert!(!obeyed && !hidden, "{c:?} is shown in {displayed:?}");
        let is_mark = matches!(u32::from(c), 0x300..=0x36f | 0x483..=0x489 | 0x20d0..=0x20f0);
        marks = if is_mark { marks + 1 } else { 0 };
        assert!(
            marks <= MAX_MARKS,
            "{marks} marks on a character in {displayed:?}"
        );
    }
}
