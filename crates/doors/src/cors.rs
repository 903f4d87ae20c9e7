//! What pages of allowed origins may send and read (the Fetch standard, "CORS protocol"). Which origins are
//! allowed is the guard's.

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use mainstay_core::era;

use crate::mcp::ResponseBody;

/// The headers that a page of an allowed origin may send. Those of a tool's parameters have names of
/// their own: the page says which.
const SHARED: &str = "authorization, content-type, accept, last-event-id, mcp-session-id, \
    mcp-protocol-version, mcp-method, mcp-name, traceparent, tracestate";

/// The headers of answers that such a page may read beside those that every page may.
const EXPOSED: &str = "mcp-session-id, mcp-protocol-version, www-authenticate, retry-after, \
    traceparent, tracestate";

/// The answer to a browser that asks whether it may call us.
pub fn preflight(asked: &HeaderMap) -> Response<ResponseBody> {
    let wanted = asked.get_all(header::ACCESS_CONTROL_REQUEST_HEADERS).iter();
    let of_tools = wanted
        .filter_map(|wanted| wanted.to_str().ok())
        .flat_map(|wanted| wanted.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .filter(|name| name.starts_with(era::headers::PARAM_PREFIX));
    let allowed = of_tools.fold(SHARED.to_owned(), |allowed, name| allowed + ", " + &name);
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static("GET, POST, DELETE"),
    );
    if let Ok(allowed) = HeaderValue::from_str(&allowed) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    }
    headers.insert(
        header::ACCESS_CONTROL_MAX_AGE,
        HeaderValue::from_static("600"),
    );
    response
}

/// Lets a page of an allowed origin read the answer, and those of its headers that matter to clients.
pub fn share(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static(EXPOSED),
    );
    headers.append(header::VARY, HeaderValue::from_static("origin"));
}
