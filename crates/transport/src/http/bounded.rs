//! Sends one request and collects its answer, with limits on time, size and redirects. Logins and downloads
//! use it.

use std::{net::IpAddr, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{Method, Request, Response, Uri};
use mainstay_core::config::{HttpLaunch, NetworkSettings, Secret};
use tokio::net::lookup_host;

use crate::http::{
    http_client::HttpTarget,
    http1::{CollectError, Error, UnusableUrl},
    public_address::is_public,
    urls::{self, resolve},
};

/// The maximum number of redirects that one GET follows.
const MAX_REDIRECTS: usize = 5;

/// A request and its limits.
#[derive(Debug)]
pub struct BoundedRequest<'a> {
    pub request: Request<Vec<u8>>,
    pub network: &'a NetworkSettings,
    /// Maximum bytes of the answer's body.
    pub max_bytes: usize,
    /// Time limit for the request with its redirects.
    pub time_limit: Duration,
    /// True if the request must not reach a private address, even after a redirect.
    pub only_public: bool,
    /// True if the redirects of a GET are followed. Else a redirect is an error.
    pub follows_redirects: bool,
}

/// The answer to a bounded request. The headers are those that its senders read: `Cache-Control`, `Content-Type`,
/// `Retry-After`, `WWW-Authenticate` and `Date`.
#[derive(Debug)]
pub struct BoundedAnswer {
    /// The URL that has answered, after all redirects, without user and query.
    pub url: String,
    /// The name of the proxy that forwarded the request. The proxy may have written the answer itself.
    pub proxy: Option<String>,
    pub response: Response<Vec<u8>>,
}

/// The reason that a bounded request has no answer. URLs are shown without user and query.
#[derive(Debug, thiserror::Error)]
pub enum BoundedError {
    #[error("{url} cannot be used: {reason}")]
    Url { url: String, reason: UnusableUrl },
    #[error("{url} cannot be reached: {reason}")]
    NotSent { url: String, reason: Error },
    #[error("{url} gave no answer: {reason}")]
    AnswerLost { url: String, reason: Error },
    #[error("{url} did not answer within {} s", .limit.as_secs())]
    Late { url: String, limit: Duration },
    #[error("{url} answered with more than {limit} bytes")]
    TooLarge { url: String, limit: usize },
    #[error("{url} redirects to {target}, which is not followed")]
    Redirect { url: String, target: String },
    #[error("{url} redirects more than {MAX_REDIRECTS} times")]
    TooManyRedirects { url: String },
    #[error(
        "{url} is at the private address {address}, to which a server of the internet must not lead"
    )]
    Private { url: String, address: IpAddr },
}

/// Sends a request. Follows the redirects of a GET if the request says so, but never from HTTPS to HTTP. A
/// redirect of a request with a body is returned as the answer.
pub async fn send_bounded(request: BoundedRequest<'_>) -> Result<BoundedAnswer, BoundedError> {
    let limit = request.time_limit;
    let url = urls::place(request.request.uri());
    let sent = tokio::time::timeout(limit, follow(request)).await;
    sent.unwrap_or(Err(BoundedError::Late { url, limit }))
}

async fn follow(request: BoundedRequest<'_>) -> Result<BoundedAnswer, BoundedError> {
    let BoundedRequest {
        request,
        network,
        max_bytes,
        only_public,
        follows_redirects,
        time_limit: _,
    } = request;
    let (parts, body) = request.into_parts();
    let (is_get, mut uri) = (parts.method == Method::GET, parts.uri);
    let body = String::from_utf8(body).unwrap_or_default();
    for _ in 0..=MAX_REDIRECTS {
        let url = urls::place(&uri);
        if only_public {
            refuse_private(&uri).await?;
        }
        let launch = HttpLaunch {
            url: uri.to_string(),
            headers: (parts.headers.iter())
                .filter_map(|(name, value)| {
                    Some((name.to_string(), Secret::new(value.to_str().ok()?)))
                })
                .collect(),
            network: network.clone(),
            ..HttpLaunch::default()
        };
        let target = HttpTarget::new(&launch).map_err(|reason| BoundedError::Url {
            url: url.clone(),
            reason,
        })?;
        if only_public {
            // The name may resolve to another address when the connection is opened.
            target.refuse_private_addresses();
        }
        let mut response = if is_get {
            let template = target.template("GET", &[]);
            target.send_afresh(&template).await
        } else {
            let template = target.template("POST", &[]);
            target.send_body_afresh(&template, &body).await
        }
        .map_err(|reason| unanswered(&url, reason))?;
        let status = response.head.status;
        if let (true, 301 | 302 | 303 | 307 | 308, Some(location)) =
            (is_get, status, response.head.get("location"))
        {
            let next = resolve(&uri, location)
                .filter(|next| follows_redirects && keeps_encryption(&uri, next));
            uri = next.ok_or_else(|| BoundedError::Redirect {
                url,
                target: location.chars().take(200).collect(),
            })?;
            continue;
        }
        let mut answer = Response::builder().status(status);
        for name in [
            "cache-control",
            "content-type",
            "retry-after",
            "www-authenticate",
            "date",
        ] {
            for value in response.head.all(name) {
                answer = answer.header(name, value);
            }
        }
        let body = response.collect(&mut BytesMut::new(), max_bytes).await;
        let body = match body {
            // The status of a refusal is enough. Ignore the broken body.
            Err(CollectError::Broken(_)) if status >= 400 => Ok(Bytes::new()),
            body => body,
        };
        let body = body.map_err(|error| match error {
            CollectError::TooLarge => BoundedError::TooLarge {
                url: url.clone(),
                limit: max_bytes,
            },
            CollectError::Broken(reason) => BoundedError::AnswerLost {
                url: url.clone(),
                reason,
            },
        })?;
        let response = answer.body(body.to_vec());
        let response = response.map_err(|_| BoundedError::AnswerLost {
            url: url.clone(),
            reason: Error::Malformed("the head of the answer"),
        })?;
        return Ok(BoundedAnswer {
            url,
            proxy: target.proxy_words(),
            response,
        });
    }
    Err(BoundedError::TooManyRedirects {
        url: urls::place(&uri),
    })
}

fn unanswered(url: &str, reason: Error) -> BoundedError {
    let url = url.to_owned();
    match reason {
        Error::Connect(_)
        | Error::NotWritten(_)
        | Error::Unauthorized(_)
        | Error::Forbidden(_)
        | Error::CredentialsUnavailable(_) => BoundedError::NotSent { url, reason },
        Error::Broken(_) | Error::Malformed(_) | Error::OverBudget(_) => {
            BoundedError::AnswerLost { url, reason }
        }
    }
}

/// True for a redirect to HTTPS, or from HTTP to HTTP.
fn keeps_encryption(from: &Uri, to: &Uri) -> bool {
    let schemes = (from.scheme_str(), to.scheme_str());
    matches!(schemes, (_, Some("https")) | (Some("http"), Some("http")))
}

async fn refuse_private(uri: &Uri) -> Result<(), BoundedError> {
    match private_address(uri).await {
        Some(address) => Err(BoundedError::Private {
            url: urls::place(uri),
            address,
        }),
        None => Ok(()),
    }
}

/// The first private address of this URI's host. `None` if it has none, or cannot be resolved.
async fn private_address(uri: &Uri) -> Option<IpAddr> {
    let addresses = addresses(uri).await?;
    addresses.into_iter().find(|address| !is_public(*address))
}

/// True if this URI's host has private addresses alone. A name that has a public address, too, may
/// belong to anybody.
pub async fn is_in_private_network(uri: &Uri) -> bool {
    are_all_private(&addresses(uri).await.unwrap_or_default())
}

fn are_all_private(addresses: &[IpAddr]) -> bool {
    !addresses.is_empty() && !addresses.iter().any(|address| is_public(*address))
}

/// The addresses of a URI's host. `None` if it cannot be resolved.
async fn addresses(uri: &Uri) -> Option<Vec<IpAddr>> {
    let host = uri.host()?.trim_start_matches('[').trim_end_matches(']');
    let port = uri.port_u16().unwrap_or(443);
    let addresses = lookup_host((host, port)).await.ok()?;
    Some(addresses.map(|address| address.ip()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_public_address_is_in_no_private_network() {
        for (addresses, is_private) in [
            (&[][..], false),
            (&["127.0.0.1"], true),
            (&["10.0.0.1", "fd00::1"], true),
            (&["203.0.114.9", "127.0.0.1"], false),
            (&["127.0.0.1", "203.0.114.9"], false),
            (&["2606:4700::1"], false),
        ] {
            let addresses: Vec<IpAddr> = addresses
                .iter()
                .map(|address| address.parse().expect("an address"))
                .collect();
            assert_eq!(are_all_private(&addresses), is_private, "{addresses:?}");
        }
    }

    /// The check of the connection itself: an earlier lookup may have returned another address.
    #[tokio::test]
    async fn a_connection_to_a_private_address_is_refused() {
        let launch = HttpLaunch {
            url: "http://localhost:1/metadata".to_owned(),
            ..HttpLaunch::default()
        };
        let target = HttpTarget::new(&launch).expect("a target");
        target.refuse_private_addresses();
        let sent = target.send_afresh(&target.template("GET", &[])).await;
        let Err(error) = sent else {
            panic!("an answer");
        };
        let error = error.to_string();
        assert!(error.contains("is at the private address"), "{error}");
    }

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
            assert_eq!(
                keeps_encryption(&uri(from), &uri(to)),
                is_good,
                "{from} {to}"
            );
        }
        let target = resolve(&uri("http://a/x"), "file:///etc/passwd");
        assert!(target.is_none_or(|target| !keeps_encryption(&uri("http://a/x"), &target)));
    }
}
