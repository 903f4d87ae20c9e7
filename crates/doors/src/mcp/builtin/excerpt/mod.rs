//! Selects a part of a stored object, so that a large result does not fill a context window. The
//! query applies to the text of a tool result, and to the raw text of any other object.

mod budget;
mod pattern;
mod window;

use std::time::Duration;

use mainstay_core::message::{
    foreign::{Exact, exact},
    items, member, shown_member,
};
use serde::{Deserialize, Serialize};
use serde_json_path::JsonPath;

use self::{pattern::Pattern, window::TextWindow};

pub use self::budget::{Budget, Reader};

/// Length of an excerpt in characters: the default and the maximum.
const DEFAULT_LENGTH: usize = 4_000;
const MAX_LENGTH: usize = 16_000;

/// Maximum size of a document for a JSON path, in bytes and in values. A value takes up to 200
/// bytes of memory.
const MAX_DOCUMENT: usize = 8 << 20;
const MAX_VALUES: usize = 500_000;

/// Maximum length of a path, and number of commas in it. Each selector may double the results.
const MAX_PATH: usize = 500;
const MAX_COMMAS: usize = 3;

/// A stored object, prepared for reading.
#[derive(Debug)]
pub struct ReadableObject {
    /// The stored text.
    pub raw: String,
    /// The texts of a tool result; `None` for any other object.
    text: Option<String>,
}

/// The arguments of `read_object`, or the query of an object's URI.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExcerptQuery {
    pub cid: String,
    offset: Option<usize>,
    length: Option<usize>,
    lines: Option<String>,
    pattern: Option<String>,
    path: Option<String>,
    #[serde(default)]
    raw: bool,
}

/// A part of the selected text.
#[derive(Debug, Serialize)]
pub struct Excerpt {
    pub text: String,
    /// The excerpt's offset in the selected text, in characters.
    pub offset: usize,
    pub total: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
}

#[derive(Debug, thiserror::Error)]
pub enum ExcerptError {
    #[error("only one of \"lines\", \"pattern\" and \"path\" can be chosen")]
    Several,
    #[error("\"lines\" must be as 10-40: {0:?}")]
    Lines(String),
    #[error("\"pattern\" cannot be read: {0}")]
    Pattern(#[from] regex::Error),
    #[error("\"path\" cannot be read: {0}")]
    Path(#[from] serde_json_path::ParseError),
    #[error("\"path\" is too much work: {0}")]
    Laborious(&'static str),
    #[error(
        "\"path\" is for texts of up to {MAX_DOCUMENT} bytes and {MAX_VALUES} values: read \"lines\" or a \"pattern\""
    )]
    TooLarge,
    #[error("\"pattern\" cannot be searched for: {0}")]
    Automaton(String),
    #[error(
        "\"pattern\" has a \\b, and a line of more than {0} bytes has letters beyond ASCII: write (?-u:\\b)"
    )]
    Boundary(usize),
    #[error("it took longer than {}: choose a simpler \"pattern\" or \"path\", or read \"lines\"", seconds(*.0))]
    Slow(Duration),
    #[error("nobody waits for it any more")]
    Abandoned,
    #[error("the object is not JSON: {0}")]
    NotJson(serde_json::Error),
}

impl ReadableObject {
    /// Parses the stored text. Slow for large objects.
    pub fn new(content: Vec<u8>) -> Self {
        let raw_text = String::from_utf8(content)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        let text = text_of(&raw_text);
        Self {
            raw: raw_text,
            text,
        }
    }

    /// The size in memory, in bytes.
    pub fn weight(&self) -> usize {
        self.raw.len() + self.text.as_ref().map_or(0, String::len)
    }
}

impl ExcerptQuery {
    /// True if the query parses the whole object into JSON values.
    pub fn has_path(&self) -> bool {
        self.path.is_some()
    }

    /// Selects the requested part. Slow for large objects.
    pub fn excerpt(
        &self,
        object: &ReadableObject,
        budget: &Budget,
    ) -> Result<Excerpt, ExcerptError> {
        let full_text = match &object.text {
            Some(text) if !self.raw => text,
            _ => &object.raw,
        };
        let length = self.length.unwrap_or(DEFAULT_LENGTH).clamp(1, MAX_LENGTH);
        let offset = self.offset.unwrap_or_default();
        let mut window = TextWindow::new(offset, length, budget);
        match (&self.lines, &self.pattern, &self.path) {
            (None, None, None) => window.push(full_text)?,
            (Some(lines), None, None) => select_lines(full_text, lines, &mut window)?,
            (None, Some(pattern), None) => {
                select_matching(full_text, pattern, budget, &mut window)?
            }
            (None, None, Some(path)) => select_path(full_text, path, &mut window)?,
            _ => return Err(ExcerptError::Several),
        }
        let (text, total) = window.finish();
        let end = offset.saturating_add(length);
        Ok(Excerpt {
            text,
            offset,
            total,
            next_offset: (end < total).then_some(end),
        })
    }
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs())
}

/// The text blocks of a tool result, joined by newlines. `None` for any other object.
fn text_of(object: &str) -> Option<String> {
    let content = member(object, "content")
        .and_then(items)
        .unwrap_or_default();
    let texts: Vec<_> = content
        .into_iter()
        .filter_map(|block| shown_member(block, "text"))
        .collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// Selects lines by a range such as `10-40`, `10-` or `10`, counted from 1.
fn select_lines(text: &str, lines: &str, window: &mut TextWindow<'_>) -> Result<(), ExcerptError> {
    let invalid_lines = || ExcerptError::Lines(lines.to_owned());
    let number = |text: &str| text.trim().parse::<usize>().map_err(|_| invalid_lines());
    let (first, last_line) = match lines.split_once('-') {
        None => (number(lines)?, number(lines)?),
        Some((first, last_line)) if last_line.trim().is_empty() => (number(first)?, usize::MAX),
        Some((first, last_line)) => (number(first)?, number(last_line)?),
    };
    if first == 0 || last_line < first {
        return Err(invalid_lines());
    }
    let selected_lines = text.lines().skip(first - 1).take(last_line - first + 1);
    for (index, line) in selected_lines.enumerate() {
        if index > 0 {
            window.push("\n")?;
        }
        window.push(line)?;
    }
    Ok(())
}

/// Selects the lines that match a pattern. Each line begins with its number.
fn select_matching(
    text: &str,
    pattern: &str,
    budget: &Budget,
    window: &mut TextWindow<'_>,
) -> Result<(), ExcerptError> {
    let mut pattern = Pattern::new(pattern)?;
    for (number, line) in (1..).zip(text.lines()) {
        if pattern.is_in(line, budget)? {
            window.push(&format!("{number}: "))?;
            window.push(line)?;
            window.push("\n")?;
        }
    }
    Ok(())
}

/// Selects the value at a JSON path. A string becomes text, any other value JSON, and several
/// values a list.
fn select_path(text: &str, path: &str, window: &mut TextWindow<'_>) -> Result<(), ExcerptError> {
    check_cost(path)?;
    if text.len() > MAX_DOCUMENT || max_values(text) > MAX_VALUES {
        return Err(ExcerptError::TooLarge);
    }
    let path = JsonPath::parse(path)?;
    let document = exact(text).map_err(ExcerptError::NotJson)?;
    match path.query(&document).all().as_slice() {
        [value] => match Exact(value).as_str() {
            Some(text) => window.push(text),
            None => window.written(|window| serde_json::to_writer(window, &Exact(value))),
        },
        several => {
            window.push("[")?;
            for (index, value) in several.iter().enumerate() {
                if index > 0 {
                    window.push(",")?;
                }
                window.written(|window| serde_json::to_writer(window, &Exact(value)))?;
            }
            window.push("]")
        }
    }
}

/// An upper bound for the number of values in a JSON text.
fn max_values(text: &str) -> usize {
    let (mut count, mut is_string, mut is_escaped) = (1, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_string,
            b'"' => is_string = !is_string,
            b',' | b'[' | b'{' if !is_string => count += 1,
            _ => {}
        }
    }
    count
}

/// Refuses a path whose cost may exceed a small multiple of the document's size, because a running
/// query cannot be interrupted.
fn check_cost(path: &str) -> Result<(), ExcerptError> {
    let mut open_quote = None;
    let mut unquoted_text = String::new();
    let mut characters = path.chars();
    while let Some(character) = characters.next() {
        match (open_quote, character) {
            (None, '\'' | '"') => open_quote = Some(character),
            (None, _) if !character.is_whitespace() => unquoted_text.push(character),
            (Some(_), '\\') => drop(characters.next()),
            (Some(open), _) if open == character => open_quote = None,
            _ => {}
        }
    }
    let has_at_most = |count: usize, text: &str| unquoted_text.matches(text).count() <= count;
    for (is_bounded, reason) in [
        (path.len() <= MAX_PATH, "it is too long"),
        (has_at_most(1, ".."), "\"..\" stands in it more than once"),
        (
            has_at_most(1, "$"),
            "\"$\" stands elsewhere than at its beginning",
        ),
        (
            has_at_most(MAX_COMMAS, ","),
            "more than three commas stand in it",
        ),
        // A query would compile the regular expression again for each value.
        (
            has_at_most(0, "match(") && has_at_most(0, "search("),
            "regular expressions are for \"pattern\"",
        ),
    ] {
        if !is_bounded {
            return Err(ExcerptError::Laborious(reason));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(object: &Value, query: Value) -> Result<Excerpt, ExcerptError> {
        let mut query = query;
        query["cid"] = "x".into();
        let query: ExcerptQuery = serde_json::from_value(query).expect("arguments");
        let object = ReadableObject::new(object.to_string().into_bytes());
        query.excerpt(&object, &Reader::new().budget())
    }

    fn result(text: &str) -> Value {
        json!({"content": [{"type": "text", "text": text}, {"type": "image", "data": "AA=="}]})
    }

    #[test]
    fn every_part_can_be_had() {
        let poem = result("one\ntwo\nthrée\nfour");
        let data = result(r#"{"rows": [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Alan"}]}"#);
        for (object, query, expected) in [
            (&poem, json!({}), "one\ntwo\nthrée\nfour"),
            (&poem, json!({"offset": 8, "length": 5}), "thrée"),
            (&poem, json!({"offset": 1000}), ""),
            (&poem, json!({"lines": "2-3"}), "two\nthrée"),
            (&poem, json!({"lines": "3-"}), "thrée\nfour"),
            (&poem, json!({"lines": "4"}), "four"),
            (
                &poem,
                json!({"lines": "2-9", "offset": 4, "length": 2}),
                "th",
            ),
            (&poem, json!({"pattern": "^t"}), "2: two\n3: thrée\n"),
            (&poem, json!({"pattern": "none"}), ""),
            (
                &poem,
                json!({"raw": true, "path": "$.content[1].type"}),
                "image",
            ),
            (&data, json!({"path": "$.rows[1].name"}), "Alan"),
            (
                &data,
                json!({"path": "$.rows[0]"}),
                r#"{"id":1,"name":"Ada"}"#,
            ),
            (&data, json!({"path": "$.rows[?@.id > 1].name"}), "Alan"),
            (&data, json!({"path": "$.rows[*].id"}), "[1,2]"),
            (&json!({"a": 1}), json!({}), r#"{"a":1}"#),
        ] {
            let excerpt = read(object, query.clone()).expect("readable");
            assert_eq!(excerpt.text, expected, "{query}");
        }
    }

    /// A value that Rust's types cannot hold does not affect other values. Numbers keep every
    /// digit.
    #[test]
    fn paths_reach_what_stands_beside_odd_values() {
        let data = r#"{"big":1e400,"id":12345678901234567890123,"odd":"\ud800","name":"x","more":[1e400,0.1]}"#;
        let object = format!(
            r#"{{"content":[{{"type":"text","text":{}}}]}}"#,
            json!(data)
        );
        let object = ReadableObject::new(object.into_bytes());
        let reader = Reader::new();
        for (path, expected) in [
            ("$.name", "x"),
            ("$.id", "12345678901234567890123"),
            ("$.big", "1e400"),
            ("$.odd", "\u{fffd}"),
            ("$.more", "[1e400,0.1]"),
            ("$.more[*]", "[1e400,0.1]"),
        ] {
            let query = json!({"cid": "x", "path": path});
            let query: ExcerptQuery = serde_json::from_value(query).expect("arguments");
            let excerpt = query.excerpt(&object, &reader.budget()).expect(path);
            assert_eq!(excerpt.text, expected, "{path}");
        }
    }

    /// The cost of a path is checked without running the query.
    #[test]
    fn paths_are_bounded() {
        let data = result(r#"{"a": {"b": [1, 2, 3], "c.., , , ,": 4}}"#);
        for path in [
            "$..b[*]",
            "$.a['c.., , , ,']",
            "$.a.b[0,1,2]",
            "$.a.b[?@ > 1]",
            r#"$.a["$"]"#,
        ] {
            read(&data, json!({"path": path})).expect(path);
        }
        for path in [
            "$..*..*",
            "$.. *.. *",
            "$.a[?count($.a.b) > 1]",
            "$[*,*][*,*][*,*][*,*]",
            "$.a[?match(@, '(a{1000}){1000}')]",
            "$.a[?search(@, 'x')]",
            &format!("$.{}", "x".repeat(MAX_PATH)),
        ] {
            let excerpt_result = read(&data, json!({"path": path}));
            assert!(
                matches!(excerpt_result, Err(ExcerptError::Laborious(_))),
                "{path}: {excerpt_result:?}"
            );
        }
        let large_result = result(&format!("[{}1]", "1,".repeat(MAX_DOCUMENT / 2)));
        let excerpt_result = read(&large_result, json!({"path": "$[0]"}));
        assert!(
            matches!(excerpt_result, Err(ExcerptError::TooLarge)),
            "{excerpt_result:?}"
        );
    }

    #[test]
    fn the_reader_is_told_where_to_go_on() {
        let long_result = result(&"é".repeat(DEFAULT_LENGTH + 10));
        let first = read(&long_result, json!({})).expect("readable");
        assert_eq!(first.total, DEFAULT_LENGTH + 10);
        assert_eq!(first.next_offset, Some(DEFAULT_LENGTH));
        let rest = read(&long_result, json!({"offset": DEFAULT_LENGTH})).expect("readable");
        assert_eq!((rest.text.chars().count(), rest.next_offset), (10, None));
        let long_excerpt = read(&result(&"x".repeat(50_000)), json!({"length": 40_000}));
        assert_eq!(long_excerpt.expect("readable").text.len(), MAX_LENGTH);
    }

    #[test]
    fn invalid_selections_are_reported() {
        for query in [
            json!({"lines": "3-2"}),
            json!({"lines": "0"}),
            json!({"lines": "all"}),
            json!({"pattern": "("}),
            json!({"pattern": "(a{1000}){1000}"}),
            json!({"path": "rows"}),
            json!({"path": "$.rows"}),
            json!({"path": "$", "lines": "1"}),
        ] {
            let excerpt_result = read(&result("text"), query.clone());
            assert!(excerpt_result.is_err(), "{query}: {excerpt_result:?}");
        }
    }
}
