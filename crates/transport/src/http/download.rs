//! GETs a page or a file from a place that is no MCP server: a registry. Everything about it is bounded.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::Uri;
use mainstay_core::config::{HttpLaunch, HttpTransport};

use crate::http::{
    http_client::{self, Target},
    http1::{self, CollectError},
    urls::{self, resolve},
};

/// Redirects that are followed, also to other hosts: nothing secret is sent.
const MAX_REDIRECTS: usize = 5;

/// How much of an error page is shown, in characters.
const SHOWN: usize = 200;

/// Why nothing was downloaded. URLs are shown without user and query.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    // The reasons are part of these texts, and not their sources.
    #[error("{url} cannot be used: {reason}")]
    Url {
        url: String,
        reason: http1::Unusable,
    },
    #[error("{url} cannot be reached: {reason}")]
    Lost { url: String, reason: http1::Error },
    #[error("{url} did not answer within {} s", .limit.as_secs())]
    Late { url: String, limit: Duration },
    #[error("{url} answered with more than {limit} bytes")]
    TooLarge { url: String, limit: usize },
    #[error("{url} answered {status}{}", of(.said))]
    Refused {
        url: String,
        status: u16,
        said: String,
    },
    #[error("{url} redirects to {to}, which is not followed")]
    Redirect { url: String, to: String },
    #[error("{url} redirects more than {MAX_REDIRECTS} times")]
    Loop { url: String },
}

fn of(said: &str) -> String {
    if said.is_empty() {
        String::new()
    } else {
        format!(": {said}")
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub url: &'a str,
    /// The value of `Accept`.
    pub accept: &'a str,
    /// The most bytes of the answer.
    pub bytes: usize,
    /// The longest time that all of it may take.
    pub time: Duration,
}

/// The body of a successful answer. Redirects are followed, never from HTTPS to HTTP.
pub async fn download(wanted: Wanted<'_>) -> Result<Bytes, DownloadError> {
    let limit = wanted.time;
    let downloaded = tokio::time::timeout(limit, follow(wanted)).await;
    downloaded.unwrap_or_else(|_| {
        Err(DownloadError::Late {
            url: shown(wanted.url),
            limit,
        })
    })
}

async fn follow(wanted: Wanted<'_>) -> Result<Bytes, DownloadError> {
    let mut url = wanted.url.to_owned();
    for _ in 0..=MAX_REDIRECTS {
        let launch = HttpLaunch {
            url: url.clone(),
            headers: Vec::new(),
            transport: HttpTransport::StreamableHttp,
        };
        let target = Target::new(&launch).map_err(|reason| DownloadError::Url {
            url: shown(&url),
            reason,
        })?;
        let place = urls::place(&target.uri());
        let lost = |reason| DownloadError::Lost {
            url: urls::place(&target.uri()),
            reason,
        };
        let template = target.template("GET", &[("accept", wanted.accept)]);
        let mut response = target.send_afresh(&template).await.map_err(lost)?;
        let status = response.head.status;
        if let (301 | 302 | 303 | 307 | 308, Some(location)) =
            (status, response.head.get("location"))
        {
            let to = resolve(&target.uri(), location).filter(|to| is_followed(&target.uri(), to));
            let to = to.ok_or_else(|| DownloadError::Redirect {
                url: place,
                to: location.chars().take(SHOWN).collect(),
            })?;
            url = to.to_string();
            continue;
        }
        if !http_client::is_success(status) {
            let said = http_client::error_text(response).await;
            return Err(DownloadError::Refused {
                url: place,
                status,
                said: said_in_short(&said),
            });
        }
        let body = response.collect(&mut BytesMut::new(), wanted.bytes).await;
        return body.map_err(|error| match error {
            CollectError::TooLarge => DownloadError::TooLarge {
                url: place,
                limit: wanted.bytes,
            },
            CollectError::Broken(source) => lost(source),
        });
    }
    Err(DownloadError::Loop {
        url: shown(wanted.url),
    })
}

/// Whether a redirect keeps to HTTP, and to TLS where there was TLS.
fn is_followed(from: &Uri, to: &Uri) -> bool {
    let schemes = (from.scheme_str(), to.scheme_str());
    matches!(schemes, (_, Some("https")) | (Some("http"), Some("http")))
}

/// The URL without the parts that may hold keys.
fn shown(url: &str) -> String {
    let uri: Result<Uri, _> = url.parse();
    uri.map_or_else(
        |_| url.chars().take(SHOWN).collect(),
        |uri| urls::place(&uri),
    )
}

/// The first line of an error, and nothing of a page for browsers.
fn said_in_short(said: &str) -> String {
    if said.starts_with('<') {
        return String::new();
    }
    let line = said.lines().next().unwrap_or_default();
    line.chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_keep_to_tls() {
        let uri = |text: &str| text.parse::<Uri>().expect(text);
        for (from, to, is_good) in [
            ("http://a/x", "http://b/y", true),
            ("http://a/x", "https://b/y", true),
            ("https://a/x", "https://b/y", true),
            ("https://a/x", "http://a/x", false),
            ("http://a/x", "ftp://a/x", false),
        ] {
            assert_eq!(is_followed(&uri(from), &uri(to)), is_good, "{from} {to}");
        }
        let to = resolve(&uri("http://a/x"), "file:///etc/passwd");
        assert!(to.is_none_or(|to| !is_followed(&uri("http://a/x"), &to)));
    }
}
