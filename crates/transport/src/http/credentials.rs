//! The credentials of requests to a server: fixed header lines, or lines that a source renews.

use std::{
    borrow::Cow,
    fmt::{Debug, Write as _},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use crate::http::http1::{Error, Head, Responding, Response};

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

    /// The values of the headers. A value of `Authorization` comes without its scheme.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.0.lines().filter_map(|line| {
            let (name, value) = line.split_once(": ")?;
            let credentials = value.split_once(' ').filter(|_| name == "authorization");
            Some(credentials.map_or(value, |(_, credentials)| credentials))
        })
    }

    /// True if both are clones of the same lines.
    pub fn is_clone_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The lines whose names do not occur in `others`, a block of header lines.
    pub fn without_names_of(&self, others: &[u8]) -> Cow<'_, [u8]> {
        if self.0.is_empty() || others.is_empty() {
            return Cow::Borrowed(self.as_bytes());
        }
        let name = |line: &[u8]| line.split(|byte| *byte == b':').next().map(<[u8]>::to_vec);
        let others: Vec<_> = lines_in(others).filter_map(name).collect();
        let is_other = |line: &&[u8]| {
            name(line)
                .is_some_and(|name| others.iter().any(|other| other.eq_ignore_ascii_case(&name)))
        };
        if !lines_in(self.as_bytes()).any(|line| is_other(&line)) {
            return Cow::Borrowed(self.as_bytes());
        }
        let rest = lines_in(self.as_bytes()).filter(|line| !is_other(line));
        Cow::Owned(rest.collect::<Vec<_>>().concat())
    }
}

/// The lines of a block, each with its line break.
fn lines_in(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    block.split_inclusive(|byte| *byte == b'\n')
}

impl Debug for HeaderLines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// The reason that a request has no credentials. The texts are for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCredentials {
    /// Only a person can obtain valid credentials.
    #[error("{0}")]
    NoLongerValid(String),
    /// The issuer of the credentials does not answer. A later request may succeed.
    #[error("{0}")]
    Unavailable(String),
    /// The source has no credentials for this server. The caller gets the server's own answer.
    #[error("the server's own answer stands")]
    Unknown,
}

/// Resolves to the header lines of a request.
pub type RenewedLines<'a> =
    Pin<Box<dyn Future<Output = Result<HeaderLines, NoCredentials>> + Send + 'a>>;

/// A server's answer that refuses the credentials of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedCredentials {
    /// 401, or 403 with a challenge.
    pub status: u16,
    /// The values of all `WWW-Authenticate` headers.
    pub challenges: Vec<String>,
    /// The credential lines of the refused request.
    pub lines: HeaderLines,
}

impl RefusedCredentials {
    /// `None` if the answer has nothing to do with credentials. A 403 without a challenge is about something else.
    fn from_answer(head: &Head, lines: &HeaderLines) -> Option<Self> {
        let challenges = match head.status {
            401 | 403 => head.all("www-authenticate"),
            _ => return None,
        };
        (head.status == 401 || !challenges.is_empty()).then(|| Self {
            status: head.status,
            challenges,
            lines: lines.clone(),
        })
    }
}

/// Credentials that change, such as tokens that expire. All requests to one server share the source.
pub trait CredentialSource: Debug + Send + Sync {
    /// The lines for the next request, if they are available without waiting. Called for every request.
    fn ready_lines(&self) -> Option<HeaderLines> {
        None
    }

    /// The lines for the next request. May wait, for example for a token. Must be cancel-safe: an abandoned
    /// call drops the future.
    fn lines(&self) -> RenewedLines<'_>;

    /// Returns lines that differ from the refused ones. Many requests may be refused at the same time: if the
    /// lines have changed since, returns the current lines. Must be cancel-safe.
    fn refresh(&self, refused: RefusedCredentials) -> RenewedLines<'_>;
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

/// Waits for the lines of a source, then sends a request with them.
pub async fn send_renewed(
    source: Arc<dyn CredentialSource>,
    send: impl Fn(&HeaderLines) -> Responding,
) -> Result<Response, Error> {
    let lines = match source.lines().await {
        Ok(lines) => lines,
        Err(NoCredentials::Unknown) => HeaderLines::new([]),
        Err(error) => return Err(missing_credentials(401, &error)),
    };
    let response = send(&lines).await?;
    match RefusedCredentials::from_answer(&response.head, &lines) {
        Some(refused) => repeat(source.as_ref(), refused, response, send).await,
        None => Ok(response),
    }
}

/// Repeats a request with other lines, because the server refused its credentials and has not run it. Fails
/// with the reason of the source if there are no other lines.
async fn repeat(
    source: &dyn CredentialSource,
    refused: RefusedCredentials,
    response: Response,
    send: impl Fn(&HeaderLines) -> Responding,
) -> Result<Response, Error> {
    let status = refused.status;
    match source.refresh(refused).await {
        Ok(lines) => {
            response.linger();
            send(&lines).await
        }
        Err(NoCredentials::Unknown) => Ok(response),
        Err(error) => {
            response.linger();
            Err(missing_credentials(status, &error))
        }
    }
}

fn missing_credentials(status: u16, error: &NoCredentials) -> Error {
    let reason = error.to_string();
    match error {
        NoCredentials::NoLongerValid(_) if status == 403 => Error::Forbidden(reason),
        NoCredentials::NoLongerValid(_) | NoCredentials::Unknown => Error::Unauthorized(reason),
        NoCredentials::Unavailable(_) => Error::CredentialsUnavailable(reason),
    }
}

/// A request in flight with lines that were ready.
pub struct ReadySending {
    /// `None` once the request has ended or is repeated.
    responding: Option<Responding>,
    source: Arc<dyn CredentialSource>,
    lines: HeaderLines,
    /// The position of the lines in the request.
    lines_offset: usize,
}

impl ReadySending {
    pub fn new(
        responding: Responding,
        source: Arc<dyn CredentialSource>,
        lines: HeaderLines,
        lines_offset: usize,
    ) -> Self {
        Self {
            responding: Some(responding.keep_request()),
            source,
            lines,
            lines_offset,
        }
    }

    /// Repeats a request whose credentials were refused, with other lines.
    fn renew(&mut self, refused: RefusedCredentials, response: Response) -> RenewedSending {
        let request = self.responding.take().map(Responding::into_request);
        let source = Arc::clone(&self.source);
        let (offset, length) = (self.lines_offset, self.lines.as_bytes().len());
        Box::pin(async move {
            let Some((client, request)) = request else {
                return Ok(response);
            };
            let send = |lines: &HeaderLines| {
                let mut request = request.clone();
                request.splice(offset..offset + length, lines.as_bytes().iter().copied());
                client.send(request)
            };
            repeat(source.as_ref(), refused, response, send).await
        })
    }
}

type RenewedSending = Pin<Box<dyn Future<Output = Result<Response, Error>> + Send>>;

/// A request in flight with its credentials. Resolves to the response.
pub enum Sending {
    Plain(Responding),
    Ready(ReadySending),
    Renewed(RenewedSending),
}

impl Future for Sending {
    type Output = Result<Response, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        loop {
            let renewed = match this {
                Self::Plain(responding) => return Pin::new(responding).poll(context),
                Self::Renewed(sending) => return sending.as_mut().poll(context),
                Self::Ready(ready) => {
                    let Some(responding) = &mut ready.responding else {
                        return Poll::Pending;
                    };
                    let Poll::Ready(response) = Pin::new(responding).poll(context) else {
                        return Poll::Pending;
                    };
                    let response = match response {
                        Ok(response) => response,
                        Err(error) => return Poll::Ready(Err(error)),
                    };
                    match RefusedCredentials::from_answer(&response.head, &ready.lines) {
                        None => return Poll::Ready(Ok(response)),
                        Some(refused) => ready.renew(refused, response),
                    }
                }
            };
            *this = Self::Renewed(renewed);
        }
    }
}

impl Debug for Sending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sending").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_give_way_to_others_of_the_same_name() {
        let fixed = HeaderLines::new([("authorization", "old"), ("x-a", "authorization: b")]);
        let rest_of = |others: &[(&str, &str)]| {
            let others = HeaderLines::new(others.iter().copied());
            String::from_utf8(fixed.without_names_of(others.as_bytes()).into_owned())
                .expect("UTF-8")
        };
        let whole = "authorization: old\r\nx-a: authorization: b\r\n";
        assert_eq!(rest_of(&[]), whole);
        assert_eq!(rest_of(&[("x-b", "1")]), whole);
        assert_eq!(
            rest_of(&[("Authorization", "new"), ("x-b", "1")]),
            "x-a: authorization: b\r\n"
        );
    }
}
