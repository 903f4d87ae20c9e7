//! The credentials of requests to a server: fixed header lines, or lines that a source renews.

use std::{
    fmt::{Debug, Write as _},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use crate::http::http1::{Error, Responding, Response};

/// Header lines, each `name: value` with its line break. They may contain secrets, which `Debug` hides.
/// Clones share them.
#[derive(Clone, PartialEq, Eq)]
pub struct HeaderLines(Arc<str>);

impl HeaderLines {
    /// Names and values must be valid and without line breaks.
    pub fn new<'a>(headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut lines = String::new();
        for (name, value) in headers {
            // Writing to a string does not fail.
            let _ = write!(lines, "{name}: {value}\r\n");
        }
        Self(lines.into())
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl Debug for HeaderLines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// There are no valid credentials, and only a person can get new ones. The text gives the reason, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoLongerValid(pub String);

/// Resolves to the lines of a request.
pub type RenewedLines<'a> =
    Pin<Box<dyn Future<Output = Result<HeaderLines, NoLongerValid>> + Send + 'a>>;

/// Credentials that change, such as tokens that expire. All requests to one server share the source.
pub trait CredentialSource: Debug + Send + Sync {
    /// The lines of the next request. May wait, for example for a token. Must be cancel-safe: a call that is
    /// given up drops the future.
    fn lines(&self) -> RenewedLines<'_>;

    /// Returns other lines instead of `refused`, to which the server has answered 401 with this
    /// `WWW-Authenticate`. Many requests may be refused at the same time: if the lines have changed since,
    /// the source returns the present ones. Must be cancel-safe.
    fn refresh<'a>(
        &'a self,
        refused: &'a HeaderLines,
        challenge: Option<&'a str>,
    ) -> RenewedLines<'a>;
}

/// The credentials of all requests to one target.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// The headers of the configuration. A 401 to them is final.
    Fixed(HeaderLines),
    /// The headers of the configuration, and the lines of a source.
    Renewed {
        fixed: HeaderLines,
        source: Arc<dyn CredentialSource>,
    },
}

impl Credentials {
    pub fn new(fixed: HeaderLines, source: Option<Arc<dyn CredentialSource>>) -> Self {
        match source {
            None => Self::Fixed(fixed),
            Some(source) => Self::Renewed { fixed, source },
        }
    }

    pub fn fixed(&self) -> &HeaderLines {
        match self {
            Self::Fixed(fixed) | Self::Renewed { fixed, .. } => fixed,
        }
    }
}

/// Sends a request with the lines of a source. After a 401 the request has not run, so it is sent once more,
/// with other lines. If there are none, the 401 is the answer.
pub async fn send_renewed(
    source: Arc<dyn CredentialSource>,
    send: impl Fn(&HeaderLines) -> Responding,
) -> Result<Response, Error> {
    let lines = source.lines().await;
    let lines = lines.map_err(|error| Error::Unauthorized(error.to_string()))?;
    let response = send(&lines).await?;
    if response.head.status != 401 {
        return Ok(response);
    }
    let challenge = response.head.get("www-authenticate");
    match source.refresh(&lines, challenge).await {
        Ok(lines) => {
            response.linger();
            send(&lines).await
        }
        Err(error) => {
            tracing::debug!(%error, "credentials cannot be renewed");
            Ok(response)
        }
    }
}

/// A request with its credentials, on its way. Resolves to its response.
pub enum Sending {
    Plain(Responding),
    Renewed(Pin<Box<dyn Future<Output = Result<Response, Error>> + Send>>),
}

impl Future for Sending {
    type Output = Result<Response, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Plain(responding) => Pin::new(responding).poll(context),
            Self::Renewed(sending) => sending.as_mut().poll(context),
        }
    }
}

impl Debug for Sending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sending").finish_non_exhaustive()
    }
}
