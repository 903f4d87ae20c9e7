//! HTTP requests to a server: its URL, the configured headers, and redirects.

use std::{
    fmt::Write as _,
    sync::Arc,
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwap;
use bytes::{Bytes, BytesMut};
use http::Uri;
use mainstay_core::{config::HttpLaunch, ids::ServerName, lifecycle::Loss, proxy::ProxyVariables};
use mainstay_platform::{environment, lineage::CHAIN_HEADER};

use crate::{
    CredentialSource, Frame, Interruption, InterruptionKind, Opening, UnreadableMessage,
    http::{
        credentials::{Credentials, HeaderLines, ReadySending, Sending, send_renewed},
        http1::{Error, Head, HttpClient, Responding, Response, UnusableUrl},
        refusals,
        urls::{resolve, same_origin},
    },
};

/// The headers of every POST to an MCP endpoint.
pub const POST_HEADERS: [(&str, &str); 2] = [
    ("content-type", "application/json"),
    ("accept", "application/json, text/event-stream"),
];

/// The maximum number of redirects that one request follows.
pub const MAX_REDIRECTS: usize = 3;

/// The time limit for the delivery of a notification or an answer.
const DELIVERY_LIMIT: Duration = Duration::from_secs(10);

/// The maximum number of bytes of an error page that are stored.
const SHOWN_ERROR: usize = 16 * 1024;

/// The time limit for reading an error page.
const ERROR_LIMIT: Duration = Duration::from_secs(2);

/// The maximum number of characters of an error page that a failed call shows.
const SHOWN_REFUSAL: usize = 300;

/// One URL of a server, and the credentials of requests to it. Clones share the URL, which changes when the
/// server redirects a request.
#[derive(Clone, Debug)]
pub struct HttpTarget {
    client: Arc<HttpClient>,
    uri: Arc<ArcSwap<Uri>>,
    /// The header line with the lineage of this Mainstay. Empty if the target is not an MCP server.
    chain: Arc<str>,
    credentials: Credentials,
}

/// The head of a request without path, credentials, cookies and length.
#[derive(Clone)]
pub struct RequestTemplate {
    method: &'static str,
    headers: Arc<[u8]>,
    /// The position of the credentials in `headers`.
    credentials_at: usize,
}

impl HttpTarget {
    /// Creates the target for the endpoint of an MCP server. Requests carry the lineage, so that a Mainstay
    /// detects when it is reached through itself.
    pub fn of_server(opening: &Opening, launch: &HttpLaunch) -> Result<Self, UnusableUrl> {
        let chain = format!("{CHAIN_HEADER}: {}\r\n", opening.lineage.chain());
        let variables = environment::proxy_variables();
        Self::build(launch, &chain, opening.credentials.clone(), variables)
    }

    /// Creates a target that is not an MCP endpoint.
    pub fn new(launch: &HttpLaunch) -> Result<Self, UnusableUrl> {
        Self::with_credentials(launch, None)
    }

    /// Creates a target that is not an MCP endpoint, with a source of credentials.
    pub fn with_credentials(
        launch: &HttpLaunch,
        source: Option<Arc<dyn CredentialSource>>,
    ) -> Result<Self, UnusableUrl> {
        Self::through(launch, source, environment::proxy_variables())
    }

    /// Like [`Self::with_credentials`], with the proxy variables of a given environment.
    pub fn through(
        launch: &HttpLaunch,
        source: Option<Arc<dyn CredentialSource>>,
        variables: &ProxyVariables,
    ) -> Result<Self, UnusableUrl> {
        Self::build(launch, "", source, variables)
    }

    fn build(
        launch: &HttpLaunch,
        chain: &str,
        source: Option<Arc<dyn CredentialSource>>,
        variables: &ProxyVariables,
    ) -> Result<Self, UnusableUrl> {
        let uri: Uri = launch
            .url
            .parse()
            .map_err(|_| UnusableUrl("the URL cannot be parsed"))?;
        // Names and values were checked when the configuration was read.
        let configured = launch
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.expose()));
        let (cookies, others): (Vec<_>, Vec<_>) =
            configured.partition(|(name, _)| name.eq_ignore_ascii_case("cookie"));
        let cookies: Vec<_> = cookies.into_iter().map(|(_, value)| value).collect();
        let cookie = (!cookies.is_empty()).then(|| cookies.join("; "));
        Ok(Self {
            client: HttpClient::with_settings(&uri, cookie, &launch.network, variables)?,
            uri: Arc::new(ArcSwap::from_pointee(uri)),
            chain: chain.into(),
            credentials: Credentials::new(HeaderLines::new(others), source),
        })
    }

    /// Refuses connections to private addresses from now on. Connections through a proxy are not checked,
    /// because the proxy resolves the names.
    pub fn refuse_private_addresses(&self) {
        self.client.refuse_private_addresses();
    }

    /// The name of the proxy that forwards the requests, for people.
    pub fn proxy_words(&self) -> Option<String> {
        self.client.proxy_words()
    }

    /// Returns a target with the same origin and another URL.
    pub fn at(&self, uri: Uri) -> Self {
        Self {
            uri: Arc::new(ArcSwap::from_pointee(uri)),
            ..self.clone()
        }
    }

    pub fn uri(&self) -> Arc<Uri> {
        self.uri.load_full()
    }

    pub fn template(&self, method: &'static str, headers: &[(&str, &str)]) -> RequestTemplate {
        let mut head = format!(
            "host: {}\r\nuser-agent: mainstay/{}\r\n{}",
            self.client.authority(),
            env!("CARGO_PKG_VERSION"),
            self.chain,
        );
        let credentials_at = head.len();
        for (name, value) in headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        RequestTemplate {
            method,
            headers: head.into_bytes().into(),
            credentials_at,
        }
    }

    /// Renders a request. Returns its bytes, and the position of `renewed` in them. `renewed` holds the
    /// header lines of a credential source, which replace configured lines of the same name.
    fn request(
        &self,
        template: &RequestTemplate,
        renewed: &[u8],
        body: Option<&str>,
    ) -> (Vec<u8>, usize) {
        const ROOM: usize = 64;
        let uri = self.uri.load();
        let path = uri
            .path_and_query()
            .map_or("/", http::uri::PathAndQuery::as_str);
        let length = body.map_or(0, str::len);
        let fixed = self.credentials.fixed().without_names_of(renewed);
        // Empty, unless a proxy forwards the requests.
        let forwarded = self.client.forwarded();
        let (start, for_proxy) = (&*forwarded.start, forwarded.lines.expose());
        let head = path.len() + template.headers.len() + fixed.len() + renewed.len();
        let head = head + start.len() + for_proxy.len();
        let mut request = Vec::with_capacity(head + length + ROOM);
        for part in [template.method, " ", start, path, " HTTP/1.1\r\n"] {
            request.extend_from_slice(part.as_bytes());
        }
        let (before, after) = template.headers.split_at(template.credentials_at);
        request.extend_from_slice(before);
        request.extend_from_slice(&fixed);
        let renewed_offset = request.len();
        request.extend_from_slice(renewed);
        request.extend_from_slice(after);
        request.extend_from_slice(for_proxy.as_bytes());
        self.client.cookies.write_to(&mut request, uri.path());
        match body {
            Some(body) => {
                request.extend_from_slice(format!("content-length: {length}\r\n\r\n").as_bytes());
                request.extend_from_slice(body.as_bytes());
            }
            None => request.extend_from_slice(b"\r\n"),
        }
        (request, renewed_offset)
    }

    fn send_by(
        &self,
        template: &RequestTemplate,
        body: Option<&str>,
        send: fn(&Arc<HttpClient>, Vec<u8>) -> Responding,
    ) -> Sending {
        match &self.credentials {
            Credentials::Fixed(_) => {
                let (request, _) = self.request(template, &[], body);
                Sending::Plain(send(&self.client, request))
            }
            Credentials::Renewed { source, .. } => {
                if let Some(lines) = source.ready_lines() {
                    let (request, offset) = self.request(template, lines.as_bytes(), body);
                    let responding = send(&self.client, request);
                    let source = Arc::clone(source);
                    return Sending::Ready(ReadySending::new(responding, source, lines, offset));
                }
                let (target, template) = (self.clone(), template.clone());
                let body = body.map(str::to_owned);
                let send = move |lines: &HeaderLines| {
                    let (request, _) = target.request(&template, lines.as_bytes(), body.as_deref());
                    send(&target.client, request)
                };
                Sending::Renewed(Box::pin(send_renewed(Arc::clone(source), send)))
            }
        }
    }

    /// Sends a request without a body.
    pub fn send(&self, template: &RequestTemplate) -> Sending {
        self.send_by(template, None, HttpClient::send)
    }

    /// Sends a request without a body on a new connection.
    pub fn send_afresh(&self, template: &RequestTemplate) -> Sending {
        self.send_by(template, None, HttpClient::send_afresh)
    }

    pub fn send_body(&self, template: &RequestTemplate, body: &str) -> Sending {
        self.send_by(template, Some(body), HttpClient::send)
    }

    /// Sends a request with a body on a new connection.
    pub fn send_body_afresh(&self, template: &RequestTemplate, body: &str) -> Sending {
        self.send_by(template, Some(body), HttpClient::send_afresh)
    }

    pub fn forget_connections(&self) {
        self.client.forget();
    }

    /// Handles a redirect of a server. Later requests go to the new URL. Returns `false` if the redirect is
    /// not followed.
    ///
    /// Some servers redirect `/mcp` to `/mcp/`. A redirect to another origin is not followed, because the
    /// configured headers contain secrets.
    pub fn redirect(&self, head: &Head) -> bool {
        let from = self.uri();
        let target = is_redirect(head.status)
            .then(|| head.get("location"))
            .flatten()
            .and_then(|target| resolve(&from, target))
            .filter(|target| same_origin(&from, target));
        let is_followed = target.is_some();
        if let Some(target) = target.filter(|target| *target != *from) {
            self.uri.store(Arc::new(target));
        }
        is_followed
    }

    /// Sends a request, and sends it again after each redirect.
    pub async fn follow(
        &self,
        template: &RequestTemplate,
        body: Option<&str>,
    ) -> Result<Response, Error> {
        let mut redirects = 0;
        loop {
            let response = self.send_by(template, body, HttpClient::send).await?;
            if redirects == MAX_REDIRECTS || !self.redirect(&response.head) {
                return Ok(response);
            }
            redirects += 1;
        }
    }
}

impl HttpTarget {
    /// The interruption of a request that was answered by a redirect. The request has not run.
    pub fn redirected(&self, head: &Head) -> Interruption {
        let uri = self.uri();
        if self.redirect(head) {
            return Interruption::not_sent(InterruptionKind::Redirected);
        }
        let words = refusals::redirected(&uri, head).unwrap_or_default();
        Interruption::not_sent(InterruptionKind::Refused {
            status: head.status,
            body: words,
        })
    }
}

/// True if the request must be repeated unchanged at another URL (RFC 9110, 15.4.8 and 15.4.9).
pub fn is_redirect(status: u16) -> bool {
    matches!(status, 307 | 308)
}

/// The text of an error page, limited to a size that people read.
pub async fn error_text(mut response: Response) -> String {
    let mut read = BytesMut::new();
    let body = response.collect(&mut read, SHOWN_ERROR);
    // Do not wait for a body without an end.
    let body = tokio::time::timeout(ERROR_LIMIT, body).await;
    let body = body.ok().and_then(Result::ok).unwrap_or_default();
    String::from_utf8_lossy(&body).trim().to_owned()
}

/// The loss after the first request got an answer that is neither a success nor final. `request` names that
/// request. If the server sends `Retry-After`, the next attempt waits for that time.
pub async fn unavailable(uri: &Uri, response: Response, request: &str) -> Loss {
    let head = &response.head;
    let status = head.status;
    let wait = match status {
        429 | 502..=504 => head.get("retry-after"),
        _ => None,
    };
    let wait = wait.and_then(|wait| retry_after(wait, SystemTime::now()));
    let reason = match refusals::redirected(uri, head) {
        Some(reason) => reason,
        None => refusals::HttpRefusal::new(uri, status, request, &error_text(response).await)
            .with_advice(),
    };
    match wait {
        Some(retry_after) => Loss::Unavailable {
            reason,
            retry_after,
        },
        None => Loss::ConnectFailed(reason),
    }
}

/// Reads a `Retry-After`: seconds, or a date (RFC 9110, 10.2.3).
pub fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(value).ok()?;
    // A time in the past means no wait.
    Some(at.duration_since(now).unwrap_or_default())
}

/// Posts a notification or an answer. Returns the HTTP status of a refusal. A failure is only logged: other
/// requests report a lost connection.
pub async fn deliver(
    server: &ServerName,
    target: &HttpTarget,
    template: &RequestTemplate,
    text: &str,
) -> Option<u16> {
    let delivering = async {
        let mut response = target.follow(template, Some(text)).await?;
        let status = response.head.status;
        // Read the body to its end, so that the connection can be reused.
        response
            .collect(&mut BytesMut::new(), SHOWN_ERROR)
            .await
            .ok();
        Ok::<_, Error>(status)
    };
    match tokio::time::timeout(DELIVERY_LIMIT, delivering).await {
        Ok(Ok(200..300)) => {}
        Ok(Ok(status)) => {
            tracing::debug!(%server, status, "a notification was refused");
            return Some(status);
        }
        Ok(Err(error)) => tracing::debug!(%server, %error, "a notification was lost"),
        Err(_) => tracing::debug!(%server, "a notification was not taken in time"),
    }
    None
}

/// The interruption of a call whose request failed with `error` (invariant 6).
pub fn interruption(error: &Error) -> Interruption {
    match error {
        Error::Connect(reason) => {
            Interruption::not_sent(InterruptionKind::Unreachable(reason.to_string()))
        }
        Error::NotWritten(_) => Interruption::not_sent(InterruptionKind::Lost),
        Error::Broken(_) => Interruption::sent(InterruptionKind::Lost),
        Error::Unauthorized(reason) | Error::Forbidden(reason) => {
            Interruption::not_sent(InterruptionKind::NoCredentials(reason.clone()))
        }
        Error::CredentialsUnavailable(reason) => {
            Interruption::not_sent(InterruptionKind::Unreachable(reason.clone()))
        }
        Error::OverBudget(limit) => Interruption::sent(InterruptionKind::TooLarge(*limit)),
        Error::Malformed(reason) => {
            Interruption::sent(InterruptionKind::Unreadable((*reason).to_owned()))
        }
    }
}

/// Evaluates an answer with a whole body: the response to the request `id`, or an HTTP error. Any response in
/// the answer to a POST belongs to the request of that POST, whatever its id.
pub fn answer(
    status: u16,
    body: &Bytes,
    read: Result<Frame, UnreadableMessage>,
    id: u64,
) -> Result<Frame, Interruption> {
    let unreadable = |reason| Interruption::sent(InterruptionKind::Unreadable(reason));
    match read {
        Ok(frame) if frame.answers(id) => Ok(frame),
        Ok(frame) if is_success(status) && frame.is_response() => Ok(frame),
        Ok(_) if is_success(status) => Err(unreadable("it is no response".to_owned())),
        Err(error) if is_success(status) => Err(unreadable(error.to_string())),
        _ => Err(refused(status, body)),
    }
}

pub fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}

/// The interruption of a call after an HTTP error without a JSON-RPC response. After 401 and 429 the call has
/// not run. After any other status it may have run (invariant 6).
pub fn refused(status: u16, body: &[u8]) -> Interruption {
    let text = String::from_utf8_lossy(body);
    let kind = InterruptionKind::Refused {
        status,
        body: text.trim().chars().take(SHOWN_REFUSAL).collect(),
    };
    match status {
        401 | 429 => Interruption::not_sent(kind),
        _ => Interruption::sent(kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        for (value, seconds) in [
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("Sun, 06 Nov 1994 08:49:40 GMT", Some(3)),
            ("Sun, 06 Nov 1994 08:49:30 GMT", Some(0)),
            ("-1", None),
            ("soon", None),
            ("", None),
        ] {
            let expected = seconds.map(Duration::from_secs);
            assert_eq!(retry_after(value, now), expected, "{value:?}");
        }
    }
}
