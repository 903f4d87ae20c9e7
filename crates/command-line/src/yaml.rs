//! Writes JSON as YAML in blocks (YAML 1.2.2, chapter 8), so that YAML 1.1 reads the same.

use std::fmt::Write as _;

use mainstay_core::display;
use serde_json::Value;

/// A document that ends in a line break.
pub fn document(value: &Value) -> String {
    let mut yaml = String::new();
    match value {
        Value::Object(members) if !members.is_empty() => block(value, 0, false, &mut yaml),
        Value::Array(elements) if !elements.is_empty() => block(value, 0, false, &mut yaml),
        _ => yaml = scalar(value) + "\n",
    }
    yaml
}

/// A collection on lines of its own. With `inline`, the first one continues the current line.
fn block(value: &Value, depth: usize, mut inline: bool, to: &mut String) {
    let mut indent = |to: &mut String| {
        if !std::mem::take(&mut inline) {
            to.push_str(&"  ".repeat(depth));
        }
    };
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                indent(to);
                to.push_str(&text(key));
                to.push(':');
                member(value, depth, to);
            }
        }
        Value::Array(elements) => {
            for value in elements {
                indent(to);
                to.push('-');
                if is_block(value) {
                    to.push(' ');
                    block(value, depth + 1, true, to);
                } else {
                    writeln!(to, " {}", scalar(value)).ok();
                }
            }
        }
        _ => {}
    }
}

fn member(value: &Value, depth: usize, to: &mut String) {
    if is_block(value) {
        to.push('\n');
        block(value, depth + 1, false, to);
    } else {
        writeln!(to, " {}", scalar(value)).ok();
    }
}

fn is_block(value: &Value) -> bool {
    match value {
        Value::Object(members) => !members.is_empty(),
        Value::Array(elements) => !elements.is_empty(),
        _ => false,
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(string) => text(string),
        other => other.to_string(),
    }
}

/// A plain text if every reader takes it for text, or else a text in double quotes.
fn text(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        let mut buffer = [0; 4];
        let same = c.encode_utf8(&mut buffer);
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            // Characters that a terminal would interpret or hide.
            _ if display::line(same) != *same => match u32::from(c) {
                code @ 0..=0xff => write!(quoted, "\\x{code:02x}").unwrap_or_default(),
                code @ 0x100..=0xffff => write!(quoted, "\\u{code:04x}").unwrap_or_default(),
                code => write!(quoted, "\\U{code:08x}").unwrap_or_default(),
            },
            _ => quoted.push(c),
        }
    }
    quoted + "\""
}

fn is_plain(text: &str) -> bool {
    /// Words that are not text in YAML 1.1 or 1.2.
    const WORDS: [&str; 10] = [
        "true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan",
    ];
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let ends = text.ends_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | ')'));
    let inside = text.chars().all(|c| {
        c.is_ascii_alphanumeric()
            || matches!(c, ' ' | '_' | '-' | '.' | '/' | '(' | ')' | ';' | '+' | '@')
    });
    starts && ends && inside && !WORDS.contains(&text.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn collections_are_blocks_and_odd_texts_are_quoted() {
        let value = json!({
            "servers": [
                {"name": "files", "up": true, "pid": 12, "none": null, "args": [], "env": {}},
                {"name": "no", "nested": [["a b", "1"], [{"x": 1.5}]], "more": {"a: b": "x: #y"}},
            ],
            "time": "2026-11-25T14:03:00Z",
            "odd": "a\u{1b}[2J\n\"\u{202e}\u{e0041}é",
            "dash": "- x",
        });
        insta::assert_snapshot!(document(&value));
        assert_eq!(document(&json!([])), "[]\n");
        assert_eq!(document(&json!("x")), "x\n");
    }
}
