//! What a modern request says in `_meta`, and what is wrong with it (specification 2026-07-28,
//! "`_meta`", "Streamable HTTP: Request Metadata").

use std::borrow::Cow;

use serde_json::{Value, json};

use super::{
    Era, LogLevel, Revision,
    capabilities::Need,
    code,
    headers::{HeaderMismatch, Inbound},
};
use crate::message::{
    self, Envelope, Method, Object,
    meta::{CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, OF_REQUESTS, PROTOCOL_VERSION},
};

/// Whether a message is a modern one: its `_meta` says so, `MCP-Protocol-Version` names none of the
/// revisions with a session, or it is absent and `Mcp-Method` is there. (Clients send that header with
/// legacy revisions, too.) Only then is the method looked at.
pub fn is_modern(
    envelope: &Envelope,
    version_header: Option<&str>,
    has_method_header: bool,
) -> bool {
    envelope.has_request_meta()
        || match version_header {
            Some(version) => Revision::parse_legacy(version).is_none(),
            None => has_method_header,
        }
}

/// Whether this version is spoken without a session.
pub fn is_spoken(version: &str) -> bool {
    Revision::parse(version).is_some_and(|revision| revision.era() == Era::Modern)
}

/// Whether there is no such request any more.
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

/// What a modern request says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestMeta<'a> {
    pub protocol_version: Cow<'a, str>,
    /// JSON text, as `client_capabilities`.
    pub client_info: Option<&'a str>,
    pub client_capabilities: &'a str,
    pub log_level: Option<LogLevel>,
}

impl RequestMeta<'_> {
    /// The revision it asks for, of those that are spoken without a session.
    pub fn revision(&self) -> Result<Revision, BadMeta> {
        let requested = &*self.protocol_version;
        match Revision::parse(requested) {
            Some(revision) if Revision::parse_legacy(requested).is_none() => Ok(revision),
            _ => Err(BadMeta::Unsupported {
                requested: requested.to_owned(),
            }),
        }
    }
}

/// What makes a request none that can be served.
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
                "supported": supported_versions(),
                "requested": requested,
            })),
        }
    }

    pub fn http_status(&self) -> u16 {
        400
    }
}

/// The one source of `supportedVersions` (`server/discover`) and `supported` (−32022), latest first.
pub fn supported_versions() -> Vec<&'static str> {
    Revision::ALL
        .iter()
        .rev()
        .map(|revision| revision.as_str())
        .collect()
}

/// Reads `_meta` of a request's `params` (JSON text). Which version it names is for later
/// ([`RequestMeta::revision`]): the headers come in between.
pub fn request_meta(params: Option<&str>) -> Result<RequestMeta<'_>, BadMeta> {
    let absent = BadMeta::Missing(PROTOCOL_VERSION);
    let params = params.ok_or_else(|| absent.clone())?;
    let meta = message::member(params, "_meta").ok_or(absent)?;
    // Two readers of one message must not see different callers.
    let twice =
        |object: &str, key| Object::read(object).is_some_and(|object| object.count(key) > 1);
    if twice(params, "_meta") {
        return Err(BadMeta::Invalid("_meta"));
    }
    if let Some(key) = OF_REQUESTS.into_iter().find(|key| twice(meta, key)) {
        return Err(BadMeta::Invalid(key));
    }
    let required = |key| message::member(meta, key).ok_or(BadMeta::Missing(key));
    let object = |key, text: &str| {
        let is_object = text.starts_with('{');
        is_object.then_some(()).ok_or(BadMeta::Invalid(key))
    };
    required(PROTOCOL_VERSION)?;
    let protocol_version =
        message::text_member(meta, PROTOCOL_VERSION).ok_or(BadMeta::Invalid(PROTOCOL_VERSION))?;
    let client_capabilities = required(CLIENT_CAPABILITIES)?;
    object(CLIENT_CAPABILITIES, client_capabilities)?;
    let client_info = message::member(meta, CLIENT_INFO);
    client_info.map_or(Ok(()), |info| object(CLIENT_INFO, info))?;
    let log_level = message::member(meta, LOG_LEVEL).map(|_| {
        message::text_member(meta, LOG_LEVEL)
            .and_then(|level| LogLevel::parse(&level))
            .ok_or(BadMeta::Invalid(LOG_LEVEL))
    });
    Ok(RequestMeta {
        protocol_version,
        client_info,
        client_capabilities,
        log_level: log_level.transpose()?,
    })
}

/// Why a modern request is not served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(transparent)]
    Meta(#[from] BadMeta),
    #[error(transparent)]
    Header(#[from] HeaderMismatch),
}

impl Refused {
    pub fn code(&self) -> i64 {
        match self {
            Self::Meta(bad) => bad.code(),
            Self::Header(mismatch) => mismatch.code(),
        }
    }

    pub fn data(&self) -> Option<Value> {
        match self {
            Self::Meta(bad) => bad.data(),
            Self::Header(_) => None,
        }
    }

    pub fn http_status(&self) -> u16 {
        match self {
            Self::Meta(bad) => bad.http_status(),
            Self::Header(mismatch) => mismatch.http_status(),
        }
    }
}

/// Judges a modern request in the order that the specification sets: `_meta` is complete, the headers
/// equal the body, the version is spoken. The method comes after. Over stdio there are no headers.
pub fn admit<'a>(
    method: &str,
    params: Option<&'a str>,
    headers: Option<&Inbound<'_>>,
) -> Result<(RequestMeta<'a>, Revision), Refused> {
    let meta = request_meta(params)?;
    if let Some(headers) = headers {
        headers.check(method, params, &meta.protocol_version)?;
    }
    let revision = meta.revision()?;
    Ok((meta, revision))
}

/// Message and data of the error −32021: a question cannot be asked, for the client did not declare
/// that it takes it.
pub fn missing_capability(question: Method, params: &str) -> (String, Value) {
    let required = Need::of(question, params).map_or_else(|| json!({}), Need::capabilities);
    (
        format!("the client does not declare what {} takes", question.name()),
        json!({ "requiredCapabilities": required }),
    )
}

/// The HTTP status of a modern error response, where the specification sets one.
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

/// Whether an `error` (JSON text) is one that only a modern server answers with.
pub fn is_modern_error(error: &str) -> bool {
    let number = message::member(error, "code").and_then(|code| code.parse::<i64>().ok());
    matches!(
        number,
        Some(code::HEADER_MISMATCH | code::MISSING_CAPABILITY | code::UNSUPPORTED_VERSION)
    )
}

/// The revisions that an `error` −32022 (JSON text) offers instead, of those we know, as it lists them.
pub fn offered_instead(error: &str) -> Vec<Revision> {
    let value: Value = serde_json::from_str(error).unwrap_or_default();
    let supported = value["data"]["supported"].as_array();
    supported
        .into_iter()
        .flatten()
        .filter_map(|version| version.as_str().and_then(Revision::parse))
        .collect()
}
