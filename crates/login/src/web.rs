//! Requests to authorization servers. The package `transport` sends them. Tests use their own authorization server.

use std::{fmt::Debug, pin::Pin};

pub type WebRequest = http::Request<Vec<u8>>;
pub type WebResponse = http::Response<Vec<u8>>;

/// Resolves to the response of a request.
pub type PendingResponse<'a> =
    Pin<Box<dyn Future<Output = Result<WebResponse, WebError>> + Send + 'a>>;

/// Sends HTTP requests with limits of time and size. Redirects of requests with a body are not followed.
pub trait Web: Debug + Send + Sync {
    fn send(&self, request: WebRequest) -> PendingResponse<'_>;
}

/// The error of a request without a usable answer. The texts name the URL and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebError {
    /// Nothing was sent, because the address, the connection or TLS failed.
    #[error("{0}")]
    NotSent(String),
    /// The request was sent, but its answer is missing or incomplete.
    #[error("{0}")]
    AnswerLost(String),
    /// The answer is too long, or redirects to a URL that is not followed.
    #[error("{0}")]
    Unusable(String),
}

/// Marks a request to a URL that an MCP server has named, in contrast to URLs of the configuration or of an
/// authorization server.
#[derive(Clone, Copy, Debug)]
pub struct NamedByServer;

/// Marks a response that came through a proxy, because the proxy itself may have sent it. Has the proxy's name.
#[derive(Clone, Debug)]
pub struct ThroughProxy(pub String);

/// A note that names the proxy, for the end of an error. Empty without a proxy.
pub fn proxy_note(response: &WebResponse) -> String {
    let proxy = response.extensions().get::<ThroughProxy>();
    proxy.map_or_else(String::new, |ThroughProxy(words)| format!(" ({words})"))
}

/// Builds a GET request for a JSON document.
pub fn get_json(url: &str) -> Result<WebRequest, http::Error> {
    http::Request::get(url)
        .header("accept", "application/json")
        .body(Vec::new())
}
