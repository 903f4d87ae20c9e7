//! Errors of the HTTP client.

use std::io;

/// The reason that a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Connect(#[source] io::Error),
    /// No byte of the request was written.
    #[error("the connection was closed before the request was written")]
    NotWritten(#[source] io::Error),
    /// The connection broke after a part of the request, or all of it, had been written.
    #[error("the connection broke off")]
    Broken(#[source] io::Error),
    #[error("not an HTTP/1.1 response: {0}")]
    Malformed(&'static str),
    /// The request has no valid credentials. The text is the reason. The request has not run.
    #[error("{0}")]
    Unauthorized(String),
    /// The credentials lack a permission that the request needs. The request has not run.
    #[error("{0}")]
    Forbidden(String),
    /// The credentials are not available at the moment. The text is the reason. The request has not
    /// run.
    #[error("{0}")]
    CredentialsUnavailable(String),
    /// The body exceeds its budget. The rest of it was not read.
    #[error("the answer exceeds {0} bytes")]
    OverBudget(usize),
}

/// A URL that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UnusableUrl(pub &'static str);

/// The reason that a body could not be collected.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    #[error("too large")]
    TooLarge,
    #[error(transparent)]
    Broken(#[from] Error),
}
