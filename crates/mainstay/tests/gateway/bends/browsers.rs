//! Clients in web pages, and the `Accept` headers of clients.

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use mainstay_core::config::Secret;
use mainstay_gateway::GatewayOptions;
use mainstay_tokens::Tokens;

use crate::{
    backend::Backend,
    client::{Http, LATEST, initialize},
    gateway::{Gateway, config},
    rest_client::TOKEN,
};

const ORIGIN: &str = "http://localhost:6274";

fn list(headers: &HeaderMap, name: header::HeaderName) -> Vec<String> {
    let value = headers[name].to_str().expect("ASCII");
    value.split(", ").map(str::to_owned).collect()
}

fn page_headers(client: &Http) -> HeaderMap {
    let mut headers = client.headers("application/json, text/event-stream");
    headers.insert(header::ORIGIN, HeaderValue::from_static(ORIGIN));
    headers
}

#[tokio::test]
async fn a_page_may_send_and_read_what_the_protocol_has() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    for path in ["/mcp", "/servers/x/mcp", "/sse", "/servers/x/sse"] {
        let client = gateway.stranger(path);
        let mut headers = page_headers(&client);
        let names = "Traceparent,tracestate, Mcp-Param-Region,mcp-session-id, x-evil";
        let names = HeaderValue::from_static(names);
        headers.insert(header::ACCESS_CONTROL_REQUEST_HEADERS, names);
        let answer = client.send(Method::OPTIONS, headers, "").await;
        let allowed_headers = list(&answer.headers, header::ACCESS_CONTROL_ALLOW_HEADERS);
        for name in [
            "authorization",
            "content-type",
            "accept",
            "mcp-session-id",
            "mcp-protocol-version",
            "mcp-method",
            "mcp-name",
            "mcp-param-region",
            "last-event-id",
            "traceparent",
            "tracestate",
        ] {
            assert!(
                allowed_headers.iter().any(|header| header == name),
                "{name}: {allowed_headers:?}"
            );
        }
        assert!(
            !allowed_headers.iter().any(|header| header == "x-evil"),
            "{allowed_headers:?}"
        );
        let exposed_headers = list(&answer.headers, header::ACCESS_CONTROL_EXPOSE_HEADERS);
        for name in [
            "mcp-session-id",
            "mcp-protocol-version",
            "www-authenticate",
            "retry-after",
        ] {
            assert!(
                exposed_headers.iter().any(|header| header == name),
                "{name}: {exposed_headers:?}"
            );
        }
    }
}

/// A web page can read the challenge of a refused request.
#[tokio::test]
async fn a_page_can_read_the_challenge() {
    let backend = Backend::http().await;
    let tokens = Tokens::from(Secret::new(TOKEN));
    tokens.add("somebody", None).expect("added");
    let config_json = config(&[("x", &backend)], serde_json::json!({}));
    let gateway = Gateway::guarded(&config_json, GatewayOptions::default(), tokens, |address| {
        address
    })
    .await;
    let client = gateway.stranger("/mcp");
    let headers = page_headers(&client);
    let answer = client.send(Method::POST, headers, initialize(LATEST)).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    assert!(answer.headers.contains_key(header::WWW_AUTHENTICATE));
    let exposed_headers = list(&answer.headers, header::ACCESS_CONTROL_EXPOSE_HEADERS);
    assert!(
        exposed_headers
            .iter()
            .any(|header| header == "www-authenticate"),
        "{exposed_headers:?}"
    );
}

#[tokio::test]
async fn an_unacceptable_form_is_not_sent() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.stranger("/mcp");
    for (accept, expected) in [
        (
            "Application/JSON, Text/Event-Stream",
            Some("application/json"),
        ),
        ("application/*", Some("application/json")),
        ("*/*", Some("application/json")),
        ("application/json;q=0, */*", Some("text/event-stream")),
        ("text/event-stream;q=0, */*", Some("application/json")),
        ("application/json;q=0, text/event-stream;q=0", None),
        ("*/*;q=0", None),
    ] {
        let mut session = gateway.client().await;
        let request = session.request_text("tools/list", "{}");
        let answer = session
            .send(Method::POST, session.headers(accept), request)
            .await;
        let Some(expected) = expected else {
            assert_eq!(answer.status, StatusCode::NOT_ACCEPTABLE, "{accept}");
            continue;
        };
        assert_eq!(answer.status, StatusCode::OK, "{accept}");
        let kind = answer.headers[header::CONTENT_TYPE]
            .to_str()
            .expect("ASCII");
        assert!(kind.starts_with(expected), "{accept}: {kind}");
        session.session = None;
    }
    drop(client);
}
