//! The HTTP headers of MCP, and their checks.

use std::time::Duration;

use http::{HeaderMap, HeaderName, StatusCode, header};
use mainstay_core::{
    era::{Revision, code, headers},
    message,
};
use mainstay_platform::lineage::{CHAIN_HEADER, Lineage};

use super::answer::HttpRefusal;

// Constants, because a lookup by text would parse the name each time.
pub const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const CHAIN: HeaderName = HeaderName::from_static(CHAIN_HEADER);
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
pub const PROTOCOL_VERSION: HeaderName = HeaderName::from_static(headers::VERSION);

/// Time for which the response head waits for a result. After it, the response is a stream with
/// keep-alive comments.
pub const HEAD_HOLD: Duration = Duration::from_secs(1);

/// The media types that a client accepts.
#[derive(Clone, Copy)]
pub struct Accepts {
    pub json: bool,
    pub events: bool,
}

impl Accepts {
    pub fn from_headers(headers: &HeaderMap) -> Self {
        // Most clients send this value. Compare it before parsing.
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
                json.apply("application", "json", range);
                events.apply("text", "event-stream", range);
            }
            any |= value.to_str().is_err();
        }
        // Without the header, the client accepts everything (RFC 9110). It probably expects JSON.
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

/// The range of an `Accept` header that applies to a media type: the most specific one (RFC 9110,
/// section 12.5.1).
#[derive(Default)]
struct Range {
    narrowness: u8,
    is_accepted: bool,
}

impl Range {
    fn apply(&mut self, kind: &str, subtype: &str, range: &str) {
        let mut parts = range.split(';').map(str::trim);
        let Some((range_kind, range_subtype)) = parts
            .next()
            .and_then(|media_range| media_range.split_once('/'))
        else {
            return;
        };
        let narrowness = match (range_kind, range_subtype) {
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

/// True for a parameter such as `q=0` or `q=0.000`, which excludes the range.
fn is_zero_quality(parameter: &str) -> bool {
    let Some((name, value)) = parameter.split_once('=') else {
        return false;
    };
    name.trim().eq_ignore_ascii_case("q")
        && value.trim().parse::<f32>().is_ok_and(|value| value == 0.0)
}

/// Checks `Content-Type`, which POST requires.
pub fn check_content_type(headers: &HeaderMap) -> Result<(), HttpRefusal> {
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
        return Err(HttpRefusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "Content-Type must be application/json",
        ));
    }
    Ok(())
}

/// Checks `MCP-Protocol-Version`, if it is present.
pub fn check_version(headers: &HeaderMap) -> Result<(), HttpRefusal> {
    if let Some(version) = headers.get(PROTOCOL_VERSION)
        && version
            .to_str()
            .ok()
            .and_then(Revision::parse_legacy)
            .is_none()
    {
        return Err(HttpRefusal::new(
            StatusCode::BAD_REQUEST,
            "MCP-Protocol-Version names no supported revision",
        ));
    }
    Ok(())
}

/// Refuses a request that has already passed this Mainstay, to prevent loops. `id` is the request's
/// id (JSON text).
pub fn admit(lineage: &Lineage, headers: &HeaderMap, id: Option<&str>) -> Result<(), HttpRefusal> {
    let chain = headers.get(CHAIN).and_then(|chain| chain.to_str().ok());
    lineage.admit(chain.unwrap_or_default()).map_err(|error| {
        let body = message::error_response(id, code::INVALID_REQUEST, &error.to_string(), None);
        HttpRefusal::with_body(StatusCode::LOOP_DETECTED, body)
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_narrowest_range_decides_what_is_accepted() {
        for (values, json, events) in [
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
            for value in values {
                headers.append(header::ACCEPT, HeaderValue::from_static(value));
            }
            let accepts = Accepts::from_headers(&headers);
            assert_eq!((accepts.json, accepts.events), (json, events), "{values:?}");
        }
    }
}
