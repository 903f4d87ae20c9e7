//! Downloads a page or a file over HTTP from a registry. Its size, its time and its redirects are limited.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::Uri;
use mainstay_core::config::HttpLaunch;

use crate::http::{
    bounded::keeps_encryption,
    http_client::{self, HttpTarget},
    http1::{self, CollectError},
    urls::{self, resolve},
};

/// Redirects that are followed, even to other hosts: the requests contain no secrets.
const MAX_REDIRECTS: usize = 5;

/// The most characters of an error page that are shown.
const SHOWN: usize = 200;

/// The reason that a download failed. URLs are shown without user and query.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    // The reasons are part of these texts, so they are not sources.
    #[error("{url} cannot be used: {reason}")]
    Url {
        url: String,
        reason: http1::UnusableUrl,
    },
    #[error("{url} cannot be reached: {reason}")]
    Lost { url: String, reason: http1::Error },
    #[error("{url} did not answer within {} s", .limit.as_secs())]
    Late { url: String, limit: Duration },
    #[error("{url} answered with more than {limit} bytes")]
    TooLarge { url: String, limit: usize },
    #[error("{url} answered {status}{}", detail(.text))]
    Refused {
        url: String,
        status: u16,
        text: String,
    },
    #[error("{url} redirects to {to}, which is not followed")]
    Redirect { url: String, to: String },
    #[error("{url} redirects more than {MAX_REDIRECTS} times")]
    Loop { url: String },
}

fn detail(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(": {text}")
    }
}

/// A download: the URL and the limits.
#[derive(Clone, Copy, Debug)]
pub struct DownloadRequest<'a> {
    pub url: &'a str,
    /// The value of `Accept`.
    pub accept: &'a str,
    /// The most bytes of the answer.
    pub bytes: usize,
    /// The longest time for the whole download.
    pub time: Duration,
}

/// Downloads the body of a successful answer. Redirects are followed, but never from HTTPS to HTTP.
pub async fn download(request: DownloadRequest<'_>) -> Result<Bytes, DownloadError> {
    let limit = request.time;
    let downloaded = tokio::time::timeout(limit, follow(request)).await;
    downloaded.unwrap_or_else(|_| {
        Err(DownloadError::Late {
            url: url_in_error(request.url),
            limit,
        })
    })
}

async fn follow(request: DownloadRequest<'_>) -> Result<Bytes, DownloadError> {
    let mut url = request.url.to_owned();
    for _ in 0..=MAX_REDIRECTS {
        let launch = HttpLaunch {
            url: url.clone(),
            ..HttpLaunch::default()
        };
        let target = HttpTarget::new(&launch).map_err(|reason| DownloadError::Url {
            url: url_in_error(&url),
            reason,
        })?;
        let place = urls::place(&target.uri());
        let lost = |reason| DownloadError::Lost {
            url: urls::place(&target.uri()),
            reason,
        };
        let template = target.template("GET", &[("accept", request.accept)]);
        let mut response = target.send_afresh(&template).await.map_err(lost)?;
        let status = response.head.status;
        if let (301 | 302 | 303 | 307 | 308, Some(location)) =
            (status, response.head.get("location"))
        {
            let to =
                resolve(&target.uri(), location).filter(|to| keeps_encryption(&target.uri(), to));
            let to = to.ok_or_else(|| DownloadError::Redirect {
                url: place,
                to: location.chars().take(SHOWN).collect(),
            })?;
            url = to.to_string();
            continue;
        }
        if !http_client::is_success(status) {
            let text = http_client::error_text(response).await;
            return Err(DownloadError::Refused {
                url: place,
                status,
                text: first_error_line(text.as_bytes()),
            });
        }
        let body = response.collect(&mut BytesMut::new(), request.bytes).await;
        return body.map_err(|error| match error {
            CollectError::TooLarge => DownloadError::TooLarge {
                url: place,
                limit: request.bytes,
            },
            CollectError::Broken(source) => lost(source),
        });
    }
    Err(DownloadError::Loop {
        url: url_in_error(request.url),
    })
}

/// The URL without the parts that may contain keys.
fn url_in_error(url: &str) -> String {
    let uri: Result<Uri, _> = url.parse();
    uri.map_or_else(
        |_| url.chars().take(SHOWN).collect(),
        |uri| urls::place(&uri),
    )
}

/// The first line of the body of an error answer, for people. Empty for an HTML page.
pub fn first_error_line(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    if text.starts_with('<') {
        return String::new();
    }
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(SHOWN).collect()
}
