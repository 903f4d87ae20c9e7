//! Patterns for names in alerts and profiles.

use std::fmt;

/// A pattern for whole names. `*` matches any text, including an empty text and slashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    pub fn new(pattern: impl Into<String>) -> Self {
        Self(pattern.into())
    }

    /// The pattern that matches everything.
    pub fn everything() -> Self {
        Self::new("*")
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn matches(&self, name: &str) -> bool {
        let Some((head, rest)) = self.0.split_once('*') else {
            return self.0 == name;
        };
        let Some(mut remaining) = name.strip_prefix(head) else {
            return false;
        };
        let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
        // The leftmost match of each part leaves the most text for the next parts.
        for part in middle.split('*') {
            let Some((_, suffix)) = remaining.split_once(part) else {
                return false;
            };
            remaining = suffix;
        }
        remaining.ends_with(tail)
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        let check = |pattern: &str, name: &str, expected: bool| {
            assert_eq!(
                Glob::new(pattern).matches(name),
                expected,
                "{pattern} {name}"
            );
        };
        check("fs", "fs", true);
        check("fs", "fs2", false);
        check("*", "fs", true);
        check("fs*", "fs", true);
        check("prod-*", "prod-db", true);
        check("prod-*", "my-prod-db", false);
        check("*-db", "prod-db", true);
        check("*-db", "prod-db2", false);
        check("a*a", "a", false);
        check("a*a", "aa", true);
        check("a*b*c", "a-b-c", true);
        check("a*b*c", "a-c-b", false);
        check("a*b*b", "ab", false);
        check("**", "x", true);
        check("", "x", false);
        check("fs/*", "fs/read/all", true);
        check("fs/*", "fs2/read", false);
        check("*/delete_*", "fs/delete_file", true);
    }
}
