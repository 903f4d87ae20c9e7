//! CORS headers for web pages of allowed origins (Fetch standard, "CORS protocol"). `Guard` decides
//! which origins are allowed.

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use mainstay_core::era;

use crate::mcp::ResponseBody;

/// Request headers that a page of an allowed origin may send. `preflight` adds the `Mcp-Param-`
/// headers that the page asks for.
const REQUEST_HEADERS: &str = "authorization, content-type, accept, last-event-id, mcp-session-id, \
    mcp-protocol-version, mcp-method, mcp-name, traceparent, tracestate";

/// Response headers that a page of an allowed origin may read.
const RESPONSE_HEADERS: &str = "mcp-session-id, mcp-protocol-version, www-authenticate, retry-after, \
    traceparent, tracestate";

/// The answer to a CORS preflight request.
pub fn preflight(request_headers: &HeaderMap) -> Response<ResponseBody> {
    let param_headers = request_headers
        .get_all(header::ACCESS_CONTROL_REQUEST_HEADERS)
        .iter()
        .filter_map(|names| names.to_str().ok())
        .flat_map(|names| names.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .filter(|name| name.starts_with(era::headers::PARAM_PREFIX));
    let header_list = param_headers.fold(REQUEST_HEADERS.to_owned(), |header_list, name| {
        header_list + ", " + &name
    });
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static("GET, POST, DELETE"),
    );
    if let Ok(header_list) = HeaderValue::from_str(&header_list) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, header_list);
    }
    headers.insert(
        header::ACCESS_CONTROL_MAX_AGE,
        HeaderValue::from_static("600"),
    );
    response
}

/// Sets the headers that let a page of an allowed origin read the response.
pub fn share(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static(RESPONSE_HEADERS),
    );
    headers.append(header::VARY, HeaderValue::from_static("origin"));
}
