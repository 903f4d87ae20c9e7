//! Scopes of a token, in their original order (RFC 6749, 3.3).

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The scope that requests a refresh token (OpenID Connect Core 1.0, 11).
pub const OFFLINE_ACCESS: &str = "offline_access";

/// Maximum number of scopes in a list. A server may name any number, and the search for duplicates is
/// quadratic.
const MAX_SCOPES: usize = 200;

/// A list of scopes without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes(Vec<String>);

impl Scopes {
    /// Parses scopes with blanks between them.
    pub fn parse(text: &str) -> Self {
        text.split_ascii_whitespace().collect()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, scope: &str) -> bool {
        self.0.iter().any(|present| present == scope)
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Returns these scopes, followed by those of `others` that are missing here.
    #[must_use]
    pub fn union(&self, others: &Self) -> Self {
        self.iter().chain(others.iter()).collect()
    }

    /// The scopes in this list that are missing in `granted`.
    #[must_use]
    pub fn lacking(&self, granted: &Self) -> Self {
        self.iter()
            .filter(|scope| !granted.contains(scope))
            .collect()
    }
}

impl<'a> FromIterator<&'a str> for Scopes {
    fn from_iter<I: IntoIterator<Item = &'a str>>(scopes: I) -> Self {
        let mut list = Self::default();
        for scope in scopes {
            if list.0.len() < MAX_SCOPES && !list.contains(scope) {
                list.0.push(scope.to_owned());
            }
        }
        list
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

impl Serialize for Scopes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Scopes {
    /// Reads a space-separated string (RFC 6749, section 3.3), or an array, which some
    /// authorization servers send.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            List(Vec<String>),
        }
        Ok(match Written::deserialize(deserializer)? {
            Written::Text(text) => Self::parse(&text),
            Written::List(list) => list.iter().map(String::as_str).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_keep_their_order_and_have_no_duplicates() {
        let scopes = Scopes::parse("  b a\tb ");
        assert_eq!(scopes.to_string(), "b a");
        assert_eq!(scopes.union(&Scopes::parse("c a")).to_string(), "b a c");
        assert_eq!(scopes.lacking(&Scopes::parse("a")).to_string(), "b");
        assert!(Scopes::parse(" ").is_empty());
        let many = (0..10_000).map(|number| number.to_string());
        let many = many.collect::<Vec<_>>().join(" ");
        assert_eq!(Scopes::parse(&many).iter().count(), MAX_SCOPES);
    }
}
