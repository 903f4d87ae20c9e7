//! Texts for people about HTTP answers that open no session: the URL, the reason, and the setting to change.

use http::Uri;
use mainstay_core::{config::HttpLaunch, lifecycle::Loss, message};
use serde_json::Value;

use crate::http::{
    http_client,
    http1::{Error, Head, Response, SPEAKS_TLS},
    urls::{place, resolve, same_origin},
};

/// The maximum number of bytes of an answer's body that are quoted.
const MAX_WORDS: usize = 200;

/// The advice for a server that answers but does not speak MCP.
const CHECK_PATH: &str = "; check the path of `url`";

/// An HTTP answer to the first request that does not open a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRefusal {
    place: String,
    status: u16,
    /// The answer as text: its status, the request, and the text of its body, if any.
    pub answer: String,
    /// True if the body contains a reason.
    pub has_reason: bool,
}

impl HttpRefusal {
    /// Creates the refusal from an answer to `request` with this status and body.
    pub fn new(uri: &Uri, status: u16, request: &str, body: &str) -> Self {
        let words = first_words(body);
        let mut answer = match (status, is_html(body)) {
            (200..300, true) => format!("a web page (HTML) in answer to {request}"),
            _ => format!("HTTP {status} to {request}"),
        };
        if let Some(words) = &words {
            answer = format!("{answer}: {words}");
        }
        Self {
            place: place(uri),
            status,
            answer,
            has_reason: words.is_some(),
        }
    }

    /// Creates the refusal from a successful answer that is not an MCP message.
    pub fn unreadable(uri: &Uri, answer: String) -> Self {
        Self {
            place: place(uri),
            status: 200,
            answer,
            has_reason: false,
        }
    }

    /// True if the status is about the request and not about the URL.
    pub fn is_about_request(&self) -> bool {
        matches!(self.status, 400 | 406 | 415)
    }

    /// The text of this refusal together with `older`, the failure of the older transport.
    pub fn with_older_transport(&self, older: &str) -> String {
        let Self { place, answer, .. } = self;
        let older = older.strip_prefix(place.as_str()).unwrap_or(older);
        let older = older.strip_prefix(": ").unwrap_or(older);
        let older = older.strip_suffix(CHECK_PATH).unwrap_or(older);
        format!(
            "neither Streamable HTTP ({answer}) nor HTTP+SSE ({older}) is spoken at {place}{CHECK_PATH}"
        )
    }

    /// The text of the refusal with the URL and the advice.
    pub fn with_advice(&self) -> String {
        let Self { place, answer, .. } = self;
        let step = match self.status {
            404 | 405 | 200..300 => CHECK_PATH,
            _ => "",
        };
        format!("{place}: {answer}{step}")
    }
}

fn is_html(body: &str) -> bool {
    body.trim_start().starts_with('<')
}

/// The text of a body: its first line, or the whole body if it is JSON. `None` for an HTML page.
fn first_words(body: &str) -> Option<String> {
    let body = body.trim();
    if body.is_empty() || is_html(body) {
        return None;
    }
    let line = if body.starts_with(['{', '[']) {
        body.split_whitespace().collect::<Vec<_>>().join(" ")
    } else {
        body.lines()
            .next()
            .unwrap_or_default()
            .trim_end()
            .to_owned()
    };
    Some(message::shortened(line, MAX_WORDS))
}

/// The loss if the first request got no HTTP answer.
pub fn unanswered(uri: &Uri, error: &Error) -> Loss {
    let authority = uri
        .authority()
        .map_or("the server", http::uri::Authority::as_str);
    Loss::ConnectFailed(match error {
        Error::Unauthorized(reason) | Error::Forbidden(reason) => {
            return Loss::Unauthorized(reason.clone());
        }
        Error::CredentialsUnavailable(reason) => reason.clone(),
        Error::Connect(error) => error.to_string(),
        Error::Malformed(SPEAKS_TLS) => speaks_tls(authority),
        Error::NotWritten(_) | Error::Broken(_) if uri.scheme_str() == Some("http") => format!(
            "{authority} closed the connection without an answer; one that speaks TLS needs https:// in `url`"
        ),
        Error::NotWritten(_) | Error::Broken(_) => {
            format!("{authority} closed the connection without an answer")
        }
        Error::Malformed(_) | Error::OverBudget(_) => format!("{authority}: {error}"),
    })
}

fn speaks_tls(authority: &str) -> String {
    format!("the server at {authority} speaks TLS; write https:// in `url`")
}

/// The loss, with a hint, if a server asks for TLS in an HTTP error, as nginx and Go do.
pub fn tls_loss(uri: &Uri, body: &str) -> Option<Loss> {
    let phrases = [
        "plain HTTP request was sent to HTTPS",
        "HTTP request to an HTTPS server",
    ];
    let authority = uri.authority()?.as_str();
    phrases
        .iter()
        .any(|words| body.contains(words))
        .then(|| Loss::ConnectFailed(speaks_tls(authority)))
}

/// The loss after HTTP 508 to the first request. The URL leads back to this Mainstay, or the chain of
/// Mainstays is too long. Another attempt would fail in the same way.
pub async fn loop_loss(uri: &Uri, response: Response) -> Loss {
    let status = response.head.status;
    let text = http_client::error_text(response).await;
    let message = serde_json::from_str::<Value>(&text).ok();
    let message = message
        .as_ref()
        .and_then(|message| message["error"]["message"].as_str());
    let refusal = HttpRefusal::new(uri, status, "the first request", message.unwrap_or(&text));
    Loss::Misconfigured(refusal.with_advice())
}

/// The suffix of the reason if a server answers HTTP 401 and names its authorization server.
const LOGIN_NOTE: &str = "; it names an OAuth server: Mainstay logs in there if the entry has no credentials and no `\"oauth\": false`";

/// True for the reason of a server to which a person can log in. A trial without logins gets this reason.
pub fn asks_for_login(reason: &str) -> bool {
    reason.ends_with(LOGIN_NOTE)
}

/// The loss after HTTP 401 or 403 to the first request.
pub fn unauthorized(head: &Head, launch: &HttpLaunch) -> Loss {
    let status = head.status;
    let marks = ["authorization", "key", "token", "cookie"];
    let sends = launch
        .headers
        .iter()
        .any(|(name, _)| marks.iter().any(|mark| name.contains(mark)));
    let wants_oauth = head
        .get("www-authenticate")
        .is_some_and(|challenge| challenge.contains("resource_metadata"));
    let oauth = if wants_oauth && status == 401 {
        LOGIN_NOTE
    } else {
        ""
    };
    let words = match (status, sends) {
        (401, false) => "the server wants credentials; set `bearerToken` or `headers`",
        (401, true) => {
            "the server does not accept the credentials; renew `bearerToken` or `headers`"
        }
        (_, false) => {
            "the server forbids access; set `bearerToken` or `headers` if it wants credentials"
        }
        (_, true) => "the server forbids access; the credentials lack a permission for it",
    };
    Loss::Unauthorized(format!("HTTP {status}: {words}{oauth}"))
}

/// The text for a redirect that is not followed. The target is shown without the parts that may contain keys.
pub fn redirected(uri: &Uri, head: &Head) -> Option<String> {
    if !(300..400).contains(&head.status) {
        return None;
    }
    let (status, target) = (head.status, resolve(uri, head.get("location")?)?);
    let to = place(&target);
    Some(if target == *uri {
        format!(
            "the server redirects {to} to itself (HTTP {status}); check `url`, and what stands in front of the server"
        )
    } else if matches!(status, 307 | 308) && same_origin(uri, &target) {
        format!(
            "the server redirects again and again, at last to {to} (HTTP {status}); check `url`"
        )
    } else {
        format!(
            "the server redirects to {to} (HTTP {status}), which is not followed; set `url` to where the server is"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_quoted_without_what_may_be_secret() {
        let uri: Uri = "https://me:pw@host:1/mcp?key=s3cret"
            .parse()
            .expect("a URI");
        for (status, body, expected) in [
            (404, "", "HTTP 404 to initialize; check the path of `url`"),
            (
                405,
                "<p>no",
                "HTTP 405 to initialize; check the path of `url`",
            ),
            (
                400,
                "tenant missing\nmore",
                "HTTP 400 to initialize: tenant missing",
            ),
            (
                500,
                "{\n \"error\": \"down\"\n}",
                "HTTP 500 to initialize: { \"error\": \"down\" }",
            ),
            (
                200,
                "<!doctype html>",
                "a web page (HTML) in answer to initialize; check the path of `url`",
            ),
        ] {
            let refusal = HttpRefusal::new(&uri, status, "initialize", body);
            let whole = refusal.with_advice();
            assert_eq!(whole, format!("https://host:1/mcp: {expected}"));
            let neither = refusal.with_older_transport(&whole);
            let answer = &refusal.answer;
            assert_eq!(
                neither,
                format!(
                    "neither Streamable HTTP ({answer}) nor HTTP+SSE ({answer}) is spoken at https://host:1/mcp; check the path of `url`"
                )
            );
        }
    }
}
