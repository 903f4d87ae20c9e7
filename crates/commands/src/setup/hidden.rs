//! Takes secrets out of the text of a configuration, so that its difference can be shown. The text may be of any
//! client: JSON, TOML or YAML, with comments.

use std::collections::BTreeSet;

use mainstay_config::masked_text::in_comment;
use mainstay_core::redact::HIDDEN;

/// A shorter secret is hidden only where it is a whole literal or a whole word.
const LEAST_PART: usize = 4;
/// A shorter one only where it is a whole literal.
const LEAST_WORD: usize = 3;

/// The text without these secrets and without what looks like one in its comments.
pub fn without_secrets(text: &str, secrets: &BTreeSet<String>) -> String {
    let mut text = hide_in_literals(text, secrets);
    // Of two that begin alike, the longer one first.
    let mut spellings: Vec<String> = secrets.iter().flat_map(|it| spellings(it)).collect();
    spellings.sort_unstable_by_key(|spelling| std::cmp::Reverse(spelling.len()));
    for spelling in spellings {
        text = if spelling.len() < LEAST_PART {
            hide_word(&text, &spelling)
        } else {
            text.replace(&spelling, HIDDEN)
        };
    }
    text.split_inclusive('\n').map(hide_in_comment).collect()
}

/// A secret as it may stand in a text: as it is, with escapes, and each of its lines, as in blocks of YAML.
fn spellings(secret: &str) -> Vec<String> {
    let lines = secret.lines().map(|line| line.trim().to_owned());
    let mut all: Vec<String> = lines.collect();
    if let Ok(literal) = serde_json::to_string(secret) {
        all.push(literal[1..literal.len() - 1].to_owned());
    }
    all.retain(|spelling| spelling.len() >= LEAST_WORD);
    all
}

/// Reads each literal in double quotes, whatever escapes it has.
fn hide_in_literals(text: &str, secrets: &BTreeSet<String>) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('"') {
        shown.push_str(&rest[..start]);
        rest = &rest[start..];
        let Some(length) = literal_length(rest) else {
            shown.push('"');
            rest = &rest[1..];
            continue;
        };
        let literal = &rest[..length];
        let value = serde_json::from_str::<String>(literal).unwrap_or_default();
        let is_part = |secret: &String| secret.len() >= LEAST_PART && value.contains(secret);
        if secrets.contains(&value) || literal.contains('\\') && secrets.iter().any(is_part) {
            shown.push('"');
            shown.push_str(HIDDEN);
            shown.push('"');
        } else {
            shown.push_str(literal);
        }
        rest = &rest[length..];
    }
    shown.push_str(rest);
    shown
}

/// How long the literal is with which the text begins, if it ends on its line.
fn literal_length(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return Some(at + 1),
            b'\n' => return None,
            _ => {}
        }
    }
    None
}

fn hide_word(text: &str, word: &str) -> String {
    let is_open = |c: Option<char>| !c.is_some_and(char::is_alphanumeric);
    let mut shown = String::with_capacity(text.len());
    let mut kept = 0;
    for (at, _) in text.match_indices(word) {
        let end = at + word.len();
        if is_open(text[..at].chars().next_back()) && is_open(text[end..].chars().next()) {
            shown.push_str(&text[kept..at]);
            shown.push_str(HIDDEN);
            kept = end;
        }
    }
    shown.push_str(&text[kept..]);
    shown
}

fn hide_in_comment(line: &str) -> String {
    let begins = |mark: &str| {
        line.match_indices(mark)
            .find(|(at, _)| {
                line[..*at]
                    .chars()
                    .next_back()
                    .is_none_or(char::is_whitespace)
            })
            .map(|(at, _)| at + mark.len())
    };
    let Some(from) = ["//", "/*", "#"].into_iter().filter_map(begins).min() else {
        return line.to_owned();
    };
    let (code, comment) = line.split_at(from);
    let mut shown = code.to_owned();
    let mut kept = 0;
    for at in in_comment(comment) {
        shown.push_str(&comment[kept..at.start]);
        shown.push_str(HIDDEN);
        kept = at.end;
    }
    shown.push_str(&comment[kept..]);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_spelling_of_a_secret_is_shown() {
        let secrets = [
            "-----BEGIN KEY-----\nMIIEsecret\n-----END KEY-----\n",
            "pa\"ss-s3cret",
            "a\\b-s3cret",
            "tab\ts3cret",
            "ABCA-s3cret",
            "xyz",
            "9",
        ];
        let secrets = secrets.map(str::to_owned).into_iter().collect();
        for text in [
            r#"{"KEY": "-----BEGIN KEY-----\nMIIEsecret\n-----END KEY-----\n", "PORT": 9}"#,
            r#"{"P": "pa\"ss-s3cret", "Q": "a\\b-s3cret", "R": "tab\ts3cret"}"#,
            r#"{"H": "Bearer ABC\u0041-s3cret", "args": ["--token=ABCA-s3cret"]}"#,
            r#"{"short": "xyz", "shorter": "9"}"#,
            "KEY: |\n  -----BEGIN KEY-----\n  MIIEsecret\n  -----END KEY-----\nQ: a\\b-s3cret\n",
            "key = \"\"\"\n-----BEGIN KEY-----\nMIIEsecret\n-----END KEY-----\n\"\"\"\nshort = 'xyz'\n",
            "  // TOKEN=of-a-comment-s3cret\n  # \"API_KEY\": \"of-a-comment-s3cret\"\n",
            "x: 1 # Authorization: Bearer of-a-comment-s3cret\n",
        ] {
            let shown = without_secrets(text, &secrets);
            for secret in ["s3cret", "MIIE", "BEGIN", "xyz", "\"9\""] {
                assert!(!shown.contains(secret), "{secret} in {shown}");
            }
            assert_eq!(shown.lines().count(), text.lines().count(), "{shown}");
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        let secrets = ["xyz", "token-of-ours"].map(str::to_owned).into();
        let text = "{\n  // A comment of a person, with https://host/path.\n  \"a\": \"wxyz\", \"n\": \"x\\ny\"\n}\n";
        assert_eq!(without_secrets(text, &secrets), text);
    }
}
