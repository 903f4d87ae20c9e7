//! The principal of a request: the operator, a named client, or an anonymous client. The request's
//! token decides. Sessions and calls store the principal.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// The sender of a request, according to the token. A session, a suspended call or a task belongs
/// only to the principal that began it. The client's own claims, such as `clientInfo`, have no
/// influence. Cloning needs no allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Principal {
    /// No token was needed or sent: a program on this machine, or the client on stdio. All of these
    /// are the same principal.
    #[default]
    Anonymous,
    /// The bearer of a client token, with the token's name. A client may use only the MCP paths.
    Client(ClientName),
    /// The bearer of the control token, or a browser session that is signed in.
    Operator,
}

/// Writes the text for records and seals. It is unique, because a client name has no colon.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anonymous => f.write_str("anonymous"),
            Self::Client(name) => write!(f, "client:{name}"),
            Self::Operator => f.write_str("operator"),
        }
    }
}

/// The name of a client token: 1 to 64 characters of `[a-zA-Z0-9._-]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientName(Arc<str>);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a client's name; it has 1 to {MAX_NAME} letters, digits, '.', '_' and '-'")]
pub struct InvalidClientName(String);

/// Maximum length of a name. Tables show the full name.
const MAX_NAME: usize = 64;

impl ClientName {
    pub fn new(text: &str) -> Result<Self, InvalidClientName> {
        let fits = (1..=MAX_NAME).contains(&text.len());
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if fits && text.bytes().all(legal) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidClientName(text.to_owned()))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for ClientName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ClientName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::new(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn principals_have_distinct_texts() {
        for name in ["a", "laptop", "ci-2.example_x", &"n".repeat(64)] {
            let client = Principal::Client(ClientName::new(name).expect(name));
            assert_eq!(client.to_string(), format!("client:{name}"));
        }
        for name in ["", "a b", "a:b", "ü", "a/b", "a\n", &"n".repeat(65)] {
            ClientName::new(name).expect_err(name);
        }
        assert_eq!(Principal::default().to_string(), "anonymous");
        assert_eq!(Principal::Operator.to_string(), "operator");
    }
}
