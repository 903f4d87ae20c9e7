//! The web page at `/`, embedded in the program: an index, and assets whose names change with their content.
//! The page contains no data, so anyone may load it. It gets its data from the REST API.

use std::io::{self, Read as _};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::Request,
    response::Response,
    routing::any,
};
use flate2::read::GzDecoder;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// A file of the build.
pub struct File {
    path: &'static str,
    media_type: &'static str,
    /// The `ETag`, which changes with the content.
    tag: &'static str,
    /// True if `bytes` are compressed.
    is_gzip: bool,
    bytes: &'static [u8],
}

/// Headers of every answer. The page loads its own files, talks to its own address, and is shown in no frame.
/// `data:` and `blob:` are for images and sound in the results of tools.
const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
         font-src 'self'; connect-src 'self'; media-src 'self' data: blob:; form-action 'none'; \
         base-uri 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("permissions-policy"),
        "accelerometer=(), autoplay=(), camera=(), display-capture=(), encrypted-media=(), \
         fullscreen=(), geolocation=(), gyroscope=(), magnetometer=(), microphone=(), midi=(), \
         payment=(), publickey-credentials-get=(), screen-wake-lock=(), serial=(), usb=(), \
         xr-spatial-tracking=()",
    ),
];

/// Browsers request the index each time, and get 304 while it is unchanged.
const OF_THE_INDEX: HeaderValue = HeaderValue::from_static("no-cache");
/// Browsers never request an asset again, because its name changes with its content.
const OF_ASSETS: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

/// The routes of the page.
pub fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/", any(serve))
        .route("/favicon.svg", any(serve))
        .route("/assets/{*name}", any(serve))
}

async fn serve(request: Request) -> Response {
    let mut response = answer(
        FILES,
        request.method(),
        request.uri().path(),
        request.headers(),
    );
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn answer(files: &[File], method: &Method, path: &str, headers: &HeaderMap) -> Response {
    if method != Method::GET && method != Method::HEAD {
        let mut refused = refuse(
            StatusCode::METHOD_NOT_ALLOWED,
            r#"{"error":"method_not_allowed","message":"the page is only read: GET or HEAD"}"#,
        );
        let allowed = HeaderValue::from_static("GET, HEAD");
        refused.headers_mut().insert(header::ALLOW, allowed);
        return refused;
    }
    let Some(file) = files.iter().find(|file| file.path == path) else {
        return refuse(
            StatusCode::NOT_FOUND,
            r#"{"error":"not_found","message":"the page has no such file; load it again"}"#,
        );
    };
    let known = headers.get_all(header::IF_NONE_MATCH).iter();
    let is_known = known
        .filter_map(|tags| tags.to_str().ok())
        .any(|tags| names(tags, file.tag));
    let takes_gzip = file.is_gzip && accepts_gzip(headers);
    let mut response = Response::new(Body::empty());
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    } else {
        match file.content(takes_gzip) {
            Ok(bytes) => *response.body_mut() = Body::from(bytes),
            // This cannot happen: the build compressed the file.
            Err(_) => *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
    let headers = response.headers_mut();
    let is_asset = path.starts_with("/assets/");
    let caching = if is_asset { OF_ASSETS } else { OF_THE_INDEX };
    headers.insert(header::CACHE_CONTROL, caching);
    headers.insert(header::ETAG, HeaderValue::from_static(file.tag));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if !is_known {
        let media_type = HeaderValue::from_static(file.media_type);
        headers.insert(header::CONTENT_TYPE, media_type);
        if takes_gzip {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
    }
    response
}

/// Returns a refusal in the form of a REST error.
fn refuse(status: StatusCode, body: &'static str) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

impl File {
    /// The stored bytes, or the decompressed bytes for a client that does not accept gzip.
    fn content(&self, takes_gzip: bool) -> io::Result<Bytes> {
        if takes_gzip || !self.is_gzip {
            return Ok(Bytes::from_static(self.bytes));
        }
        let mut whole = Vec::new();
        GzDecoder::new(self.bytes).read_to_end(&mut whole)?;
        Ok(whole.into())
    }
}

/// True if `If-None-Match` contains this tag (RFC 9110, section 13.1.2: weak comparison).
fn names(tags: &str, tag: &str) -> bool {
    let strong = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    tags.split(',')
        .any(|known| known.trim() == "*" || strong(known) == strong(tag))
}

/// True if `Accept-Encoding` allows gzip (RFC 9110, section 12.5.3).
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let lists = headers.get_all(header::ACCEPT_ENCODING).iter();
    let lists = lists.filter_map(|list| list.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight.trim().trim_start_matches("q=");
        let is_refused = !weight.is_empty() && weight.trim_matches(['0', '.']).is_empty();
        name.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}

#[cfg(test)]
mod tests;
