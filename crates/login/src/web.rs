//! Requests to authorization servers. The package `transport` sends them; tests have an authorization server of their
//! own.

use std::{fmt::Debug, pin::Pin};

pub type WebRequest = http::Request<Vec<u8>>;
pub type WebResponse = http::Response<Vec<u8>>;

/// Resolves to the response of a request.
pub type PendingResponse<'a> =
    Pin<Box<dyn Future<Output = Result<WebResponse, WebError>> + Send + 'a>>;

/// Sends bounded HTTP requests. Redirects are not followed where a request has a body.
pub trait Web: Debug + Send + Sync {
    fn send(&self, request: WebRequest) -> PendingResponse<'_>;
}

/// A request without a usable answer. The texts name the place and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebError {
    /// Nothing was sent: no address, no connection, no TLS.
    #[error("{0}")]
    NotSent(String),
    /// The request was sent, and the answer did not come or was cut off.
    #[error("{0}")]
    AnswerLost(String),
    /// The answer is longer than its limit, or leads to a place that is not followed.
    #[error("{0}")]
    Unusable(String),
}

/// Marks a request to a URL that an MCP server has named, and no configuration or authorization server.
#[derive(Clone, Copy, Debug)]
pub struct NamedByServer;

/// Marks the response to a request that a proxy has forwarded: the proxy itself may have answered. Has its name.
#[derive(Clone, Debug)]
pub struct ThroughProxy(pub String);

/// Names the proxy behind the status of a response. Empty without one.
pub fn proxy_note(response: &WebResponse) -> String {
    let proxy = response.extensions().get::<ThroughProxy>();
    proxy.map_or_else(String::new, |ThroughProxy(words)| format!(" ({words})"))
}

/// A GET of a JSON document.
pub fn get_json(url: &str) -> Result<WebRequest, http::Error> {
    http::Request::get(url)
        .header("accept", "application/json")
        .body(Vec::new())
}
