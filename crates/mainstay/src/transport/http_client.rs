//! The HTTP client towards one backend: pooled connections, TLS where the URL asks for it.

use std::{sync::OnceLock, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{Client, Error, ResponseFuture, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use mainstay_core::config::HttpLaunch;

use super::{Interruption, InterruptionKind};

/// Idle connections are dropped before servers drop them (Node and uvicorn after 5 s), so that few
/// requests are written into a closing connection.
const IDLE_LIMIT: Duration = Duration::from_secs(4);

/// A TCP and TLS connection that takes longer counts as a failed attempt.
const TCP_CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Redirects followed while a connection is opened.
const MAX_REDIRECTS: usize = 3;

/// How much of an error page is kept to be shown.
const SHOWN_ERROR: usize = 16 * 1024;

#[derive(Clone, Debug)]
pub struct HttpClient {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// The configured headers.
    pub headers: HeaderMap,
}

/// Why a URL or header cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    #[error("invalid URL: {0}")]
    Uri(#[from] http::uri::InvalidUri),
    #[error("invalid header name: {0}")]
    Name(#[from] header::InvalidHeaderName),
    #[error("invalid header value: {0}")]
    Value(#[from] header::InvalidHeaderValue),
}

impl HttpClient {
    pub fn new(launch: &HttpLaunch) -> Result<(Self, Uri), Unusable> {
        let uri: Uri = launch.url.parse()?;
        let mut headers = HeaderMap::new();
        for (name, value) in &launch.headers {
            let mut value = HeaderValue::from_str(value.expose())?;
            value.set_sensitive(true);
            headers.append(HeaderName::from_bytes(name.as_bytes())?, value);
        }
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(TCP_CONNECT_LIMIT));
        let encrypted = uri.scheme_str() == Some("https");
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls_config(encrypted))
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_LIMIT)
            .build(connector);
        Ok((Self { client, headers }, uri))
    }

    pub fn request(&self, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> ResponseFuture {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        self.client.request(request)
    }

    /// A request that follows redirects within the same origin, and says where it ended: some servers
    /// redirect `/mcp` to `/mcp/` (E2). Elsewhere they are not followed: our headers hold secrets.
    pub async fn request_following(
        &self,
        method: Method,
        mut uri: Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<(Response<Incoming>, Uri), Error> {
        for _ in 0..MAX_REDIRECTS {
            let response = self.request(method.clone(), uri.clone(), headers.clone(), body.clone()).await?;
            match redirect(&response, &uri) {
                Some(target) => uri = target,
                None => return Ok((response, uri)),
            }
        }
        let response = self.request(method, uri.clone(), headers, body).await?;
        Ok((response, uri))
    }
}

fn redirect(response: &Response<Incoming>, from: &Uri) -> Option<Uri> {
    if !matches!(response.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT) {
        return None;
    }
    let target = response.headers().get(header::LOCATION)?.to_str().ok()?;
    resolve(from, target).filter(|target| same_origin(from, target))
}

/// A reference (RFC 3986) against a base URI: absolute, or a path with its query.
pub fn resolve(base: &Uri, reference: &str) -> Option<Uri> {
    if reference.contains("://") {
        return reference.parse().ok();
    }
    let path = if reference.starts_with('/') {
        reference.to_owned()
    } else if reference.starts_with('?') {
        format!("{}{reference}", base.path())
    } else {
        let folder = base.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{folder}/{reference}")
    };
    let mut parts = base.clone().into_parts();
    parts.path_and_query = Some(path.parse().ok()?);
    Uri::from_parts(parts).ok()
}

pub fn same_origin(one: &Uri, other: &Uri) -> bool {
    let port = |uri: &Uri| uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
    one.scheme() == other.scheme() && one.host() == other.host() && port(one) == port(other)
}

/// The body of an unsuccessful answer, cut to what a person reads.
pub async fn error_text(body: Incoming) -> Bytes {
    Limited::new(body, SHOWN_ERROR).collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default()
}

/// What a failed request means for the call it carried (invariant 6).
pub fn interruption(error: &Error) -> Interruption {
    if error.is_connect() {
        return Interruption::not_sent(InterruptionKind::Unreachable(deepest(error)));
    }
    let never_written = std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<hyper::Error>())
        .is_some_and(hyper::Error::is_canceled);
    if never_written {
        Interruption::not_sent(InterruptionKind::Lost)
    } else {
        Interruption::sent(InterruptionKind::Lost)
    }
}

/// The innermost cause, which is what a person can act on ("connection refused").
pub fn deepest(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// The system's trust store, read once, when the first encrypted server is opened.
fn tls_config(encrypted: bool) -> rustls::ClientConfig {
    static ROOTS: OnceLock<rustls::RootCertStore> = OnceLock::new();
    let roots = if encrypted {
        ROOTS.get_or_init(|| {
            let found = rustls_native_certs::load_native_certs();
            for error in &found.errors {
                tracing::warn!(%error, "a system certificate could not be read");
            }
            let mut roots = rustls::RootCertStore::empty();
            roots.add_parsable_certificates(found.certs);
            roots
        }).clone()
    } else {
        rustls::RootCertStore::empty()
    };
    rustls::ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("ring supports the default protocol versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_resolve_against_the_stream_they_came_on() {
        let base: Uri = "http://host:1/a/sse?x=1".parse().expect("a URI");
        for (reference, expected) in [
            ("/messages?id=1", "http://host:1/messages?id=1"),
            ("messages", "http://host:1/a/messages"),
            ("?session=2", "http://host:1/a/sse?session=2"),
            ("http://host:1/m", "http://host:1/m"),
        ] {
            assert_eq!(resolve(&base, reference).expect("resolved").to_string(), expected, "{reference}");
        }
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let uri = |text: &str| text.parse::<Uri>().expect("a URI");
        assert!(same_origin(&uri("http://a/x"), &uri("http://a:80/y")));
        for other in ["https://a/x", "http://b/x", "http://a:81/x"] {
            assert!(!same_origin(&uri("http://a/x"), &uri(other)), "{other}");
        }
    }
}
