//! Answers of an MCP registry (API v0 and v0.1), parsed leniently: fields that are not needed to run a server
//! may have any value.
//!
//! <https://github.com/modelcontextprotocol/registry/blob/main/docs/reference/api/openapi.yaml>

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::{Value, value::RawValue};

/// The maximum length of a server's name (server.json).
const MAX_NAME: usize = 200;

/// The name of the official registry's extension in `_meta`.
const OFFICIAL: &str = "io.modelcontextprotocol.registry/official";

/// A page of servers.
#[derive(Debug, Default)]
pub struct Page {
    pub servers: Vec<ListedServer>,
    /// Number of servers that could not be parsed.
    pub unreadable: usize,
    pub next: Option<String>,
}

/// A server of a registry.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedServer {
    pub server: Server,
    pub status: ListingStatus,
    /// The reason for the status.
    pub message: Option<String>,
    pub published: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListingStatus {
    #[default]
    Active,
    Deprecated,
    Deleted,
}

impl ListingStatus {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Deprecated => "deprecated",
            Self::Deleted => "deleted",
        }
    }

    fn parse(word: &str) -> Self {
        match word {
            "deprecated" => Self::Deprecated,
            "deleted" => Self::Deleted,
            _ => Self::Active,
        }
    }
}

/// The content of `server.json`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Server {
    pub name: String,
    pub title: Option<String>,
    pub description: String,
    pub version: String,
    pub website_url: Option<String>,
    pub repository: Option<Repository>,
    #[serde(deserialize_with = "or_default")]
    pub packages: Vec<Package>,
    #[serde(deserialize_with = "or_default")]
    pub remotes: Vec<Transport>,
    /// The status in registries before v0.1.
    status: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Repository {
    pub url: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Package {
    pub registry_type: String,
    pub registry_base_url: Option<String>,
    pub identifier: String,
    pub version: Option<String>,
    pub file_sha256: Option<String>,
    pub runtime_hint: Option<String>,
    pub transport: Option<Transport>,
    #[serde(deserialize_with = "or_default")]
    pub runtime_arguments: Vec<Input>,
    #[serde(deserialize_with = "or_default")]
    pub package_arguments: Vec<Input>,
    #[serde(deserialize_with = "or_default")]
    pub environment_variables: Vec<Input>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Transport {
    #[serde(rename = "type")]
    pub kind: String,
    pub url: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub headers: Vec<Input>,
    #[serde(deserialize_with = "or_default")]
    pub variables: BTreeMap<String, Input>,
}

/// An argument, an environment variable, a header, or a variable in one of these.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Input {
    /// `positional` or `named`, for arguments.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub name: Option<String>,
    pub value_hint: Option<String>,
    pub description: Option<String>,
    pub is_required: bool,
    pub is_secret: bool,
    pub is_repeated: bool,
    pub format: Option<String>,
    #[serde(deserialize_with = "scalar")]
    pub value: Option<String>,
    #[serde(deserialize_with = "scalar")]
    pub default: Option<String>,
    pub placeholder: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub choices: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub variables: BTreeMap<String, Input>,
}

/// Treats `null` like a missing field.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Accepts numbers and booleans as texts, because publishers write them.
fn scalar<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(from)? {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text)),
        value @ (Value::Bool(_) | Value::Number(_)) => Ok(Some(value.to_string())),
        Value::Array(_) | Value::Object(_) => Err(serde::de::Error::custom("expected a text")),
    }
}

/// The reason that an answer cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("the answer is not that of a registry: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the answer is about {0:?}, which was not asked for")]
    Other(String),
    #[error("the answer names no server")]
    Nameless,
}

#[derive(Deserialize)]
struct RawPage<'a> {
    #[serde(borrow)]
    servers: Option<Vec<&'a RawValue>>,
    metadata: Option<Metadata>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(rename = "nextCursor", alias = "next_cursor")]
    next: Option<String>,
}

/// A server with the registry's metadata. Registries before v0.1 have no wrapper.
#[derive(Deserialize)]
struct Wrapped<'a> {
    #[serde(borrow)]
    server: Option<&'a RawValue>,
    #[serde(rename = "_meta", default)]
    meta: Option<BTreeMap<String, Value>>,
}

/// Parses a list of servers. Counts the servers that cannot be parsed.
pub fn page(text: &str) -> Result<Page, Unreadable> {
    let raw: RawPage<'_> = serde_json::from_str(text)?;
    let mut page = Page {
        next: raw
            .metadata
            .unwrap_or_default()
            .next
            .filter(|cursor| !cursor.is_empty()),
        ..Page::default()
    };
    for server in raw.servers.unwrap_or_default() {
        match listed(server.get()) {
            Ok(server) => page.servers.push(server),
            Err(_) => page.unreadable += 1,
        }
    }
    Ok(page)
}

/// Parses the answer to a request for the server `name`.
pub fn one(text: &str, name: &str) -> Result<ListedServer, Unreadable> {
    let listed = listed(text)?;
    if listed.server.name == name {
        Ok(listed)
    } else {
        Err(Unreadable::Other(listed.server.name))
    }
}

fn listed(text: &str) -> Result<ListedServer, Unreadable> {
    let wrapped: Wrapped<'_> = serde_json::from_str(text)?;
    let server: Server = serde_json::from_str(wrapped.server.map_or(text, RawValue::get))?;
    if server.name.is_empty() || server.name.len() > MAX_NAME {
        return Err(Unreadable::Nameless);
    }
    let meta = wrapped.meta.unwrap_or_default();
    let official = meta.get(OFFICIAL).cloned().unwrap_or_default();
    let text = |key: &str| official[key].as_str().map(str::to_owned);
    let status = text("status").or_else(|| server.status.clone());
    Ok(ListedServer {
        status: status
            .map(|word| ListingStatus::parse(&word))
            .unwrap_or_default(),
        message: text("statusMessage"),
        published: text("publishedAt"),
        server,
    })
}

/// True if a text can be the name of a server in a registry: `io.github.someone/thing`.
pub fn is_name(text: &str) -> bool {
    let Some((namespace, name)) = text.split_once('/') else {
        return false;
    };
    let is_part = |part: &str, more: &[u8]| {
        let is_good = |byte: &u8| byte.is_ascii_alphanumeric() || more.contains(byte);
        part.bytes().all(|byte| is_good(&byte))
            && part
                .bytes()
                .next()
                .is_some_and(|byte| byte.is_ascii_alphanumeric())
    };
    text.len() <= MAX_NAME
        && namespace.contains('.')
        && is_part(namespace, b".-")
        && is_part(name, b"._-")
}

/// The path of a server's version, relative to the [`base`] URL of a registry.
pub fn path_of_one(name: &str, version: &str) -> String {
    format!("servers/{}/versions/{}", encoded(name), encoded(version))
}

/// The path of a list of servers, relative to the [`base`] URL of a registry.
pub fn path_of_list(search: &str, limit: usize, cursor: Option<&str>) -> String {
    let mut path = format!(
        "servers?search={}&version=latest&limit={limit}",
        encoded(search)
    );
    if let Some(cursor) = cursor {
        path.push_str("&cursor=");
        path.push_str(&encoded(cursor));
    }
    path
}

/// The base URL of a registry, with the version of its API. The version is v0.1, unless the URL has one.
pub fn base(url: &str) -> String {
    let url = url.trim_end_matches('/');
    match url.rsplit('/').next() {
        Some("v0" | "v0.1") => url.to_owned(),
        _ => format!("{url}/v0.1"),
    }
}

/// Percent-encodes a text for a path or a query (RFC 3986: all but the unreserved characters).
fn encoded(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(byte.into());
            }
            // Writing to a String cannot fail.
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn servers_are_read_in_both_shapes() {
        let server = json!({"name": "io.github.a/b", "description": "it", "version": "1.0.0"});
        let wrapped = json!({"server": server, "_meta": {OFFICIAL: {"status": "deprecated", "statusMessage": "use c"}}});
        let listed = one(&wrapped.to_string(), "io.github.a/b").expect("read");
        assert_eq!(listed.status, ListingStatus::Deprecated);
        assert_eq!(listed.message.as_deref(), Some("use c"));
        let bare = one(&server.to_string(), "io.github.a/b").expect("read");
        assert_eq!(bare.server, listed.server);
        let refused = one(&server.to_string(), "io.github.a/c").expect_err("another");
        assert!(matches!(refused, Unreadable::Other(_)), "{refused}");
    }

    #[test]
    fn a_bad_server_does_not_spoil_a_page() {
        let good = json!({"server": {"name": "a.b/c", "packages": null}});
        let bad = [
            json!(7),
            json!(null),
            json!({"server": {"name": 5}}),
            json!({"server": {"name": ""}}),
            json!({"server": {"name": "a.b/d", "packages": "npm"}}),
            json!({"server": {"name": "x".repeat(500)}}),
        ];
        let servers: Vec<_> = bad.iter().chain([&good]).collect();
        let text = json!({"servers": servers, "metadata": {"nextCursor": "n"}}).to_string();
        let page = page(&text).expect("a page");
        assert_eq!((page.servers.len(), page.unreadable), (1, bad.len()));
        assert_eq!(page.next.as_deref(), Some("n"));
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for text in [
            "",
            "<html>",
            "[]",
            "{\"servers\": {}}",
            "{\"servers\": [{}",
            "\u{feff}",
        ] {
            assert!(page(text).is_err(), "{text}");
            assert!(one(text, "a.b/c").is_err(), "{text}");
        }
    }

    #[test]
    fn names_have_a_namespace() {
        for good in ["io.github.someone/thing", "com.example/a.b_c-1", "ai.x/y"] {
            assert!(is_name(good), "{good}");
        }
        for bad in [
            "thing",
            "a/b",
            "./thing.mcpb",
            "a.b/",
            ".a/b",
            "a.b/c/d",
            "a.b/--x",
            "a.b/../c",
            "a.b/c d",
            "a.b/ü",
            "https://a.b/c",
        ] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn names_are_encoded_in_paths() {
        assert_eq!(
            path_of_one("a.b/c", "1+2"),
            "servers/a.b%2Fc/versions/1%2B2"
        );
        assert_eq!(
            path_of_list("a b&c", 3, Some("x=/é")),
            "servers?search=a%20b%26c&version=latest&limit=3&cursor=x%3D%2F%C3%A9"
        );
        for (url, expected) in [
            ("https://r.example", "https://r.example/v0.1"),
            ("https://r.example/", "https://r.example/v0.1"),
            ("https://r.example/v0/", "https://r.example/v0"),
            ("https://r.example/x/v0.1", "https://r.example/x/v0.1"),
        ] {
            assert_eq!(base(url), expected);
        }
    }
}
