//! Parses a line of the shell: words, quotes, and JSON. Pure.

use serde::de::IgnoredAny;

use super::commands;

/// A parsed line.
#[derive(Debug, PartialEq, Eq)]
pub struct ParsedLine {
    /// The name without the slash.
    pub command: String,
    pub words: Vec<LineWord>,
}

/// Text between blanks outside of quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineWord {
    /// The text without quotes.
    pub text: String,
    /// True for a JSON object.
    pub is_object: bool,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    #[error("commands begin with a slash")]
    NoSlash { first: String },
    #[error("a {0} quote is not closed")]
    OpenQuote(&'static str),
    #[error("the JSON that begins with {0:?} is not whole: {1}")]
    BadJson(String, String),
}

impl LineError {
    pub fn hint(&self) -> String {
        match self {
            Self::NoSlash { first } => match commands::nearest(first) {
                Some(near) => format!("did you mean /{near}? /help shows the commands"),
                None => "/help shows the commands".to_owned(),
            },
            Self::OpenQuote(_) => {
                "close it, or write \\ before a quote that is meant as such".to_owned()
            }
            Self::BadJson(..) => {
                "close what is open; strings and names of members stand in double quotes".to_owned()
            }
        }
    }
}

/// Splits pasted text into commands. A line that begins with a slash or `#` begins a new command.
pub fn commands(text: &str) -> Vec<&str> {
    let mut commands = Vec::new();
    let mut from = 0;
    for (at, _) in text.match_indices('\n') {
        if text[at..].trim_start().starts_with(['/', '#']) {
            commands.push(&text[from..at]);
            from = at;
        }
    }
    commands.push(&text[from..]);
    commands
}

/// Parses a line. `None` for an empty line or a comment.
pub fn parse(line: &str) -> Result<Option<ParsedLine>, LineError> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let first = line.split_whitespace().next().unwrap_or_default();
    let Some(command) = first.strip_prefix('/') else {
        let first = first.to_owned();
        return Err(LineError::NoSlash { first });
    };
    Ok(Some(ParsedLine {
        command: command.to_owned(),
        words: words(&line[first.len()..])?,
    }))
}

/// Splits a text into words. A word may have quoted parts. A value that begins with a bracket ends where
/// its JSON ends, if the JSON is valid.
pub fn words(text: &str) -> Result<Vec<LineWord>, LineError> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (word, after) = word(rest)?;
        words.push(word);
        rest = after.trim_start();
    }
    Ok(words)
}

/// Parses the first word. Returns the word and the rest of the text.
fn word(text: &str) -> Result<(LineWord, &str), LineError> {
    if text.starts_with('{') {
        let end = json_end(text).map_err(|error| {
            let start = text.chars().take(20).collect();
            LineError::BadJson(start, error)
        })?;
        let word = LineWord {
            text: text[..end].to_owned(),
            is_object: true,
        };
        return Ok((word, &text[end..]));
    }
    let mut word = String::new();
    let mut is_value = false;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let next = &rest[c.len_utf8()..];
        rest = match c {
            c if c.is_whitespace() => break,
            '\'' => {
                let (quoted, after) = next
                    .split_once('\'')
                    .ok_or(LineError::OpenQuote("single"))?;
                word.push_str(quoted);
                after
            }
            '"' => quoted(next, &mut word)?,
            '\\' => {
                let escaped = next.chars().next();
                word.push(escaped.unwrap_or('\\'));
                &next[escaped.map_or(0, char::len_utf8)..]
            }
            // A value that begins with a bracket but is not JSON is read as plain text.
            '{' | '[' if is_value && let Ok(end) = json_end(rest) => {
                word.push_str(&rest[..end]);
                &rest[end..]
            }
            c => {
                word.push(c);
                next
            }
        };
        is_value = c == '=';
    }
    let word = LineWord {
        text: word,
        is_object: false,
    };
    Ok((word, rest))
}

/// Reads to the closing quote, and returns the rest of the text. A backslash escapes only quotes and
/// backslashes.
fn quoted<'t>(text: &'t str, word: &mut String) -> Result<&'t str, LineError> {
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok(&text[at + 1..]),
            '\\' => match chars.next() {
                Some((_, c @ ('"' | '\\'))) => word.push(c),
                Some((_, c)) => word.extend(['\\', c]),
                None => break,
            },
            c => word.push(c),
        }
    }
    Err(LineError::OpenQuote("double"))
}

/// The end of the JSON value at the beginning of the text.
fn json_end(text: &str) -> Result<usize, String> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    match values.next() {
        Some(Ok(_)) => Ok(values.byte_offset()),
        Some(Err(error)) => Err(error.to_string()),
        None => Err("there is none".to_owned()),
    }
}

/// Quotes a text so that it is parsed as one word.
pub fn as_word(text: &str) -> String {
    let is_plain = |c: char| !c.is_whitespace() && !matches!(c, '\'' | '"' | '\\' | '{' | '[');
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    if text.contains('\'') {
        let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
        format!("\"{escaped}\"")
    } else {
        format!("'{text}'")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<String> {
        let words = words(line).expect("words");
        words.into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn words_may_be_quoted_and_json() {
        for (line, expected) in [
            ("", &[][..]),
            ("  a  b ", &["a", "b"]),
            ("text='a b' x", &["text=a b", "x"]),
            (r#"text="a \"b\" \\ \n" x"#, &[r#"text=a "b" \ \n"#, "x"]),
            (r"a\ b c", &["a b", "c"]),
            (r#"a/b {"x": [1, 2]} y"#, &["a/b", r#"{"x": [1, 2]}"#, "y"]),
            (r#"list=[1, "a b"] n=2"#, &[r#"list=[1, "a b"]"#, "n=2"]),
            (r#"o={"a": "}"}"#, &[r#"o={"a": "}"}"#]),
            ("t=[not json", &["t=[not", "json"]),
            ("t=a{b c}", &["t=a{b", "c}"]),
            ("Grüße=🦀 ''", &["Grüße=🦀", ""]),
        ] {
            assert_eq!(texts(line), expected, "{line}");
        }
        let words = words("a {} b={}").expect("words");
        let objects: Vec<bool> = words.iter().map(|word| word.is_object).collect();
        assert_eq!(objects, [false, true, false]);
    }

    #[test]
    fn a_line_is_a_command_and_words() {
        let line = parse(" /call a/b x=1 ")
            .expect("a line")
            .expect("a command");
        assert_eq!((&*line.command, line.words.len()), ("call", 2));
        for nothing in ["", "   ", "# a comment"] {
            assert_eq!(parse(nothing), Ok(None));
        }
    }

    #[test]
    fn pasted_text_has_several_commands() {
        for (text, expected) in [
            ("/a", &["/a"][..]),
            ("/a\n  /b x\n", &["/a", "\n  /b x\n"]),
            (
                "/call a/b {\n\"x\": 1\n}\n# done",
                &["/call a/b {\n\"x\": 1\n}", "\n# done"],
            ),
        ] {
            assert_eq!(commands(text), expected);
        }
    }

    #[test]
    fn what_cannot_be_read_has_a_hint() {
        for (line, message, hint) in [
            (
                "servers",
                "commands begin with a slash",
                "did you mean /servers? /help shows the commands",
            ),
            ("/call a/b x='y", "a single quote is not closed", "close it"),
            (
                "/call a/b x=\"y\\\"",
                "a double quote is not closed",
                "close it",
            ),
            (
                "/call a/b {\"x\": ",
                "the JSON that begins with \"{\\\"x\\\":",
                "close what is open",
            ),
            (
                "/call a/b {x: 1}",
                "the JSON that begins with \"{x: 1}\" is not whole: key must be",
                "double quotes",
            ),
        ] {
            let error = parse(line).expect_err(line);
            assert!(error.to_string().starts_with(message), "{error}");
            assert!(error.hint().contains(hint), "{}", error.hint());
        }
    }

    #[test]
    fn a_word_is_read_as_it_was() {
        for text in [
            "a", "a b", "it's", "\"", "a\\b", "", "{", "[1", "a'\"\\ b", "Ä",
        ] {
            assert_eq!(texts(&as_word(text)), [text], "{text}");
        }
    }
}
