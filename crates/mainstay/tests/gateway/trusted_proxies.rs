//! `http.trustedProxies`: whom Mainstay believes about the visitor behind a proxy.

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde_json::{Value, json};

use crate::{
    client::{Http, Response},
    gateway::Gateway,
    rest_client::TOKEN,
};

async fn gateway(http: Value) -> Gateway {
    Gateway::with_settings(&[], json!({"http": http})).await
}

/// Adds headers of a proxy.
fn forwarded(client: &Http, lines: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = client.headers("application/json, text/event-stream");
    for (name, value) in lines {
        headers.insert(*name, HeaderValue::from_str(value).expect("a header"));
    }
    headers
}

/// Initializes a session as a visitor of the proxy. Returns its id.
async fn session(gateway: &Gateway, forwarded_for: &str) -> String {
    let client = gateway.stranger("/mcp");
    let headers = forwarded(&client, &[("x-forwarded-for", forwarded_for)]);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}});
    let answer = client.send(Method::POST, headers, body.to_string()).await;
    assert_eq!(answer.status, StatusCode::OK);
    let id = answer.headers["mcp-session-id"].to_str().expect("ASCII");
    id.to_owned()
}

/// The number of open sessions of a gateway that admits one session for each address.
async fn sessions_of(http: Value, visitors: &[&str]) -> usize {
    let mut http = http;
    http["maxSessionsPerClient"] = 1.into();
    let gateway = gateway(http).await;
    for visitor in visitors {
        session(&gateway, visitor).await;
    }
    gateway.sessions()
}

#[tokio::test]
async fn limits_count_the_visitors_of_a_trusted_proxy() {
    let trusted = json!({"trustedProxies": ["127.0.0.1", "10.0.0.0/8"]});
    let visitors = [
        "203.0.113.1",
        "203.0.113.2",
        "2001:db8:1::1",
        "2001:db8:2::1",
    ];
    assert_eq!(sessions_of(trusted.clone(), &visitors).await, 4);
    // Whatever stands before the visitor, it is the same visitor.
    let spoofed = [
        "192.0.2.1, 203.0.113.1",
        "192.0.2.2, 203.0.113.1, 10.1.1.1",
        "203.0.113.1:4711",
    ];
    assert_eq!(sessions_of(trusted.clone(), &spoofed).await, 1);
    // Garbage is the proxy itself.
    let garbage = ["unknown", "203.0.113.1, _hidden", ",", "203.0.113.1.9"];
    assert_eq!(sessions_of(trusted, &garbage).await, 1);
    // Nobody else is believed.
    assert_eq!(sessions_of(json!({}), &visitors).await, 1);
    let other = json!({"trustedProxies": ["10.0.0.0/8", "::1"]});
    assert_eq!(sessions_of(other, &visitors).await, 1);
}

async fn sign_in(gateway: &Gateway, lines: &[(&'static str, &str)]) -> Response {
    let client = gateway.stranger("/api/session");
    let body = json!({"token": TOKEN}).to_string();
    let headers = forwarded(&client, lines);
    client.send(Method::POST, headers, body).await.whole().await
}

fn cookie(answer: &Response) -> &str {
    assert_eq!(answer.status, StatusCode::OK);
    answer.headers[header::SET_COOKIE].to_str().expect("ASCII")
}

#[tokio::test]
async fn scheme_and_host_are_those_at_the_proxy() {
    let lines = [
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "gate.example:8443"),
    ];
    let hosts = json!(["gate.example"]);
    let origins = json!(["https://gate.example:8443"]);
    let trusting = gateway(json!({
        "trustedProxies": ["127.0.0.1"], "allowedHosts": hosts, "allowedOrigins": origins,
    }))
    .await;
    let answer = sign_in(&trusting, &lines).await;
    let cookie_text = cookie(&answer);
    assert!(cookie_text.starts_with("mainstay-8443="), "{cookie_text}");
    assert!(cookie_text.ends_with("; Secure"), "{cookie_text}");
    // The origin of the page is that of the proxy, too.
    let origin = |text| [lines[0], lines[1], ("origin", text)];
    cookie(&sign_in(&trusting, &origin("https://gate.example:8443")).await);
    let other = sign_in(&trusting, &origin("https://gate.example")).await;
    assert_eq!(other.status, StatusCode::FORBIDDEN);

    let distrusting = gateway(json!({"allowedHosts": hosts})).await;
    let answer = sign_in(&distrusting, &lines).await;
    let cookie_text = cookie(&answer);
    assert!(!cookie_text.starts_with("mainstay-8443="), "{cookie_text}");
    assert!(!cookie_text.contains("Secure"), "{cookie_text}");
}

#[tokio::test]
async fn a_forwarded_host_is_checked_like_any_other() {
    let gateway = gateway(json!({"trustedProxies": ["127.0.0.1"]})).await;
    for (host, expected) in [
        ("localhost:1", StatusCode::OK),
        ("evil.example", StatusCode::FORBIDDEN),
        ("localhost, evil.example", StatusCode::FORBIDDEN),
        ("localhost:80@evil.example", StatusCode::BAD_REQUEST),
        ("", StatusCode::BAD_REQUEST),
    ] {
        let client = gateway.stranger("/healthz");
        let headers = forwarded(&client, &[("x-forwarded-host", host)]);
        let answer = client.send(Method::GET, headers, "").await;
        assert_eq!(answer.status, expected, "{host}");
    }
}
