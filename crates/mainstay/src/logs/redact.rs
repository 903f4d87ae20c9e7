//! Takes the secrets out of what servers print, where they can be recognised (S11, invariant 12).

use std::{borrow::Cow, sync::LazyLock};

use regex::Regex;

/// What leads to a secret, and the secret: `Authorization: Basic x`, `Bearer x`, `"access_token":"x"`,
/// `api-key=x`. Only ASCII counts, so that no table of Unicode is needed.
static SECRET: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r#"(?i-u)((?:authorization["']?[ \t]*[:=][ \t]*["']?(?:(?:basic|bearer|digest|token)[ \t]+)?"#,
        r#"|\bbearer[ \t]+"#,
        r#"|(?:token|secret|password|api[_-]?key)["']?[ \t]*[:=][ \t]*["']?(?:bearer[ \t]+)?))"#,
        r#"[!#-&(-+\--:<-|~]+"#,
    ))
    .expect("a valid pattern")
});

pub fn redact(text: &str) -> Cow<'_, str> {
    SECRET.replace_all(text, "${1}[redacted]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_go_and_the_rest_stays() {
        for (text, expected) in [
            ("Bearer xyz", "Bearer [redacted]"),
            ("got bearer  a.b-c_d/e=, ok", "got bearer  [redacted], ok"),
            (
                "Authorization: Basic dXNlcg==",
                "Authorization: Basic [redacted]",
            ),
            ("authorization=abc", "authorization=[redacted]"),
            (
                r#"{"Authorization": "Bearer a1", "x": 1}"#,
                r#"{"Authorization": "Bearer [redacted]", "x": 1}"#,
            ),
            (
                r#"{"access_token":"s3cr3t","n":2}"#,
                r#"{"access_token":"[redacted]","n":2}"#,
            ),
            ("GET /x?token=abc;y=1", "GET /x?token=[redacted];y=1"),
            ("X-Api-Key: k1\nnext", "X-Api-Key: [redacted]\nnext"),
            ("GITHUB_TOKEN='ghp_1'", "GITHUB_TOKEN='[redacted]'"),
            ("password = geheim", "password = [redacted]"),
            // Nothing to hide.
            (
                "max_tokens: 5, token count 7",
                "max_tokens: 5, token count 7",
            ),
            ("a forbearer says grüß dich", "a forbearer says grüß dich"),
            ("Authorization is needed", "Authorization is needed"),
        ] {
            assert_eq!(redact(text), expected);
        }
    }
}
