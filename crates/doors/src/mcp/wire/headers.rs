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
        let (mut json, mut events) = (Range::default(), Range::default());
        let mut any = false;
        for value in headers.get_all(header::ACCEPT) {
            for range in value.to_str().unwrap_or_default().split(',') {
                any |= !range.trim().is_empty();
                json.hear("application", "json", range);
                events.hear("text", "event-stream", range);
            }
            any |= value.to_str().is_err();
        }
        // No header accepts everything (RFC 9110), but a client that says nothing expects no stream.
        if any {
            Self {
                json: json.is_accepted,
                events: events.is_accepted,
            }
        } else {
            Self {
                json: true,
                events: false,
            }
        }
    }
}

/// What the ranges of an `Accept` say about one media type: the narrowest one decides (RFC 9110, 12.5.1).
#[derive(Default)]
struct Range {
    narrowness: u8,
    is_accepted: bool,
}

impl Range {
    fn hear(&mut self, kind: &str, subtype: &str, range: &str) {
        let mut parts = range.split(';').map(str::trim);
        let Some((of_kind, of_subtype)) = parts.next().and_then(|it| it.split_once('/')) else {
            return;
        };
        let narrowness = match (of_kind, of_subtype) {
            ("*", "*") => 1,
            (one, "*") if one.eq_ignore_ascii_case(kind) => 2,
            (one, other)
                if one.eq_ignore_ascii_case(kind) && other.eq_ignore_ascii_case(subtype) =>
            {
                3
            }
            _ => return,
        };
        let is_accepted = !parts.any(is_zero_quality);
        if narrowness > self.narrowness {
            *self = Self {
                narrowness,
                is_accepted,
            };
        } else if narrowness == self.narrowness {
            self.is_accepted |= is_accepted;
        }
    }
}

/// Whether a parameter says that the range is not accepted: `q=0`, `q=0.000`.
fn is_zero_quality(parameter: &str) -> bool {
    let Some((name, value)) = parameter.split_once('=') else {
        return false;
    };
    name.trim().eq_ignore_ascii_case("q")
        && value.trim().parse::<f32>().is_ok_and(|value| value == 0.0)
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

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_narrowest_range_decides_what_is_accepted() {
        for (said, json, events) in [
            (&["application/json, text/event-stream"][..], true, true),
            (&["Application/JSON, TEXT/Event-Stream"], true, true),
            (&["application/json", "text/event-stream"], true, true),
            (&["*/*"], true, true),
            (&["application/*"], true, false),
            (&["text/*;q=0.5"], false, true),
            (&["application/json;q=0, */*"], false, true),
            (&["*/*, text/event-stream; Q=0.000"], true, false),
            (&["application/json;q=0"], false, false),
            (&["*/*;q=0"], false, false),
            (&["application/*;q=0, application/json"], true, false),
            (&["application/json;charset=utf-8;q=1.0"], true, false),
            (&["text/html"], false, false),
            (&["*"], false, false),
            (&["", " "], true, false),
            (&[], true, false),
        ] {
            let mut headers = HeaderMap::new();
            for value in said {
                headers.append(header::ACCEPT, HeaderValue::from_static(value));
            }
            let accepts = Accepts::of(&headers);
            assert_eq!((accepts.json, accepts.events), (json, events), "{said:?}");
        }
    }
}
