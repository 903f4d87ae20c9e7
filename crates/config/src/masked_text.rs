//! Masks the text of a configuration: replaces its secrets by placeholders, and keeps all other bytes. Also
//! restores the secrets.
//!
//! Secrets in members are masked by the rules of [`masking`]. In comments, everything that looks like a
//! secret is masked, because people comment out entries. The placeholder of a comment,
//! `${secret:comment/3}`, is valid only in comments of the same text.

use std::{collections::HashMap, ops::Range};

use jsonc_parser::{
    CollectOptions, CommentCollectionStrategy, ParseResult, ast::Value as Node,
    common::Ranged as _, parse_to_ast, tokens::Token,
};
use serde_json::Value;

use crate::{
    Syntax,
    edit::{Document, EditError, number},
    masking::{
        self, START, Secrecy, SecretOption, UnknownSecret, escaped, holds_credentials,
        is_reference, is_secret, mask, names_a_secret, option, secrecy_of,
    },
    read::report::Lines,
};

/// Some editors on Windows begin a file with a byte order mark.
const MARK: &str = "\u{feff}";

/// The beginning of a placeholder in a comment.
const OF_COMMENT: &str = "${secret:comment/";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRestored {
    /// The masked text or the text of the file is not JSON.
    #[error(transparent)]
    Unreadable(#[from] EditError),
    #[error("{secret}")]
    Unknown {
        secret: UnknownSecret,
        /// 1-based line and column, in characters.
        position: (usize, usize),
    },
}

/// A text whose secrets are restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredText {
    pub text: String,
    edits: Vec<Edit>,
}

/// A part of a text, and its replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Edit {
    at: Range<usize>,
    with: String,
}

/// A secret in a text.
struct Hidden {
    at: Range<usize>,
    /// The new value of a string literal, or the placeholder in a comment.
    replacement: String,
    is_literal: bool,
}

/// Returns the text with placeholders for its secrets.
pub fn masked_text(text: &str, syntax: Syntax) -> Result<String, EditError> {
    let edits = hidden(text, syntax)?.into_iter().map(|hidden| Edit {
        with: if hidden.is_literal {
            quoted(&hidden.replacement)
        } else {
            hidden.replacement
        },
        at: hidden.at,
    });
    Ok(spliced(text, &edits.collect::<Vec<_>>()))
}

/// Replaces the placeholders of a masked text by the secrets of the file. Unchanged parts have the same
/// bytes as the file.
pub fn restored_text(
    masked: &str,
    file: &str,
    syntax: Syntax,
) -> Result<RestoredText, NotRestored> {
    let secrets: HashMap<(bool, String), &str> = hidden(file, syntax)?
        .into_iter()
        .map(|hidden| ((hidden.is_literal, hidden.replacement), &file[hidden.at]))
        .collect();
    let value = Document::read(file, syntax)?.value();
    let value = match value {
        // The file is empty, so it has no secrets.
        Err(EditError::NoServers) => Value::Null,
        value => value?,
    };
    let lines = Lines::new(masked);
    let unknown = |at: &Range<usize>, secret| NotRestored::Unknown {
        secret,
        position: lines.position(at.start),
    };
    let mut edits = Vec::new();
    for found in placeholders(masked, syntax)? {
        let (is_literal, text) = (found.is_literal, found.text.clone());
        let with = match secrets.get(&(is_literal, text)) {
            Some(raw) => (*raw).to_owned(),
            None if is_literal => {
                let restored = masking::restored(&found.text, &value);
                quoted(&restored.map_err(|error| unknown(&found.at, error))?)
            }
            // An unknown placeholder in a comment is ordinary text.
            None => continue,
        };
        edits.push(Edit { at: found.at, with });
    }
    Ok(RestoredText {
        text: spliced(masked, &edits),
        edits,
    })
}

impl RestoredText {
    /// Converts a position in this text to the position in the masked text. A position is a 1-based line
    /// and column, in characters.
    pub fn position_in(&self, masked: &str, (line, column): (usize, usize)) -> (usize, usize) {
        let Some(mut offset) = offset_of(&self.text, line, column) else {
            return (line, column);
        };
        for edit in &self.edits {
            // The edits are in ascending order, and the earlier ones are already undone in `offset`.
            if offset < edit.at.start {
                break;
            }
            offset = match offset.checked_sub(edit.at.start + edit.with.len()) {
                Some(behind) => edit.at.end + behind,
                // A position within a secret becomes the beginning of its placeholder.
                None => {
                    offset = edit.at.start;
                    break;
                }
            };
        }
        let masked_at = (0..=offset.min(masked.len()))
            .rev()
            .find(|at| masked.is_char_boundary(*at));
        Lines::new(masked).position(masked_at.unwrap_or(0))
    }
}

fn offset_of(text: &str, line: usize, column: usize) -> Option<usize> {
    let mut lines = text.split_inclusive('\n');
    let before: usize = lines
        .by_ref()
        .take(line.checked_sub(1)?)
        .map(str::len)
        .sum();
    let rest = lines.next().unwrap_or_default();
    let mut chars = rest.char_indices().map(|(at, _)| at);
    let within = chars.nth(column.checked_sub(1)?).unwrap_or(rest.len());
    Some(before + within)
}

fn spliced(text: &str, edits: &[Edit]) -> String {
    let mut done = String::with_capacity(text.len());
    let mut from = 0;
    for edit in edits {
        done.push_str(&text[from..edit.at.start]);
        done.push_str(&edit.with);
        from = edit.at.end;
    }
    done.push_str(&text[from..]);
    done
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Parses the text into a tree and comments. Also returns the length of the byte order mark.
fn parsed(text: &str, syntax: Syntax) -> Result<(usize, ParseResult<'_>), EditError> {
    let plain = text.strip_prefix(MARK).unwrap_or(text);
    let collect = CollectOptions {
        comments: CommentCollectionStrategy::AsTokens,
        tokens: true,
    };
    let parsed = parse_to_ast(plain, &collect, &syntax.options())
        .map_err(|error| EditError::Unreadable(error.to_string()))?;
    Ok((text.len() - plain.len(), parsed))
}

fn comments(parsed: &ParseResult<'_>, before: usize) -> Vec<Range<usize>> {
    let comments = parsed
        .tokens
        .iter()
        .flatten()
        .filter(|token| matches!(token.token, Token::CommentLine(_) | Token::CommentBlock(_)));
    comments
        .map(|token| token.range.start + before..token.range.end + before)
        .collect()
}

/// The secrets of a text, in the order of the text.
fn hidden(text: &str, syntax: Syntax) -> Result<Vec<Hidden>, EditError> {
    let (before, parsed) = parsed(text, syntax)?;
    let mut walk = Walk {
        before,
        found: Vec::new(),
    };
    if let Some(node) = &parsed.value {
        walk.value(node, "", Secrecy::Open);
    }
    let mut found = walk.found;
    let mut number = 0;
    for comment in comments(&parsed, before) {
        let (from, comment_text) = (comment.start + 2, &text[comment]);
        // The text of the comment, without its delimiters.
        let comment_text = comment_text.strip_suffix("*/").unwrap_or(comment_text);
        for at in in_comment(comment_text.get(2..).unwrap_or_default()) {
            number += 1;
            found.push(Hidden {
                at: from + at.start..from + at.end,
                replacement: format!("{OF_COMMENT}{number}}}"),
                is_literal: false,
            });
        }
    }
    found.sort_by_key(|hidden| hidden.at.start);
    Ok(found)
}

/// Finds the secrets in a tree by the rules by which [`masking`] finds those in a value.
struct Walk {
    before: usize,
    found: Vec<Hidden>,
}

impl Walk {
    fn value(&mut self, node: &Node<'_>, pointer: &str, secrecy: Secrecy) {
        match node {
            Node::Object(object) => {
                for member in &object.properties {
                    let key = member.name.as_str();
                    let is_object = matches!(member.value, Node::Object(_));
                    let text = member.value.as_string_lit().map(|text| &*text.value);
                    let below = if holds_credentials(key, pointer, text) {
                        Secrecy::Secret
                    } else {
                        secrecy_of(key, is_object, pointer, secrecy)
                    };
                    let pointer = format!("{pointer}/{}", escaped(key));
                    self.value(&member.value, &pointer, below);
                }
            }
            Node::Array(array) => self.elements(&array.elements, pointer, secrecy),
            Node::StringLit(text) => {
                let value = Value::from(&*text.value);
                self.scalar(node, &value, pointer, secrecy);
            }
            Node::NumberLit(text) => {
                if let Some(value) = number(text.value) {
                    self.scalar(node, &value, pointer, secrecy);
                }
            }
            Node::BooleanLit(_) | Node::NullKeyword(_) => {}
        }
    }

    fn elements(&mut self, elements: &[Node<'_>], pointer: &str, secrecy: Secrecy) {
        let mut after = Secrecy::Open;
        for (index, element) in elements.iter().enumerate() {
            let pointer = format!("{pointer}/{index}");
            let secret = if secrecy == Secrecy::Secret {
                secrecy
            } else {
                after
            };
            after = Secrecy::Open;
            let text = element.as_string_lit().filter(|_| secret == Secrecy::Open);
            match text.and_then(|text| option(&text.value, &pointer)) {
                Some(SecretOption::WithValue(masked)) => self.hide(element, masked),
                Some(SecretOption::BeforeValue) => after = Secrecy::Secret,
                None => self.value(element, &pointer, secret),
            }
        }
    }

    fn scalar(&mut self, node: &Node<'_>, value: &Value, pointer: &str, secrecy: Secrecy) {
        if let Value::String(masked) = mask(value, pointer, secrecy)
            && *value != masked
        {
            self.hide(node, masked);
        }
    }

    fn hide(&mut self, node: &Node<'_>, replacement: String) {
        let range = node.range();
        self.found.push(Hidden {
            at: range.start + self.before..range.end + self.before,
            replacement,
            is_literal: true,
        });
    }
}

/// A string literal that contains a placeholder, or a placeholder in a comment.
struct Placeholder {
    at: Range<usize>,
    /// The value of the literal, or only the placeholder.
    text: String,
    is_literal: bool,
}

/// Finds the placeholders of a text, in the order of the text.
fn placeholders(text: &str, syntax: Syntax) -> Result<Vec<Placeholder>, EditError> {
    let (before, parsed) = parsed(text, syntax)?;
    let mut found = Vec::new();
    let mut nodes: Vec<&Node<'_>> = parsed.value.iter().collect();
    while let Some(node) = nodes.pop() {
        match node {
            Node::Object(object) => {
                nodes.extend(object.properties.iter().map(|member| &member.value));
            }
            Node::Array(array) => nodes.extend(&array.elements),
            Node::StringLit(literal) if literal.value.contains(START) => {
                found.push(Placeholder {
                    at: literal.range.start + before..literal.range.end + before,
                    text: literal.value.to_string(),
                    is_literal: true,
                });
            }
            _ => {}
        }
    }
    for comment in comments(&parsed, before) {
        let inside = &text[comment.clone()];
        let mut from = 0;
        while let Some(at) = inside[from..].find(OF_COMMENT) {
            let start = from + at;
            let Some(brace_offset) = inside[start..].find('}') else {
                break;
            };
            from = start + brace_offset + 1;
            found.push(Placeholder {
                at: comment.start + start..comment.start + from,
                text: inside[start..from].to_owned(),
                is_literal: false,
            });
        }
    }
    found.sort_by_key(|placeholder| placeholder.at.start);
    Ok(found)
}

/// A word of a comment, or the `:` or `=` after a name.
enum Piece {
    Word(Range<usize>),
    Is,
}

/// Finds the parts of a comment that look like secrets. Prose is treated like a commented-out entry. A part
/// that is masked by mistake is restored like a secret.
pub fn in_comment(comment: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut name: Option<&str> = None;
    let mut is_value = false;
    let mut is_after_option = false;
    for piece in pieces(comment) {
        let Piece::Word(at) = piece else {
            is_value = name.is_some();
            continue;
        };
        let word = &comment[at.clone()];
        let is_named =
            is_value && name.is_some_and(|name| names_a_secret(name) || is_variable(name));
        let follows_bearer = name == Some("Bearer") && !is_value;
        is_value = false;
        let secret = if is_reference(word) {
            None
        } else if is_named || is_after_option || follows_bearer || is_secret(word) {
            Some(at.clone())
        } else if let Some((url, _)) = word.split_once('?').filter(|(url, _)| url.contains("://")) {
            Some(at.start + url.len() + 1..at.end)
        } else {
            None
        };
        is_after_option = word.starts_with('-') && names_a_secret(word);
        // `Authorization: Bearer T`
        let is_scheme = matches!(word, "Bearer" | "Basic");
        found.extend(secret.filter(|at| !is_scheme && !at.is_empty()));
        name = Some(if is_scheme { "Bearer" } else { word });
    }
    found
}

/// True for names that are written like a variable: `DB_PASS`.
fn is_variable(name: &str) -> bool {
    let is_upper = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    name.contains('_') && name.chars().all(is_upper)
}

fn pieces(comment: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut chars = comment.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' | '\'' => {
                let mut end = None;
                let mut is_escaped = false;
                let mut inside = chars.clone();
                while let Some((at, other)) = inside.next() {
                    match other {
                        _ if is_escaped => is_escaped = false,
                        '\\' => is_escaped = true,
                        '\n' => break,
                        _ if other == c => {
                            end = Some(at);
                            chars = inside;
                            break;
                        }
                        _ => {}
                    }
                }
                // A quote without a closing quote is an apostrophe.
                pieces.extend(end.map(|end| Piece::Word(at + 1..end)));
            }
            ':' | '=' => pieces.push(Piece::Is),
            c if ends_word(c) => {}
            _ => {
                let mut end = at + c.len_utf8();
                while let Some((next, c)) = chars.next_if(|(_, c)| !ends_word(*c)) {
                    end = next + c.len_utf8();
                }
                word(comment, at..end, &mut pieces);
            }
        }
    }
    pieces
}

fn ends_word(c: char) -> bool {
    c.is_whitespace()
        || matches!(
            c,
            '"' | '\'' | ',' | '{' | '}' | '[' | ']' | '(' | ')' | ';' | '`'
        )
}

/// Splits `NAME=value`, `NAME:value` and `NAME:` into pieces.
fn word(comment: &str, at: Range<usize>, pieces: &mut Vec<Piece>) {
    let text = &comment[at.clone()];
    let is_name = |name: &str| {
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        !name.is_empty() && name.chars().all(is_plain)
    };
    let mark = text.find(['=', ':']);
    let is_url = mark.is_some_and(|mark| text[mark..].starts_with("://"));
    match mark.filter(|mark| !is_url && is_name(&text[..*mark])) {
        Some(mark) => {
            pieces.push(Piece::Word(at.start..at.start + mark));
            pieces.push(Piece::Is);
            if mark + 1 < text.len() {
                pieces.push(Piece::Word(at.start + mark + 1..at.end));
            }
        }
        None => pieces.push(Piece::Word(at)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const NOTED: &str = "\u{feff}// mine; the old key: \"API_KEY\": \"s3cret-1\" and --token s3cret-2\n{\n  mcpServers: {\n    // \"db\": {\"env\": {\"DB_PASS\": \"s3cret-3\"}, \"url\": \"https://h/?k=s3cret-4\"}, Authorization: Bearer s3cret-5\n    \"fs\": {\"command\": 'npx', \"args\": ['--api-key=s3cret', \"--token\", 's3\\x63ret'],   \"env\": {\"PORT\": 0x1F, \"K\": \"${K}\"}}, /* sk-s3cret00000 */\n  },\n}\n";

    fn masked(text: &str) -> String {
        masked_text(text, Syntax::Jsonc).expect(text)
    }

    fn restored(masked: &str, file: &str) -> Result<String, NotRestored> {
        restored_text(masked, file, Syntax::Jsonc).map(|restored| restored.text)
    }

    #[test]
    fn a_text_is_masked_and_comes_back_to_the_byte() {
        let masked_noted = masked(NOTED);
        assert!(!masked_noted.contains("s3"), "{masked_noted}");
        assert!(!masked_noted.contains("0x1F"), "{masked_noted}");
        for part in [
            "\u{feff}// mine; the old key:",
            "'npx'",
            "\"K\": \"${K}\"",
            "\"--api-key=${secret:/mcpServers/fs/args/0=}\"",
            "\"${secret:/mcpServers/fs/env/PORT}\"",
            "\"DB_PASS\": \"${secret:comment/3}\"",
            "https://h/?${secret:comment/4}",
        ] {
            assert!(masked_noted.contains(part), "{part} in {masked_noted}");
        }
        assert_eq!(restored(&masked_noted, NOTED).as_deref(), Ok(NOTED));
    }

    /// Masking a text and masking a value hide the same secrets.
    #[test]
    fn the_text_and_the_value_are_masked_alike() {
        let file = json!({"mcpServers": {"token": {
            "command": "x", "args": ["--token", "a", "--key=b", "--secret=c", "https://u:p@h/", "https://h?q=1"],
            "env": {"A": "b", "N": 7, "B": true}, "headers": {"x": "${X}"}, "inputParams": {"p": {"type": "text", "value": "v"}},
        }}, "alerts": [{"webhook": {"url": "https://h/x"}}], "timeout": 5});
        let text = format!("{file:#}");
        let masked_value: Value =
            serde_json::from_str(&masked_text(&text, Syntax::Json).expect("JSON")).expect("JSON");
        assert_eq!(masked_value, masking::masked(&file, ""));
    }

    #[test]
    fn placeholders_may_move_and_must_be_known() {
        let file = r#"{"mcpServers": {"a": {"env": {"K": "one"}}}} // token: two"#;
        let moved = r#"{"mcpServers": {"b": {"args": ["x=${secret:/mcpServers/a/env/K}"]}}} // ${secret:comment/1}"#;
        assert_eq!(
            restored(moved, file).as_deref(),
            Ok(r#"{"mcpServers": {"b": {"args": ["x=one"]}}} // two"#)
        );
        for (masked, line) in [
            ("{\"a\":\n  \"${secret:/gone}\"}", 2),
            ("{\"a\": \"${secret:comment/1}\"}", 1),
        ] {
            let error = restored(masked, file).expect_err(masked);
            let NotRestored::Unknown { position, .. } = error else {
                panic!("{masked}: {error:?}")
            };
            assert_eq!(position.0, line, "{masked}");
        }
        let commented = "{} // ${secret:comment/9}";
        assert_eq!(restored(commented, file).as_deref(), Ok(commented));
        assert!(matches!(
            restored("{", file),
            Err(NotRestored::Unreadable(_))
        ));
    }

    #[test]
    fn a_place_is_found_in_the_masked_text() {
        let file = "{\n  \"a\": {\"token\": \"s\"}, \"odd\": 1\n}";
        let masked_file = masked(file);
        let back = restored_text(&masked_file, file, Syntax::Jsonc).expect("known");
        let place = |text: &str| {
            let at = text.find("\"odd\"").expect("there");
            Lines::new(text).position(at)
        };
        assert_eq!(
            back.position_in(&masked_file, place(file)),
            place(&masked_file)
        );
        // A position within the secret becomes the beginning of its placeholder.
        let at = masked_file.find("\"${secret").expect("there");
        assert_eq!(
            back.position_in(&masked_file, (2, 20)),
            Lines::new(&masked_file).position(at)
        );
        assert_eq!(back.position_in(&masked_file, (1, 1)), (1, 1));
        back.position_in(&masked_file, (99, 99));
        assert_eq!(back.position_in(&masked_file, (0, 0)), (0, 0));
    }

    proptest! {
        #[test]
        fn every_text_comes_back(comment in "[a-zA-Z0-9_:=\"', ?/{}-]{0,60}", key in "[a-zA-Z_]{1,10}", secret in "[a-zé\\\\\"']{1,12}") {
            let text = format!("// {comment}\n{{\"mcpServers\": {{\"s\": {{\"env\": {{{key}: {}}}}}}}}} /* {comment} */\n", Value::from(secret.as_str()));
            let masked = masked(&text);
            prop_assert_eq!(restored(&masked, &text), Ok(text));
        }

        #[test]
        fn no_text_ends_the_masking(text in ".{0,80}", edited in ".{0,80}") {
            let _ = masked_text(&text, Syntax::Jsonc);
            let _ = restored_text(&edited, &text, Syntax::Jsonc);
            let commented = format!("{{}} //{}", text.replace(['\n', '\r', '\u{2028}', '\u{2029}'], " "));
            if let Ok(masked) = masked_text(&commented, Syntax::Jsonc) {
                prop_assert_eq!(restored(&masked, &commented), Ok(commented));
            }
        }
    }
}
