//! Tests of the search for an authorization server, with sites of every kind.

use std::{collections::HashMap, sync::Mutex};

use mainstay_login::{
    challenge::Challenge,
    find::{Discovery, DiscoveryError, Finder},
    web::{NamedByServer, PendingResponse, Web, WebError, WebRequest},
};
use oauth2::url::Url;
use serde_json::{Value, json};

/// Sites that answer GET requests for some URLs, and 404 for others.
#[derive(Debug, Default)]
struct Sites {
    pages: HashMap<String, (u16, String)>,
    requests: Mutex<Vec<String>>,
    /// Requests to URLs that the MCP server has named.
    named_by_server: Mutex<Vec<String>>,
}

impl Sites {
    fn new<'a>(pages: impl IntoIterator<Item = (&'a str, u16, Value)>) -> Self {
        Self {
            pages: pages
                .into_iter()
                .map(|(url, status, body)| {
                    let text = body
                        .as_str()
                        .map_or_else(|| body.to_string(), str::to_owned);
                    (url.to_owned(), (status, text))
                })
                .collect(),
            requests: Mutex::default(),
            named_by_server: Mutex::default(),
        }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("a lock").clone()
    }

    async fn find(
        &self,
        challenge: Option<&str>,
        issuer: Option<&str>,
    ) -> Result<Discovery, DiscoveryError> {
        let challenge = challenge.and_then(|header| Challenge::parse([header]));
        Finder {
            web: self,
            server: &Url::parse(SERVER).expect("a URL"),
            challenge: challenge.as_ref(),
            configured_issuer: issuer,
            registered_issuer: None,
        }
        .find()
        .await
    }
}

impl Web for Sites {
    fn send(&self, request: WebRequest) -> PendingResponse<'_> {
        let url = request.uri().to_string();
        let page = self.pages.get(&url).cloned();
        if request.extensions().get::<NamedByServer>().is_some() {
            let mut named_by_server = self.named_by_server.lock().expect("a lock");
            named_by_server.push(url.clone());
        }
        self.requests.lock().expect("a lock").push(url);
        Box::pin(async move {
            let (status, body) = page.unwrap_or((404, "not found".to_owned()));
            if status == 0 {
                return Err(WebError::NotSent(body));
            }
            let response = http::Response::builder().status(status);
            Ok(response.body(body.into_bytes()).expect("a response"))
        })
    }
}

const SERVER: &str = "https://h/v1/mcp?key=1";
const AT_PATH: &str = "https://h/.well-known/oauth-protected-resource/v1/mcp";
const AT_ROOT: &str = "https://h/.well-known/oauth-protected-resource";
const ISSUER: &str = "https://a/.well-known/oauth-authorization-server";
const OPENID: &str = "https://a/.well-known/openid-configuration";
const OWN_ISSUER: &str = "https://h/.well-known/oauth-authorization-server";

fn resource() -> Value {
    json!({"resource": "https://h/v1/mcp", "authorization_servers": ["https://a"], "scopes_supported": ["x"]})
}

fn issuer(issuer: &str) -> Value {
    json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "code_challenge_methods_supported": ["S256"],
    })
}

#[tokio::test]
async fn a_named_place_comes_before_the_well_known_ones() {
    let sites = Sites::new([
        ("https://h/meta", 200, resource()),
        (
            AT_PATH,
            200,
            json!({"resource": "https://h", "authorization_servers": ["https://b"]}),
        ),
        (ISSUER, 200, issuer("https://a")),
    ]);
    for named in ["https://h/meta", "/meta"] {
        let discovery = sites
            .find(Some(&format!("Bearer resource_metadata=\"{named}\"")), None)
            .await;
        let discovery = discovery.expect("an authorization server");
        assert_eq!(discovery.issuer.issuer, "https://a");
        assert_eq!(discovery.resource, "https://h/v1/mcp");
        assert_eq!(discovery.resource_scopes.expect("scopes").to_string(), "x");
    }
    assert_eq!(sites.requests()[..2], ["https://h/meta", ISSUER]);
}

#[tokio::test]
async fn well_known_places_are_asked_in_order() {
    let sites = Sites::new([
        (AT_ROOT, 200, resource()),
        (OPENID, 200, issuer("https://a")),
    ]);
    let discovery = sites
        .find(None, None)
        .await
        .expect("an authorization server");
    assert_eq!(discovery.issuer.token_endpoint.as_str(), "https://a/token");
    assert_eq!(sites.requests(), [AT_PATH, AT_ROOT, ISSUER, OPENID]);
    let named_by_server = sites.named_by_server.lock().expect("a lock");
    assert_eq!(*named_by_server, [AT_PATH, AT_ROOT], "no issuer");
}

#[tokio::test]
async fn a_site_that_answers_everything_with_a_page_has_no_metadata_there() {
    let sites = Sites::new([
        (AT_PATH, 200, json!("<html>welcome</html>")),
        (AT_ROOT, 200, resource()),
        (ISSUER, 200, issuer("https://a")),
    ]);
    assert!(sites.find(None, None).await.is_ok());
}

#[tokio::test]
async fn a_server_of_2025_03_26_is_its_own_authorization_server() {
    let sites = Sites::new([(OWN_ISSUER, 200, issuer("https://h"))]);
    let discovery = sites
        .find(Some("Bearer"), None)
        .await
        .expect("an authorization server");
    assert_eq!(discovery.issuer.issuer, "https://h");
    assert_eq!(discovery.resource, "https://h/v1/mcp");
    assert!(!discovery.is_assumed);

    let discovery = Sites::default().find(None, None).await.expect("endpoints");
    assert!(discovery.is_assumed);
    assert_eq!(discovery.issuer.token_endpoint.as_str(), "https://h/token");
}

#[tokio::test]
async fn a_configured_issuer_is_taken_where_the_server_names_it_or_none() {
    let sites = Sites::new([(ISSUER, 200, issuer("https://a"))]);
    let discovery = sites
        .find(None, Some("https://a"))
        .await
        .expect("an authorization server");
    assert_eq!(discovery.issuer.issuer, "https://a");

    let sites = Sites::new([
        (AT_PATH, 200, resource()),
        (ISSUER, 200, issuer("https://a")),
    ]);
    let error = sites
        .find(None, Some("https://c"))
        .await
        .expect_err("an error");
    assert_eq!(
        error.to_string(),
        "the server does not use the authorization server https://c of `oauth.issuer`, but https://a"
    );
}

#[tokio::test]
async fn metadata_about_others_is_refused() {
    let other = json!({"resource": "https://evil/mcp", "authorization_servers": ["https://a"]});
    let sites = Sites::new([(AT_PATH, 200, other), (AT_ROOT, 200, resource())]);
    let error = sites.find(None, None).await.expect_err("an error");
    assert_eq!(
        error.to_string(),
        format!(
            "the metadata at {AT_PATH} cannot be used: it is about the resource https://evil/mcp, and the server is https://h/v1/mcp"
        )
    );
    let sites = Sites::new([
        (AT_PATH, 200, resource()),
        (ISSUER, 200, issuer("https://honest")),
        (OPENID, 200, issuer("https://a")),
    ]);
    let error = sites.find(None, None).await.expect_err("an error");
    assert!(matches!(error, DiscoveryError::Unusable { .. }), "{error}");
}

#[tokio::test]
async fn a_place_that_is_down_is_no_place_without_metadata() {
    for (status, body, reason) in [
        (503, "overloaded\n", "HTTP 503: overloaded"),
        (500, "<html>", "HTTP 500"),
        (0, "no route to h", "no route to h"),
    ] {
        let sites = Sites::new([(AT_PATH, status, json!(body))]);
        let error = sites.find(None, None).await.expect_err("an error");
        assert_eq!(error.to_string(), format!("{AT_PATH}: {reason}"));
        assert!(matches!(error, DiscoveryError::Unavailable { .. }));
        let sites = Sites::new([(AT_PATH, 200, resource()), (ISSUER, status, json!(body))]);
        let error = sites.find(None, None).await.expect_err("an error");
        assert!(
            matches!(error, DiscoveryError::Unavailable { .. }),
            "{error}"
        );
    }
    let sites = Sites::new([(AT_PATH, 200, resource())]);
    let error = sites.find(None, None).await.expect_err("an error");
    assert_eq!(
        error.to_string(),
        format!("the authorization server https://a has no metadata at {ISSUER}, {OPENID}")
    );
}
