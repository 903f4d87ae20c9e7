//! Removes secrets from stored texts: logs of servers, records of calls, and spans.
//!
//! A secret is recognised by its name, by its form, or because it is in the configuration
//! ([`Secrets`]). All other bytes stay unchanged.

mod edits;
mod json;
mod names;
mod secrets;
#[cfg(test)]
mod tests;
mod text;

use std::{
    borrow::Cow,
    sync::LazyLock,
    time::{Duration, Instant},
};

use regex::Regex;

pub use self::secrets::{CUT, Secrets};
use self::{
    edits::Edits,
    names::{Secrecy, words},
};
use crate::config;

/// The replacement of a secret.
pub const HIDDEN: &str = "[redacted]";

/// Replaces the rest of a text after the time limit for the operator's patterns.
const UNSEARCHED_NOTICE: &str = "[redacted: the patterns of `journal.redact` took too long]";

/// Time limit for the operator's patterns in one text. A pattern can take quadratic time on some
/// texts.
const SEARCH_TIME_LIMIT: Duration = Duration::from_secs(1);

/// Number of matches of an operator's pattern between two checks of the time limit.
const MATCHES_PER_CHECK: usize = 64;

/// Secrets with a known form: tokens of well-known services and of Mainstay, JSON Web Tokens, and
/// private keys.
static KNOWN_FORMS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        r"(?-u)\b(?:A[KS]IA[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{35}|gh[oprsu]_[0-9A-Za-z]{20,}",
        r"|github_pat_[0-9A-Za-z_]{20,}|glpat-[0-9A-Za-z_-]{16,}|sk-[0-9A-Za-z_-]{20,}",
        r"|sk_(?:live|test)_[0-9A-Za-z]{16,}|xox[abprs]-[0-9A-Za-z-]{10,}|mst_[0-9a-f]{32,}",
        r"|npm_[0-9A-Za-z]{20,}|hf_[0-9A-Za-z]{20,}|pypi-(?:AgE[0-9A-Za-z_-]{12,}|[0-9A-Za-z_-]{32,})",
        r"|whsec_[0-9A-Za-z+/=_-]{16,}|SG\.[0-9A-Za-z_-]{16,}\.[0-9A-Za-z_-]{16,}",
        r"|eyJ[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]*)",
        r"|-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----[0-9A-Za-z+/=\s\\:,]*(?:-----END [A-Z ]{0,32}PRIVATE KEY-----)?",
    ))
});

/// The password in a URL. Longer user names and passwords are rare.
static USER_INFO: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?-u)(://[!#-&(-.0-9;-?A-~]{0,128}:)[!#-&(-.0-?A-~]{1,256}@"));

/// The path of a Slack webhook, which is enough to post messages.
static SLACK_WEBHOOK: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?i-u)(hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/)[0-9A-Za-z/_-]+")
});

/// A fast filter: matches every text in which one of the patterns above may match.
static HINT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        r"(?i-u)bearer|",
        words!(),
        r"|hooks\.slack|://[!#-&(-.0-?A-~]{1,385}@|\\u|(?-i:A[KS]IA|AIza|gh[oprsu]_|github_pat_|glpat-|sk[-_]",
        r"|xox[abprs]-|mst_|eyJ|PRIVATE KEY|npm_|hf_|pypi-|whsec_|SG\.)",
    ))
});

/// Compiles the patterns, which takes milliseconds. Also lets the regex library count the
/// processors, which reads files. Otherwise the first use does both.
pub fn prepare() {
    redact("bearer token=prepared://a:b@c");
    for pattern in [&KNOWN_FORMS, &SLACK_WEBHOOK, &USER_INFO, &HINT] {
        pattern.is_match("");
    }
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}

/// Removes secrets with a known name or form.
pub fn redact(text: &str) -> Cow<'_, str> {
    if !HINT.is_match(text) {
        return Cow::Borrowed(text);
    }
    let steps: [(&Regex, &str); 3] = [
        (&KNOWN_FORMS, HIDDEN),
        (&SLACK_WEBHOOK, "${1}[redacted]"),
        (&USER_INFO, "${1}[redacted]@"),
    ];
    steps
        .into_iter()
        .fold(text::hide_named(text), |text, (pattern, replacement)| {
            replace_text(text, |text| pattern.replace_all(text, replacement))
        })
}

/// Removes secrets with a known name or form, and the secrets of a server's configuration.
pub fn redact_with<'t>(text: &'t str, secrets: Option<&Secrets>) -> Cow<'t, str> {
    match secrets {
        Some(secrets) => {
            let without_secrets =
                replace_text(secrets.hide(text), |text| secrets.without_halves(text));
            replace_text(without_secrets, |text| {
                secrets.beside_findings(text, redact)
            })
        }
        None => redact(text),
    }
}

/// Replaces a text by `replace`. If nothing changes, a borrowed text stays borrowed.
fn replace_text(text: Cow<'_, str>, replace: impl Fn(&str) -> Cow<'_, str>) -> Cow<'_, str> {
    match replace(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(new_text) => Cow::Owned(new_text),
    }
}

/// The rules of `journal.redact` for recorded texts.
#[derive(Debug)]
pub struct Redactor {
    /// True to apply [`redact`], and to hide members with secret names.
    defaults: bool,
    /// Keys in lower case.
    keys: Vec<String>,
    patterns: Vec<Regex>,
    /// A fast filter: matches every text that may contain one of the keys.
    any_key: Option<Regex>,
    clock: fn() -> Instant,
}

impl Redactor {
    pub fn new(rules: &config::Redact, clock: fn() -> Instant) -> Result<Self, regex::Error> {
        let keys: Vec<String> = rules.keys.iter().map(|key| key.to_lowercase()).collect();
        // A key may be written with escapes, so texts with a backslash are always examined.
        let key_patterns = keys.iter().map(|key| regex::escape(key));
        let key_patterns: Vec<String> = key_patterns.chain([r"\\".to_owned()]).collect();
        let any_key = format!("(?i){}", key_patterns.join("|"));
        let compiled_patterns = rules
            .patterns
            .iter()
            .map(|pattern| config::redact_pattern(pattern));
        Ok(Self {
            defaults: rules.defaults,
            any_key: (!keys.is_empty())
                .then(|| Regex::new(&any_key))
                .transpose()?,
            keys,
            patterns: compiled_patterns.collect::<Result<_, _>>()?,
            clock,
        })
    }

    /// Removes secrets from a text. In JSON, redacts each member and string. The work is linear in
    /// the text, at any depth of nesting.
    pub fn redact<'t>(&self, text: &'t str, secrets: Option<&Secrets>) -> Cow<'t, str> {
        let rules = Rules {
            redactor: self,
            secrets: secrets.filter(|secrets| secrets.may_be_in(text)),
            until: (!self.patterns.is_empty()).then(|| (self.clock)() + SEARCH_TIME_LIMIT),
        };
        if !rules.may_change(text) {
            return Cow::Borrowed(text);
        }
        match rules.text(text, 0) {
            Some(new_text) => Cow::Owned(new_text),
            None => Cow::Borrowed(text),
        }
    }
}

/// The rules for one text, with its time limit.
#[derive(Clone, Copy)]
struct Rules<'r> {
    redactor: &'r Redactor,
    secrets: Option<&'r Secrets>,
    /// Time at which the operator's patterns stop. `None` without patterns.
    until: Option<Instant>,
}

impl Rules<'_> {
    fn may_change(&self, text: &str) -> bool {
        let Redactor {
            defaults,
            keys: _,
            patterns,
            any_key,
            clock: _,
        } = self.redactor;
        self.secrets.is_some()
            || !patterns.is_empty()
            || any_key
                .as_ref()
                .is_some_and(|pattern| pattern.is_match(text))
            || *defaults && HINT.is_match(text)
    }

    /// The secrecy of a value with this name (of a member, header or variable).
    fn secrecy(&self, name: &str) -> Secrecy {
        let Redactor { defaults, keys, .. } = self.redactor;
        if !keys.is_empty() && keys.contains(&name.to_lowercase()) {
            Secrecy::Secret
        } else if *defaults {
            Secrecy::from_name(name)
        } else {
            Secrecy::Open
        }
    }

    /// Redacts plain text. `None` if nothing changes.
    fn redact_plain(&self, text: &str) -> Option<String> {
        let mut redacted_text = Cow::Borrowed(text);
        if let Some(secrets) = self.secrets {
            redacted_text = replace_text(redacted_text, |text| secrets.hide(text));
        }
        if self.redactor.defaults {
            redacted_text = replace_text(redacted_text, |text| match self.secrets {
                Some(secrets) => secrets.beside_findings(text, redact),
                None => redact(text),
            });
        }
        for pattern in &self.redactor.patterns {
            redacted_text = replace_text(redacted_text, |text| self.without(pattern, text));
        }
        match redacted_text {
            Cow::Borrowed(_) => None,
            Cow::Owned(new_text) => Some(new_text),
        }
    }

    /// Hides the matches of an operator's pattern. After the time limit, hides the rest of the
    /// text.
    fn without<'t>(&self, pattern: &Regex, text: &'t str) -> Cow<'t, str> {
        let mut edits = Edits::new(text);
        for (index, secret_match) in pattern.find_iter(text).enumerate() {
            if index % MATCHES_PER_CHECK == 0
                && self
                    .until
                    .is_some_and(|until| (self.redactor.clock)() >= until)
            {
                edits.replace(secret_match.start(), text.len(), UNSEARCHED_NOTICE.into());
                break;
            }
            edits.replace(secret_match.start(), secret_match.end(), HIDDEN.into());
        }
        edits.finish().map_or(Cow::Borrowed(text), Cow::Owned)
    }
}
