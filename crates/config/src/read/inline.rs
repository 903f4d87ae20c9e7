//! Servers given on the command line: `--mcp-client "name:value"`.

use mainstay_core::ids::{InvalidServerName, ServerName};
use serde_json::{Map, Value, json};

/// A server's name, and its entry in the form of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Inline {
    pub name: ServerName,
    pub entry: Map<String, Value>,
}

/// The reason that a text describes no server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidInline {
    #[error("a colon is missing: expected NAME:COMMAND or NAME:URL")]
    Colon,
    #[error("the server's name is empty: expected NAME:COMMAND or NAME:URL")]
    Name,
    #[error("the command or URL is empty: expected NAME:COMMAND or NAME:URL")]
    Value,
    #[error(transparent)]
    BadName(#[from] InvalidServerName),
}

impl std::str::FromStr for Inline {
    type Err = InvalidInline;

    /// Parses `name:value`. A value that begins like a URL is a URL: Mainstay tries Streamable HTTP and
    /// then HTTP+SSE, or with the prefix `sse+` only HTTP+SSE. Any other value is a command with its
    /// arguments.
    fn from_str(text: &str) -> Result<Self, InvalidInline> {
        let (name, value) = text.split_once(':').ok_or(InvalidInline::Colon)?;
        if name.is_empty() {
            return Err(InvalidInline::Name);
        }
        let mut words = value.split_whitespace();
        let first = words.next().ok_or(InvalidInline::Value)?;
        let is_url = |text: &str| {
            ["http://", "https://"].iter().any(|scheme| {
                text.get(..scheme.len())
                    .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
            })
        };
        let entry = match first.strip_prefix("sse+") {
            Some(url) if is_url(url) => {
                json!({"url": &value.trim()["sse+".len()..], "transport": "sse"})
            }
            _ if is_url(first) => json!({"url": value.trim()}),
            _ => json!({"command": first, "args": words.collect::<Vec<_>>()}),
        };
        let Value::Object(entry) = entry else {
            unreachable!("each is an object")
        };
        Ok(Self {
            name: ServerName::new(name)?,
            entry,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, name: &str, entry: &Value) {
        let inline: Inline = text.parse().expect(text);
        assert_eq!(
            (inline.name.as_str(), &Value::Object(inline.entry)),
            (name, entry),
            "{text}"
        );
    }

    /// A value that begins like a URL is a URL. Anything else is a command with arguments.
    #[test]
    fn the_first_colon_separates_and_a_scheme_makes_a_url() {
        check(
            "fs:npx -y  server /tmp",
            "fs",
            &json!({"command": "npx", "args": ["-y", "server", "/tmp"]}),
        );
        check(
            "c:python c:d",
            "c",
            &json!({"command": "python", "args": ["c:d"]}),
        );
        check(
            "db:http://h:8080/mcp/sse",
            "db",
            &json!({"url": "http://h:8080/mcp/sse"}),
        );
        check("db:HTTPS://h/mcp", "db", &json!({"url": "HTTPS://h/mcp"}));
        check(
            "db:sse+http://h/sse",
            "db",
            &json!({"url": "http://h/sse", "transport": "sse"}),
        );
    }

    /// A missing part or a bad name is an error.
    #[test]
    fn what_names_no_server_is_refused() {
        for (text, expected) in [
            ("no-colon", InvalidInline::Colon),
            ("", InvalidInline::Colon),
            (":command", InvalidInline::Name),
            ("name:", InvalidInline::Value),
            ("name:  ", InvalidInline::Value),
        ] {
            assert_eq!(text.parse::<Inline>(), Err(expected), "{text}");
        }
        let bad = "a b:x".parse::<Inline>().expect_err("a space in the name");
        assert!(matches!(bad, InvalidInline::BadName(_)));
    }
}
