//! The health URL of a server, which is separate from its MCP endpoint.

use std::{sync::Arc, time::SystemTime};

use bytes::BytesMut;
use mainstay_core::config::{HttpLaunch, NetworkSettings, Secret};

use crate::http::{
    credentials::CredentialSource,
    http_client::{HttpTarget, RequestTemplate},
    urls::same_origin,
};

/// The maximum number of bytes of a health page that are read, so that its connection can be reused.
const READ_LIMIT: usize = 64 * 1024;

/// A URL whose HTTP status shows if a server is healthy. If the URL has the origin of the server, requests
/// carry the server's configured headers and credentials. Otherwise they carry neither.
#[derive(Clone)]
pub struct HealthUrl {
    target: HttpTarget,
    get: Arc<RequestTemplate>,
}

impl std::fmt::Debug for HealthUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HealthUrl").finish_non_exhaustive()
    }
}

impl HealthUrl {
    /// Returns `None` if the URL cannot be used. The configuration was checked, so this only happens for
    /// unusual hosts.
    pub fn new(
        url: &Secret,
        server: Option<&HttpLaunch>,
        source: Option<Arc<dyn CredentialSource>>,
    ) -> Option<Self> {
        // The server's headers and its credentials contain secrets. Do not send them to another origin.
        let network = server.map(|server| &server.network);
        let server = server.filter(|server| is_same_origin(url.expose(), &server.url));
        let network = match (server, network) {
            (Some(server), _) => server.network.clone(),
            // Use the proxy and the certificate authorities of the server's network settings.
            (None, Some(network)) => network.without_client_certificate(),
            (None, None) => NetworkSettings::default(),
        };
        let launch = HttpLaunch {
            url: url.expose().to_owned(),
            headers: server
                .map(|server| server.headers.clone())
                .unwrap_or_default(),
            network,
            ..HttpLaunch::default()
        };
        let source = source.filter(|_| server.is_some());
        let target = HttpTarget::with_credentials(&launch, source).ok()?;
        let get = Arc::new(target.template("GET", &[("accept", "*/*")]));
        Some(Self { target, get })
    }

    /// The time of the server's clock, from the `Date` of the answer. `None` without a `Date`.
    pub async fn date(&self) -> Result<Option<SystemTime>, HealthError> {
        let response = self.target.send(&self.get).await.map_err(HealthError)?;
        let date = response.head.get("date");
        Ok(date.and_then(|date| httpdate::parse_http_date(date).ok()))
    }

    /// The status of the answer, or the error.
    pub async fn get(&self) -> Result<u16, HealthError> {
        let mut response = self.target.send(&self.get).await.map_err(HealthError)?;
        let status = response.head.status;
        // Read the body so that the connection can be reused.
        response
            .collect(&mut BytesMut::new(), READ_LIMIT)
            .await
            .ok();
        Ok(status)
    }
}

fn is_same_origin(url: &str, server: &str) -> bool {
    match (url.parse(), server.parse()) {
        (Ok(url), Ok(server)) => same_origin(&url, &server),
        _ => false,
    }
}

/// The error of a health URL that does not answer.
#[derive(Debug, thiserror::Error)]
#[error("the health URL does not answer: {0}")]
pub struct HealthError(#[source] crate::http1::Error);
