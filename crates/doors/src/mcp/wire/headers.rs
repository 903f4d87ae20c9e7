//! The headers of MCP over HTTP, and what is asked of them.

use std::time::Duration;

use http::{HeaderMap, HeaderName, StatusCode, header};
use mainstay_core::{
    era::{Revision, code, headers},
    message,
};
use mainstay_platform::lineage::{CHAIN_HEADER, Lineage};

use super::answer::Refusal;

// Made once: a name that is looked for as text is parsed each time.
pub const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const CHAIN: HeaderName = HeaderName::from_static(CHAIN_HEADER);
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
pub const PROTOCOL_VERSION: HeaderName = HeaderName::from_static(headers::VERSION);

/// How long the response head is held back for the result: then the answer becomes a stream, with
/// keep-alive comments, so that no intermediary's time limit ends a silent call.
pub const HEAD_HOLD: Duration = Duration::from_secs(1);

/// Which forms of an answer a client takes.
#[derive(Clone, Copy)]
pub struct Accepts {
    pub json: bool,
    pub events: bool,
}

impl Accepts {
    pub fn of(headers: &HeaderMap) -> Self {
        // What every client sends.
        if headers
            .get(header::ACCEPT)
            .is_some_and(|value| value == "application/json, text/event-stream")
        {
            return Self {
                json: true,
                events: true,
            };
        }
        let mut accepts = Self {
            json: false,
            events: false,
        };
        let mut any = false;
        for value in headers.get_all(header::ACCEPT) {
            any = true;
            for range in value.to_str().unwrap_or_default().split(',') {
                match range.split(';').next().unwrap_or_default().trim() {
                    "*/*" => {
                        accepts = Self {
                            json: true,
                            events: true,
                        }
                    }
                    "application/json" | "application/*" => accepts.json = true,
                    "text/event-stream" | "text/*" => accepts.events = true,
                    _ => {}
                }
            }
        }
        // No header accepts everything (RFC 9110), but a client that says nothing expects no stream.
        if any {
            accepts
        } else {
            Self {
                json: true,
                events: false,
            }
        }
    }
}

/// What is asked of every POST.
pub fn check_content_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let media_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    if !media_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .eq_ignore_ascii_case("application/json")
    {
        return Err(Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "Content-Type must be application/json",
        ));
    }
    Ok(())
}

/// What is asked of every request in a session.
pub fn check_version(headers: &HeaderMap) -> Result<(), Refusal> {
    if let Some(version) = headers.get(PROTOCOL_VERSION)
        && version
            .to_str()
            .ok()
            .and_then(Revision::parse_legacy)
            .is_none()
    {
        return Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            "MCP-Protocol-Version names no supported revision",
        ));
    }
    Ok(())
}

/// The loop guard: a client that has come through us is one of our own servers.
/// `id` is what the refusal answers.
pub fn admit(lineage: &Lineage, headers: &HeaderMap, id: Option<&str>) -> Result<(), Refusal> {
    let chain = headers.get(CHAIN).and_then(|chain| chain.to_str().ok());
    lineage.admit(chain.unwrap_or_default()).map_err(|error| {
        let body = message::error_response(id, code::INVALID_REQUEST, &error.to_string(), None);
        Refusal::saying(StatusCode::LOOP_DETECTED, body)
    })
}
