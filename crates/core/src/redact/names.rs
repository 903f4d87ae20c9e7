//! Names of members, variables, headers and options whose values are secret.

use std::sync::LazyLock;

use regex::Regex;

use super::pattern;

/// The last words of secret names, in any case. A longer word comes before its prefix.
macro_rules! words {
    () => {
        concat!(
            r"(?:(?:api|access|secret|private)[_-]?keys?|tokens?|secrets?|passw(?:or)?ds?|passphrases?|pwds?",
            r"|credentials?|cookies?|authorization|x-(?:amz|goog)-signature)"
        )
    };
}
pub(super) use words;

/// Maximum length of a name, in bytes. A longer text is not a name.
const MAX_NAME: usize = 128;

static SECRET: LazyLock<Regex> = LazyLock::new(|| pattern(concat!(r"(?i-u)", words!(), "$")));

/// Names of tokens that are not secret, such as the cursor of a list.
static PAGE_TOKEN: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i-u)(?:page|next|continuation|progress|sync|change)[_-]?token$"));

/// Names of token counts of a language model.
static TOKEN_COUNT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        r"(?i-u)(?:max|min|total|input|output|prompt|completion|reasoning|thinking|audio|text|image|cached?",
        r"|read|write|creation|used|usage|remaining|context|num|number[_-]?of|n|new|budget|limit|generated",
        r"|request|response|estimated|stop|special|added)[_-]?tokens$",
    ))
});

/// The secrecy of a value, according to its name, in increasing order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Secrecy {
    Open,
    /// Secret unless the value is a number. A plural name may be the name of a count.
    Secrets,
    Secret,
}

impl Secrecy {
    pub fn from_name(name: &str) -> Self {
        // Every word above ends with one of these letters.
        let may_be = matches!(
            name.as_bytes().last().map(u8::to_ascii_lowercase),
            Some(b'n' | b't' | b'd' | b'e' | b'y' | b'l' | b's')
        );
        if !may_be || !SECRET.is_match(name) {
            return Self::Open;
        }
        let is_plural = name.ends_with(['s', 'S']);
        if is_plural && is_count(name) || !is_plural && PAGE_TOKEN.is_match(name) {
            Self::Open
        } else if is_plural && !name.to_ascii_lowercase().ends_with("credentials") {
            Self::Secrets
        } else {
            Self::Secret
        }
    }

    pub fn hides(self, value: &str) -> bool {
        match self {
            Self::Open => false,
            Self::Secret => true,
            Self::Secrets => !is_number(value),
        }
    }
}

/// True for the name of a token count.
pub(super) fn is_count(name: &str) -> bool {
    TOKEN_COUNT.is_match(name)
}

/// True for a number, with or without a unit, and for an empty value such as `null`.
pub(super) fn is_number(value: &str) -> bool {
    if matches!(value, "" | "null" | "none" | "None" | "true" | "false") {
        return true;
    }
    let digits = value
        .trim_start_matches(['~', '<', '>', '+', '-'])
        .trim_end_matches(['k', 'K', 'm', 'M', '%']);
    digits.starts_with(|first: char| first.is_ascii_digit())
        && digits
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b".,_/)]:".contains(&byte))
}

/// True if the length of a text allows it to be a name.
pub(super) fn may_be_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_NAME
}

/// True for a single word, as in the name of a header, variable or option.
pub(super) fn is_word(text: &str) -> bool {
    may_be_name(text)
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte))
}
