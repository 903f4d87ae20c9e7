//! Sends the requests of logins through the HTTP client of the package `transport`, with the proxy and the
//! certificates of the server.

use std::{sync::Arc, time::Duration};

use mainstay_core::{config::NetworkSettings, redact::Secrets};
use mainstay_transport::{BoundedError, BoundedRequest, is_in_private_network, send_bounded};

use crate::{
    server::LoginServer,
    web::{NamedByServer, PendingResponse, ThroughProxy, Web, WebError, WebRequest},
};

/// Time limit for one request with its redirects.
const TIME_LIMIT: Duration = Duration::from_secs(15);

/// Maximum length of an answer, in bytes. Metadata documents have some kilobytes.
const MAX_ANSWER: usize = 512 * 1024;

/// Makes the [`Web`] of a server.
pub trait WebSource: std::fmt::Debug + Send + Sync {
    fn web(&self, server: &LoginServer) -> Arc<dyn Web>;
}

/// The source of clients that use the network of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Network;

impl WebSource for Network {
    fn web(&self, server: &LoginServer) -> Arc<dyn Web> {
        Arc::new(WebClient {
            network: server.network.clone(),
            server: server.url.as_str().parse().unwrap_or_default(),
            has_configured_issuer: server.oauth.issuer.is_some(),
            secrets: Secrets::from_network(&server.network),
        })
    }
}

/// Sends the requests of one server's logins.
#[derive(Debug)]
struct WebClient {
    network: NetworkSettings,
    server: http::Uri,
    has_configured_issuer: bool,
    /// The secrets of the proxy.
    secrets: Option<Secrets>,
}

impl WebClient {
    /// True if private addresses are refused. A server on the internet must not make Mainstay send requests to its
    /// private network. A server in that network may, and so may an issuer of the configuration.
    async fn is_only_public(&self, request: &WebRequest) -> bool {
        let is_named_by_server = request.extensions().get::<NamedByServer>().is_some();
        let is_of_configuration = self.has_configured_issuer && !is_named_by_server;
        !is_of_configuration && !is_in_private_network(&self.server).await
    }
}

impl Web for WebClient {
    fn send(&self, request: WebRequest) -> PendingResponse<'_> {
        Box::pin(async move {
            let only_public = self.is_only_public(&request).await;
            let sent = send_bounded(BoundedRequest {
                request,
                network: &self.network,
                max_bytes: MAX_ANSWER,
                time_limit: TIME_LIMIT,
                only_public,
                follows_redirects: true,
            });
            let answered = sent.await.map(|answer| {
                let mut response = answer.response;
                if let Some(proxy) = answer.proxy {
                    response.extensions_mut().insert(ThroughProxy(proxy));
                }
                if let Some(secrets) = self
                    .secrets
                    .as_ref()
                    .filter(|_| !response.status().is_success())
                {
                    // A proxy may quote the credentials that it received, and refusals are shown to users.
                    let text = String::from_utf8_lossy(response.body()).into_owned();
                    *response.body_mut() = secrets.hide(&text).into_owned().into_bytes();
                }
                response
            });
            answered.map_err(|error| {
                let reason = error.to_string();
                match error {
                    BoundedError::Url { .. } | BoundedError::NotSent { .. } => {
                        WebError::NotSent(reason)
                    }
                    BoundedError::AnswerLost { .. } | BoundedError::Late { .. } => {
                        WebError::AnswerLost(reason)
                    }
                    BoundedError::TooLarge { .. }
                    | BoundedError::Redirect { .. }
                    | BoundedError::TooManyRedirects { .. }
                    | BoundedError::Private { .. } => WebError::Unusable(reason),
                }
            })
        })
    }
}
