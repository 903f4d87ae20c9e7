//! A health URL beside a server's endpoint.

use std::{sync::Arc, time::SystemTime};

use bytes::BytesMut;
use mainstay_core::config::{HttpLaunch, HttpTransport, Secret};

use crate::http::{
    http_client::{Target, Template},
    urls::same_origin,
};

/// How much of a health page is read, so that its connection can be used again.
const READ_LIMIT: usize = 64 * 1024;

/// A URL that tells by HTTP whether a server is well. The request has the server's configured headers
/// if the URL has the server's own origin, and none of them elsewhere.
#[derive(Clone)]
pub struct HealthUrl {
    target: Target,
    get: Arc<Template>,
}

impl std::fmt::Debug for HealthUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HealthUrl").finish_non_exhaustive()
    }
}

impl HealthUrl {
    /// `None` if the URL cannot be used; the configuration was checked, so that is an odd host.
    pub fn new(url: &Secret, server: Option<&HttpLaunch>) -> Option<Self> {
        // The server's headers hold its secrets, and another origin is not the server.
        let server = server.filter(|server| is_same_origin(url.expose(), &server.url));
        let launch = HttpLaunch {
            url: url.expose().to_owned(),
            headers: server
                .map(|server| server.headers.clone())
                .unwrap_or_default(),
            transport: HttpTransport::Detect,
        };
        let target = Target::new(&launch).ok()?;
        let get = Arc::new(target.template("GET", &[("accept", "*/*")]));
        Some(Self { target, get })
    }

    /// What the server's clock says, in its answer's `Date`. `None` where it does not say.
    pub async fn date(&self) -> Result<Option<SystemTime>, HealthError> {
        let response = self.target.send(&self.get).await.map_err(HealthError)?;
        let date = response.head.get("date");
        Ok(date.and_then(|date| httpdate::parse_http_date(date).ok()))
    }

    /// The status of the answer, or why there is none.
    pub async fn get(&self) -> Result<u16, HealthError> {
        let mut response = self.target.send(&self.get).await.map_err(HealthError)?;
        let status = response.head.status;
        // What it says beside is of no interest.
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

/// No answer from a health URL.
#[derive(Debug, thiserror::Error)]
#[error("the health URL does not answer: {0}")]
pub struct HealthError(#[source] crate::http1::Error);
