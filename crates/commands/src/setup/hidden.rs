//! Hides secrets in the text of a configuration before a diff of it is printed. The text may be the file of
//! any client: JSON, TOML or YAML, with comments.

use std::collections::BTreeSet;

use mainstay_config::masked_text::in_comment;
use mainstay_core::redact::HIDDEN;

/// The minimum length of a secret that is also hidden inside a longer word. A shorter secret is hidden only
/// as a whole word or a whole literal.
const MIN_PART: usize = 4;
/// The minimum length of a secret that is hidden as a whole word. A shorter secret is hidden only as a whole
/// literal.
const MIN_WORD: usize = 3;

/// The text with these secrets hidden, and with probable secrets in comments hidden.
pub fn without_secrets(text: &str, secrets: &BTreeSet<String>) -> String {
    let mut text = hide_in_literals(text, secrets);
    // Replace the longest spelling first, because one may be the beginning of another.
    let mut spellings: Vec<String> = secrets
        .iter()
        .flat_map(|secret| spellings(secret))
        .collect();
    spellings.sort_unstable_by_key(|spelling| std::cmp::Reverse(spelling.len()));
    for spelling in spellings {
        text = if spelling.len() < MIN_PART {
            hide_word(&text, &spelling)
        } else {
            text.replace(&spelling, HIDDEN)
        };
    }
    text.split_inclusive('\n').map(hide_in_comment).collect()
}

/// The spellings of a secret in a text: unchanged, with escapes, and each of its lines, as in blocks of YAML.
fn spellings(secret: &str) -> Vec<String> {
    let lines = secret.lines().map(|line| line.trim().to_owned());
    let mut all: Vec<String> = lines.collect();
    if let Ok(literal) = serde_json::to_string(secret) {
        all.push(literal[1..literal.len() - 1].to_owned());
    }
    all.retain(|spelling| spelling.len() >= MIN_WORD);
    all
}

/// Hides secrets in double-quoted literals. Decodes escapes before it compares a literal with the secrets.
fn hide_in_literals(text: &str, secrets: &BTreeSet<String>) -> String {
    let mut output = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('"') {
        output.push_str(&rest[..start]);
        rest = &rest[start..];
        let Some(length) = literal_length(rest) else {
            output.push('"');
            rest = &rest[1..];
            continue;
        };
        let literal = &rest[..length];
        let value = serde_json::from_str::<String>(literal).unwrap_or_default();
        let is_part = |secret: &String| secret.len() >= MIN_PART && value.contains(secret);
        if secrets.contains(&value) || literal.contains('\\') && secrets.iter().any(is_part) {
            output.push('"');
            output.push_str(HIDDEN);
            output.push('"');
        } else {
            output.push_str(literal);
        }
        rest = &rest[length..];
    }
    output.push_str(rest);
    output
}

/// Length of the literal at the beginning of the text, in bytes. `None` if it does not end on its line.
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
    let mut output = String::with_capacity(text.len());
    let mut copied_to = 0;
    for (at, _) in text.match_indices(word) {
        let end = at + word.len();
        if is_open(text[..at].chars().next_back()) && is_open(text[end..].chars().next()) {
            output.push_str(&text[copied_to..at]);
            output.push_str(HIDDEN);
            copied_to = end;
        }
    }
    output.push_str(&text[copied_to..]);
    output
}

fn hide_in_comment(line: &str) -> String {
    let comment_start = |mark: &str| {
        line.match_indices(mark)
            .find(|(at, _)| {
                line[..*at]
                    .chars()
                    .next_back()
                    .is_none_or(char::is_whitespace)
            })
            .map(|(at, _)| at + mark.len())
    };
    let Some(from) = ["//", "/*", "#"]
        .into_iter()
        .filter_map(comment_start)
        .min()
    else {
        return line.to_owned();
    };
    let (code, comment) = line.split_at(from);
    let mut output = code.to_owned();
    let mut copied_to = 0;
    for at in in_comment(comment) {
        output.push_str(&comment[copied_to..at.start]);
        output.push_str(HIDDEN);
        copied_to = at.end;
    }
    output.push_str(&comment[copied_to..]);
    output
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
            let output = without_secrets(text, &secrets);
            for secret in ["s3cret", "MIIE", "BEGIN", "xyz", "\"9\""] {
                assert!(!output.contains(secret), "{secret} in {output}");
            }
            assert_eq!(output.lines().count(), text.lines().count(), "{output}");
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        let secrets = ["xyz", "token-of-ours"].map(str::to_owned).into();
        let text = "{\n  // A comment of a person, with https://host/path.\n  \"a\": \"wxyz\", \"n\": \"x\\ny\"\n}\n";
        assert_eq!(without_secrets(text, &secrets), text);
    }
}
