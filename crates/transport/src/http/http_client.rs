//! Speaks HTTP to a server: its URL, the configured headers, redirects at the start.

use std::{
    fmt::Write as _,
    sync::Arc,
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwap;
use bytes::{Bytes, BytesMut};
use http::Uri;
use mainstay_core::{config::HttpLaunch, ids::ServerName, lifecycle::Loss};
use mainstay_platform::lineage::CHAIN_HEADER;

use crate::{
    CredentialSource, Frame, Interruption, InterruptionKind, Opening, Unreadable,
    http::{
        credentials::{Credentials, HeaderLines, Sending, send_renewed},
        http1::{Client, Error, Head, Responding, Response, Unusable},
        refusals,
        urls::{resolve, same_origin},
    },
};

/// The headers of every POST to an MCP endpoint.
pub const POST_HEADERS: [(&str, &str); 2] = [
    ("content-type", "application/json"),
    ("accept", "application/json, text/event-stream"),
];

/// Redirects that one request follows.
pub const MAX_REDIRECTS: usize = 3;

/// The longest time that the delivery of a notification may take.
const DELIVERY_LIMIT: Duration = Duration::from_secs(10);

/// How much of an error page is kept to be shown.
const SHOWN_ERROR: usize = 16 * 1024;

/// The longest time that reading an error page may take.
const ERROR_LIMIT: Duration = Duration::from_secs(2);

/// How much of an error page a failed call shows, in characters.
const SHOWN_REFUSAL: usize = 300;

/// One URL of a server, and the credentials of requests to it. Clones share the URL, which changes where the
/// server redirects.
#[derive(Clone, Debug)]
pub struct Target {
    client: Arc<Client>,
    uri: Arc<ArcSwap<Uri>>,
    /// The header line of our chain, or nothing.
    chain: Arc<str>,
    credentials: Credentials,
}

/// The head of a request, complete but for its URL, its credentials, its cookies and its length.
#[derive(Clone)]
pub struct Template {
    method: &'static str,
    headers: Arc<[u8]>,
    /// Where the credentials stand among the headers.
    credentials_at: usize,
}

impl Target {
    /// The endpoint of an MCP server. Requests to it carry our chain, so that a Mainstay that is led back to itself
    /// notices.
    pub fn of_server(opening: &Opening, launch: &HttpLaunch) -> Result<Self, Unusable> {
        let chain = format!("{CHAIN_HEADER}: {}\r\n", opening.lineage.chain());
        Self::build(launch, &chain, opening.credentials.clone())
    }

    /// A place that is no MCP endpoint.
    pub fn new(launch: &HttpLaunch) -> Result<Self, Unusable> {
        Self::build(launch, "", None)
    }

    fn build(
        launch: &HttpLaunch,
        chain: &str,
        source: Option<Arc<dyn CredentialSource>>,
    ) -> Result<Self, Unusable> {
        let uri: Uri = launch
            .url
            .parse()
            .map_err(|_| Unusable("the URL cannot be parsed"))?;
        // Names and values were checked when the configuration was read.
        let headers = launch.headers.iter();
        let headers = headers.map(|(name, value)| (name.as_str(), value.expose()));
        let (cookies, others): (Vec<_>, Vec<_>) =
            headers.partition(|(name, _)| name.eq_ignore_ascii_case("cookie"));
        let cookies: Vec<_> = cookies.into_iter().map(|(_, value)| value).collect();
        let cookie = (!cookies.is_empty()).then(|| cookies.join("; "));
        Ok(Self {
            client: Client::with_cookie(&uri, cookie)?,
            uri: Arc::new(ArcSwap::from_pointee(uri)),
            chain: chain.into(),
            credentials: Credentials::new(HeaderLines::new(others), source),
        })
    }

    /// This origin under another URL.
    pub fn at(&self, uri: Uri) -> Self {
        Self {
            uri: Arc::new(ArcSwap::from_pointee(uri)),
            ..self.clone()
        }
    }

    pub fn uri(&self) -> Arc<Uri> {
        self.uri.load_full()
    }

    pub fn template(&self, method: &'static str, headers: &[(&str, &str)]) -> Template {
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
        Template {
            method,
            headers: head.into_bytes().into(),
            credentials_at,
        }
    }

    /// A request, ready to be written. `renewed` are the lines of a source of credentials.
    fn request(&self, template: &Template, renewed: &[u8], body: Option<&str>) -> Vec<u8> {
        const ROOM: usize = 64;
        let uri = self.uri.load();
        let path = uri
            .path_and_query()
            .map_or("/", http::uri::PathAndQuery::as_str);
        let length = body.map_or(0, str::len);
        let fixed = self.credentials.fixed().as_bytes();
        let head = path.len() + template.headers.len() + fixed.len() + renewed.len();
        let mut request = Vec::with_capacity(head + length + ROOM);
        for part in [template.method, " ", path, " HTTP/1.1\r\n"] {
            request.extend_from_slice(part.as_bytes());
        }
        let (before, after) = template.headers.split_at(template.credentials_at);
        for part in [before, fixed, renewed, after] {
            request.extend_from_slice(part);
        }
        self.client.cookies.write_to(&mut request, uri.path());
        match body {
            Some(body) => {
                request.extend_from_slice(format!("content-length: {length}\r\n\r\n").as_bytes());
                request.extend_from_slice(body.as_bytes());
            }
            None => request.extend_from_slice(b"\r\n"),
        }
        request
    }

    fn send_by(
        &self,
        template: &Template,
        body: Option<&str>,
        send: fn(&Arc<Client>, Vec<u8>) -> Responding,
    ) -> Sending {
        match &self.credentials {
            Credentials::Fixed(_) => {
                let request = self.request(template, &[], body);
                Sending::Plain(send(&self.client, request))
            }
            Credentials::Renewed { source, .. } => {
                let (target, template) = (self.clone(), template.clone());
                let body = body.map(str::to_owned);
                let send = move |lines: &HeaderLines| {
                    let request = target.request(&template, lines.as_bytes(), body.as_deref());
                    send(&target.client, request)
                };
                Sending::Renewed(Box::pin(send_renewed(Arc::clone(source), send)))
            }
        }
    }

    /// Sends a request without a body.
    pub fn send(&self, template: &Template) -> Sending {
        self.send_by(template, None, Client::send)
    }

    /// Over a connection of its own.
    pub fn send_afresh(&self, template: &Template) -> Sending {
        self.send_by(template, None, Client::send_afresh)
    }

    pub fn send_body(&self, template: &Template, body: &str) -> Sending {
        self.send_by(template, Some(body), Client::send)
    }

    /// Over a connection of its own.
    pub fn send_body_afresh(&self, template: &Template, body: &str) -> Sending {
        self.send_by(template, Some(body), Client::send_afresh)
    }

    pub fn forget_connections(&self) {
        self.client.forget();
    }

    /// Takes a redirect of a server. Later requests go where it leads. `false` if it is not followed.
    ///
    /// Some servers redirect `/mcp` to `/mcp/`. Elsewhere than to the same origin a redirect is not followed,
    /// because our headers hold secrets.
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

    /// Sends a request, and again where the server redirects it.
    pub async fn follow(&self, template: &Template, body: Option<&str>) -> Result<Response, Error> {
        let mut hops = 0;
        loop {
            let response = self.send_by(template, body, Client::send).await?;
            if hops == MAX_REDIRECTS || !self.redirect(&response.head) {
                return Ok(response);
            }
            hops += 1;
        }
    }
}

impl Target {
    /// What an answer that redirects a request means for that request. Nothing has run.
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

/// Whether the request is to be sent to another URL as it is (RFC 9110, 15.4.8 and 15.4.9).
pub fn is_redirect(status: u16) -> bool {
    matches!(status, 307 | 308)
}

/// The body of an unsuccessful answer, as far as a person reads.
pub async fn error_text(mut response: Response) -> String {
    let mut read = BytesMut::new();
    let body = response.collect(&mut read, SHOWN_ERROR);
    // A body that does not end is not waited for.
    let body = tokio::time::timeout(ERROR_LIMIT, body).await;
    let body = body.ok().and_then(Result::ok).unwrap_or_default();
    String::from_utf8_lossy(&body).trim().to_owned()
}

/// The loss that follows from an answer to the first request, `asked`, that is neither a success nor
/// final. A server that names a time in `Retry-After` is tried again then.
pub async fn unavailable(uri: &Uri, response: Response, asked: &str) -> Loss {
    let head = &response.head;
    let status = head.status;
    let wait = match status {
        429 | 502..=504 => head.get("retry-after"),
        _ => None,
    };
    let wait = wait.and_then(|wait| retry_after(wait, SystemTime::now()));
    let reason = match refusals::redirected(uri, head) {
        Some(reason) => reason,
        None => refusals::Refusal::new(uri, status, asked, &error_text(response).await).whole(),
    };
    match wait {
        Some(retry_after) => Loss::Unavailable {
            reason,
            retry_after,
        },
        None => Loss::ConnectFailed(reason),
    }
}

/// Seconds, or the time of day (RFC 9110, 10.2.3).
pub fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(value).ok()?;
    // A time in the past means no wait.
    Some(at.duration_since(now).unwrap_or_default())
}

/// Posts a notification or an answer. Returns the HTTP status of a refusal. A failure is only logged: a
/// lost connection shows elsewhere.
pub async fn deliver(
    server: &ServerName,
    target: &Target,
    template: &Template,
    text: &str,
) -> Option<u16> {
    let delivering = async {
        let mut response = target.follow(template, Some(text)).await?;
        let status = response.head.status;
        // Read to its end, so that its connection can be used again.
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

/// What a failed request means for the call it carried (invariant 6).
pub fn interruption(error: &Error) -> Interruption {
    match error {
        Error::Connect(reason) => {
            Interruption::not_sent(InterruptionKind::Unreachable(reason.to_string()))
        }
        Error::NotWritten(_) => Interruption::not_sent(InterruptionKind::Lost),
        Error::Broken(_) => Interruption::sent(InterruptionKind::Lost),
        // As if the server had said so.
        Error::Unauthorized(reason) => Interruption::not_sent(InterruptionKind::Refused {
            status: 401,
            body: reason.clone(),
        }),
        Error::OverBudget(limit) => Interruption::sent(InterruptionKind::TooLarge(*limit)),
        Error::Malformed(reason) => {
            Interruption::sent(InterruptionKind::Unreadable((*reason).to_owned()))
        }
    }
}

/// An answer in one piece: the response to the request of this id, or an HTTP error. The response to one POST
/// is the response to its request, whatever id it names.
pub fn answer(
    status: u16,
    body: &Bytes,
    read: Result<Frame, Unreadable>,
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

/// The interruption of a call by an HTTP error without a JSON-RPC response. After 401 and 429 nothing has
/// run. After any other status the call may have run (invariant 6).
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
