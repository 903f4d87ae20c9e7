//! Types of identifiers, so that the compiler tells them apart.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The name of a server: `[a-zA-Z0-9_-]+` (requirement A25).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerName(std::sync::Arc<str>);

/// The reason that a text is not a server name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidServerName {
    #[error("a server name must not be empty")]
    Empty,
    #[error("server name {0:?} contains {1:?}; allowed are letters, digits, '_' and '-'")]
    Character(String, char),
}

impl ServerName {
    pub fn new(text: &str) -> Result<Self, InvalidServerName> {
        if text.is_empty() {
            return Err(InvalidServerName::Empty);
        }
        if let Some(invalid_character) = text
            .chars()
            .find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-'))
        {
            return Err(InvalidServerName::Character(
                text.to_owned(),
                invalid_character,
            ));
        }
        Ok(Self(text.into()))
    }

    /// True if `server__tool` can be split in only one way. The name then has no `__` inside and no
    /// `_` at either end.
    pub fn is_separable(&self) -> bool {
        !(self.0.contains("__") || self.0.starts_with('_') || self.0.ends_with('_'))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for ServerName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ServerName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::new(&text).map_err(serde::de::Error::custom)
    }
}

/// The name of a profile, which is also a path segment: `[a-zA-Z0-9_-]+`, without `__`, and without
/// `_` at either end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProfileName(std::sync::Arc<str>);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "profile name {0:?} must be letters, digits, '_' and '-', without \"__\" and without '_' at either end"
)]
pub struct InvalidProfileName(String);

impl ProfileName {
    /// The profile at `/mcp`.
    pub const DEFAULT: &str = "default";
    /// The built-in profile with Mainstay's own tools instead of the servers' tools.
    pub const META: &str = "meta";

    /// The name in REST of a profile with all servers. It is invalid in a configuration, so no
    /// configured profile has this name.
    pub fn everything() -> Self {
        Self("*".into())
    }

    pub fn new(text: &str) -> Result<Self, InvalidProfileName> {
        match ServerName::new(text) {
            Ok(name) if name.is_separable() => Ok(Self(name.0)),
            Ok(_) | Err(_) => Err(InvalidProfileName(text.to_owned())),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_default(&self) -> bool {
        *self.0 == *Self::DEFAULT
    }
}

impl Default for ProfileName {
    fn default() -> Self {
        Self(Self::DEFAULT.into())
    }
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The number of an attempt to open an upstream session. Each report carries an epoch, and reports
/// of past epochs are ignored (invariant 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl Epoch {
    pub const NONE: Self = Self(0);

    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
