//! Credentials that come from a source, and the error if a source has none.

use std::sync::{Arc, Mutex};

use mainstay_core::{config::ServerConfig, principal::Principal};
use mainstay_gateway::{CredentialSources, GatewayOptions};
use mainstay_transport::{
    CredentialSource, HeaderLines, NoCredentials, RefusedCredentials, RenewedLines,
};
use serde_json::json;

use crate::{
    backend::{Backend, BackendKind},
    gateway::{Gateway, config},
};

/// A source with one token for every server.
#[derive(Debug)]
struct OneToken(Mutex<Result<&'static str, NoCredentials>>);

impl OneToken {
    fn set(&self, token: Result<&'static str, NoCredentials>) {
        *self.0.lock().expect("no panic") = token;
    }

    fn held_lines(&self) -> Result<HeaderLines, NoCredentials> {
        let token = self.0.lock().expect("no panic").clone()?;
        let value = format!("Bearer {token}");
        Ok(HeaderLines::new([("authorization", value.as_str())]))
    }
}

impl CredentialSource for OneToken {
    fn lines(&self) -> RenewedLines<'_> {
        Box::pin(async { self.held_lines() })
    }

    fn refresh(&self, _: RefusedCredentials) -> RenewedLines<'_> {
        self.lines()
    }
}

#[derive(Debug)]
struct ForAllServers(Arc<OneToken>);

impl CredentialSources for ForAllServers {
    fn source(&self, _: &ServerConfig, _: &Principal) -> Option<Arc<dyn CredentialSource>> {
        Some(Arc::clone(&self.0) as Arc<dyn CredentialSource>)
    }
}

/// A gateway, and a server that requires a token.
struct Guarded {
    gateway: Gateway,
    source: Arc<OneToken>,
    _backend: Backend,
}

impl Guarded {
    async fn new(kind: BackendKind, token: Result<&'static str, NoCredentials>) -> Self {
        let flags = ["--require-header", "authorization=Bearer t0ken"];
        let backend = Backend::start(kind, &flags).await;
        let source = Arc::new(OneToken(Mutex::new(token)));
        let options = GatewayOptions {
            credential_sources: Some(Arc::new(ForAllServers(Arc::clone(&source)))),
            ..GatewayOptions::default()
        };
        let gateway = Gateway::with_options(&config(&[("x", &backend)], json!({})), options).await;
        Self {
            gateway,
            source,
            _backend: backend,
        }
    }
}

#[tokio::test]
async fn a_server_gets_the_token_of_its_source() {
    for kind in [BackendKind::Http, BackendKind::Sse] {
        let fixture = Guarded::new(kind, Ok("t0ken")).await;
        let client = fixture.gateway.client().await;
        client.assert_echo("x__echo").await;
    }
}

#[tokio::test]
async fn a_source_says_why_it_has_no_token() {
    let expired_login = NoCredentials::NoLongerValid("the login has expired".to_owned());
    let fixture = Guarded::new(BackendKind::Http, Err(expired_login)).await;
    let rest = fixture.gateway.rest();
    let server = rest.until_status("x", "error").await;
    let reason = server["lastError"].as_str().unwrap_or_default();
    assert!(reason.contains("the login has expired"), "{server}");
    fixture.source.set(Ok("t0ken"));
    rest.operate("x", "reconnect").await;
    rest.until_status("x", "connected").await;
}

#[tokio::test]
async fn a_source_that_is_down_is_tried_again_until_it_answers() {
    let issuer_outage = NoCredentials::Unavailable("https://issuer does not answer".to_owned());
    let fixture = Guarded::new(BackendKind::Http, Err(issuer_outage)).await;
    let rest = fixture.gateway.rest();
    let server = rest.until_status("x", "reconnecting").await;
    let reason = server["lastError"].as_str().unwrap_or_default();
    assert!(
        reason.contains("https://issuer does not answer"),
        "{server}"
    );
    fixture.source.set(Ok("t0ken"));
    rest.until_status("x", "connected").await;
}
