//! Reads and checks the `_meta` of a modern request (specification 2026-07-28, "`_meta`",
//! "Streamable HTTP: Request Metadata").

use std::borrow::Cow;

use serde_json::{Value, json};

use super::{
    Era, LogLevel, Revision,
    capabilities::Need,
    code,
    headers::{HeaderMismatch, InboundHeaders},
};
use crate::message::{
    self, Envelope, JsonObjectEditor, Method,
    meta::{CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION, REQUEST_KEYS},
};

/// True if a message is modern: `_meta` has a key that modern revisions reserve, or the
/// `MCP-Protocol-Version` header does not name a legacy revision. `Mcp-Method` does not count,
/// because legacy clients send it too.
pub fn is_modern(envelope: &Envelope, version_header: Option<&str>) -> bool {
    envelope.has_request_meta()
        || version_header.is_some_and(|version| Revision::parse_legacy(version).is_none())
}

/// True if Mainstay supports this version, and the version has no session.
pub fn is_spoken(version: &str) -> bool {
    Revision::parse(version).is_some_and(|revision| revision.era() == Era::Modern)
}

/// True if modern revisions no longer have this request.
pub fn is_removed(method: Method) -> bool {
    matches!(
        method,
        Method::Initialize
            | Method::Ping
            | Method::SetLevel
            | Method::ResourcesSubscribe
            | Method::ResourcesUnsubscribe
            | Method::TasksList
            | Method::TasksResult
    )
}

/// The client's description in a modern request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestMeta<'a> {
    pub protocol_version: Cow<'a, str>,
    /// JSON text, as is `client_capabilities`.
    pub client_info: Option<&'a str>,
    pub client_capabilities: &'a str,
    pub log_level: Option<LogLevel>,
}

impl RequestMeta<'_> {
    /// Returns the revision that the request names. It must be a modern one.
    pub fn revision(&self) -> Result<Revision, BadMeta> {
        let version = &*self.protocol_version;
        match Revision::parse(version) {
            Some(revision) if Revision::parse_legacy(version).is_none() => Ok(revision),
            _ => Err(BadMeta::Unsupported {
                requested: version.to_owned(),
            }),
        }
    }
}

/// The reason to refuse a `_meta`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMeta {
    #[error("_meta lacks \"{0}\"")]
    Missing(&'static str),
    #[error("_meta has a \"{0}\" that is not what it must be, or has it twice")]
    Invalid(&'static str),
    #[error("unsupported protocol version")]
    Unsupported { requested: String },
}

impl BadMeta {
    pub fn code(&self) -> i64 {
        match self {
            Self::Missing(_) | Self::Invalid(_) => code::INVALID_PARAMS,
            Self::Unsupported { .. } => code::UNSUPPORTED_VERSION,
        }
    }

    pub fn message(&self) -> String {
        self.to_string()
    }

    pub fn data(&self) -> Option<Value> {
        match self {
            Self::Missing(_) | Self::Invalid(_) => None,
            Self::Unsupported { requested } => Some(json!({
                "supported": stateless_versions(),
                "requested": requested,
            })),
        }
    }

    pub fn http_status(&self) -> u16 {
        400
    }
}

/// Mainstay's own `supportedVersions` (`server/discover`), latest first.
pub fn supported_versions() -> Vec<&'static str> {
    versions(|_| true)
}

/// The versions that a modern request may name. The others require `initialize`.
fn stateless_versions() -> Vec<&'static str> {
    versions(|revision| revision.era() == Era::Modern)
}

fn versions(is_listed: impl Fn(&Revision) -> bool) -> Vec<&'static str> {
    let latest_first = Revision::ALL.iter().rev().copied();
    latest_first
        .filter(is_listed)
        .map(Revision::as_str)
        .collect()
}

/// Reads the `_meta` of a request. The caller checks the headers first, and then the version with
/// [`RequestMeta::revision`].
pub fn request_meta<'a>(text: &'a str, envelope: &Envelope) -> Result<RequestMeta<'a>, BadMeta> {
    let meta = message::meta::raw(text, envelope).map_err(|_| BadMeta::Invalid("_meta"))?;
    let meta = meta.ok_or(BadMeta::Missing(PROTOCOL_VERSION))?;
    let members = JsonObjectEditor::read(meta).unwrap_or_default();
    let mut values = [None; REQUEST_KEYS.len()];
    for (key, value) in members.raw_entries() {
        let Some(index) = REQUEST_KEYS.iter().position(|name| *name == key) else {
            continue;
        };
        // A key that occurs twice is an error, because two parsers could see different callers.
        if values[index].replace(value).is_some() {
            return Err(BadMeta::Invalid(REQUEST_KEYS[index]));
        }
    }
    let [version, client_info, capabilities, log_level] = values;
    let object = |key, text: &'a str| {
        let is_object = text.starts_with('{');
        is_object.then_some(text).ok_or(BadMeta::Invalid(key))
    };
    let version = version.ok_or(BadMeta::Missing(PROTOCOL_VERSION))?;
    let capabilities = capabilities.ok_or(BadMeta::Missing(CLIENT_CAPABILITIES))?;
    Ok(RequestMeta {
        protocol_version: message::text(version).ok_or(BadMeta::Invalid(PROTOCOL_VERSION))?,
        client_info: client_info
            .map(|info| object(CLIENT_INFO, info))
            .transpose()?,
        client_capabilities: object(CLIENT_CAPABILITIES, capabilities)?,
        log_level: log_level
            .map(|level| {
                let level = message::text(level).and_then(|level| LogLevel::parse(&level));
                level.ok_or(BadMeta::Invalid(LOG_LEVEL))
            })
            .transpose()?,
    })
}

/// The reason to refuse a modern request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestRefusal {
    #[error(transparent)]
    Meta(#[from] BadMeta),
    #[error(transparent)]
    Header(#[from] HeaderMismatch),
}

impl RequestRefusal {
    pub fn code(&self) -> i64 {
        match self {
            Self::Meta(meta_error) => meta_error.code(),
            Self::Header(mismatch) => mismatch.code(),
        }
    }

    pub fn data(&self) -> Option<Value> {
        match self {
            Self::Meta(meta_error) => meta_error.data(),
            Self::Header(_) => None,
        }
    }

    pub fn http_status(&self) -> u16 {
        match self {
            Self::Meta(meta_error) => meta_error.http_status(),
            Self::Header(mismatch) => mismatch.http_status(),
        }
    }
}

/// Checks a modern request in the order of the specification: `_meta` is complete, the headers
/// match the body, the version is supported. The caller checks the method. `headers` is `None` on
/// stdio.
pub fn admit<'a>(
    text: &'a str,
    envelope: &Envelope,
    method: &str,
    headers: Option<&InboundHeaders<'_>>,
) -> Result<(RequestMeta<'a>, Revision), RequestRefusal> {
    let meta = request_meta(text, envelope)?;
    if let Some(headers) = headers {
        let string_param = |member| message::text_param(text, envelope, member);
        headers.check(method, string_param, &meta.protocol_version)?;
    }
    let revision = meta.revision()?;
    Ok((meta, revision))
}

/// Message and data of the error −32021: the question needs a capability that the client did not
/// declare.
pub fn missing_capability(question: Method, params: &str) -> (String, Value) {
    let required =
        Need::for_question(question, params).map_or_else(|| json!({}), Need::capabilities);
    (
        format!("the client does not declare what {} takes", question.name()),
        json!({ "requiredCapabilities": required }),
    )
}

/// The HTTP status that the specification sets for an error code. `None` if it sets none.
pub fn http_status(code: i64) -> Option<u16> {
    match code {
        code::HEADER_MISMATCH
        | code::MISSING_CAPABILITY
        | code::UNSUPPORTED_VERSION
        | code::PARSE_ERROR
        | code::INVALID_REQUEST => Some(400),
        code::METHOD_NOT_FOUND => Some(404),
        _ => None,
    }
}

/// True if this `error` (JSON text) shows that the server is modern.
pub fn is_modern_error(error: &str) -> bool {
    let number = message::member(error, "code").and_then(|code| code.parse::<i64>().ok());
    matches!(
        number,
        Some(code::HEADER_MISMATCH | code::MISSING_CAPABILITY | code::UNSUPPORTED_VERSION)
    )
}

/// The revisions that an error −32022 (JSON text) lists as supported, in its order.
pub fn offered_instead(error: &str) -> Vec<Revision> {
    let value: Value = message::foreign::read(error).unwrap_or_default();
    let supported = value["data"]["supported"].as_array();
    supported
        .into_iter()
        .flatten()
        .filter_map(|version| version.as_str().and_then(Revision::parse))
        .collect()
}
