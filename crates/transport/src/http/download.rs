//! Downloads a page or a file over HTTP from a registry.

use std::time::Duration;

use bytes::Bytes;
use mainstay_core::config::NetworkSettings;

use crate::http::{
    bounded::{BoundedError, BoundedRequest, send_bounded},
    http_client,
};

/// The maximum length, in characters, of the error line that is shown.
const MAX_LINE: usize = 200;

/// The reason that a download failed. URLs are shown without user and query.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    #[error("{0:?} is no URL")]
    NoUrl(String),
    #[error(transparent)]
    Unanswered(#[from] BoundedError),
    #[error("{url} answered {status}{}", detail(.text))]
    Refused {
        url: String,
        status: u16,
        text: String,
    },
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
    /// Maximum bytes of the answer.
    pub bytes: usize,
    /// Time limit for the whole download.
    pub time: Duration,
}

/// Downloads the body of a successful answer. Redirects are followed, but never from HTTPS to HTTP.
pub async fn download(request: DownloadRequest<'_>) -> Result<Bytes, DownloadError> {
    let get = http::Request::get(request.url).header("accept", request.accept);
    let get = get
        .body(Vec::new())
        .map_err(|_| DownloadError::NoUrl(request.url.chars().take(MAX_LINE).collect()))?;
    let network = NetworkSettings::default();
    let answer = send_bounded(BoundedRequest {
        request: get,
        network: &network,
        max_bytes: request.bytes,
        time_limit: request.time,
        only_public: false,
        follows_redirects: true,
    });
    let answer = answer.await?;
    let status = answer.response.status().as_u16();
    if http_client::is_success(status) {
        return Ok(answer.response.into_body().into());
    }
    Err(DownloadError::Refused {
        url: answer.url,
        status,
        text: first_error_line(answer.response.body()),
    })
}

/// The first line of the body of an error answer, for people. Empty for an HTML page.
pub fn first_error_line(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    if text.starts_with('<') {
        return String::new();
    }
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(MAX_LINE).collect()
}
