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

/// Whether a message is a modern one: its `_meta` says so, or `MCP-Protocol-Version` names none of the
/// revisions with a session. Only then is the method looked at. `Mcp-Method` says nothing: clients send
/// it at legacy revisions, too.
pub fn is_modern(envelope: &Envelope, version_header: Option<&str>) -> bool {
    envelope.has_request_meta()
        || version_header.is_some_and(|version| Revision::parse_legacy(version).is_none())
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
                "supported": stateless_versions(),
                "requested": requested,
            })),
        }
    }

    pub fn http_status(&self) -> u16 {
        400
    }
}

/// Our own `supportedVersions` (`server/discover`), latest first.
pub fn supported_versions() -> Vec<&'static str> {
    versions(|_| true)
}

/// What a request can name: part of what any server says that is asked through us, for those that need
/// a session are the handshake's.
fn stateless_versions() -> Vec<&'static str> {
    versions(|revision| revision.era() == Era::Modern)
}

fn versions(which: impl Fn(&Revision) -> bool) -> Vec<&'static str> {
    let latest_first = Revision::ALL.iter().rev().copied();
    latest_first.filter(which).map(Revision::as_str).collect()
}

/// Reads `_meta` of a request. Which version it names is for later ([`RequestMeta::revision`]): the
/// headers come in between.
pub fn request_meta<'a>(text: &'a str, envelope: &Envelope) -> Result<RequestMeta<'a>, BadMeta> {
    let meta = message::meta::of(text, envelope).map_err(|_| BadMeta::Invalid("_meta"))?;
    let meta = meta.ok_or(BadMeta::Missing(PROTOCOL_VERSION))?;
    let members = Object::read(meta).unwrap_or_default();
    let mut values = [None; OF_REQUESTS.len()];
    for (key, value) in members.spelled() {
        let Some(known) = OF_REQUESTS.iter().position(|name| *name == key) else {
            continue;
        };
        // Two readers of one message must not see different callers.
        if values[known].replace(value).is_some() {
            return Err(BadMeta::Invalid(OF_REQUESTS[known]));
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

/// Why a modern request is not served.
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
    text: &'a str,
    envelope: &Envelope,
    method: &str,
    headers: Option<&Inbound<'_>>,
) -> Result<(RequestMeta<'a>, Revision), RequestRefusal> {
    let meta = request_meta(text, envelope)?;
    if let Some(headers) = headers {
        let named = |member| message::named(text, envelope, member);
        headers.check(method, named, &meta.protocol_version)?;
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
    let value: Value = message::foreign::read(error).unwrap_or_default();
    let supported = value["data"]["supported"].as_array();
    supported
        .into_iter()
        .flatten()
        .filter_map(|version| version.as_str().and_then(Revision::parse))
        .collect()
}
