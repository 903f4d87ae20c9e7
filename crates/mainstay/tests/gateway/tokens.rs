//! Client tokens open MCP paths, and the control token also opens REST. Changes of tokens affect
//! open sessions (Q2, Q7).

use http::{Method, StatusCode, header};
use mainstay::daemon::DaemonOptions;
use mainstay_core::config::Secret;
use mainstay_gateway::GatewayOptions;
use mainstay_tokens::Tokens;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, LATEST, Stream, initialize},
    gateway::{Gateway, config, soon},
    modern::Modern,
    rest_client::TOKEN,
};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

/// All MCP paths. The path of an unknown server must behave like the others.
const PATHS: [&str; 9] = [
    "/mcp",
    "/mcp/meta",
    "/mcp/none",
    "/servers/x/mcp",
    "/servers/none/mcp",
    "/sse",
    "/servers/x/sse",
    "/sse/message?sessionId=1",
    "/servers/x/sse/message",
];

struct TestConfig {
    gateway: Gateway,
    tokens: Tokens,
    _backend: Backend,
}

impl TestConfig {
    async fn new() -> Self {
        Self::start(Backend::http().await).await
    }

    async fn start(backend: Backend) -> Self {
        let tokens = Tokens::from(Secret::new(TOKEN));
        let config_json = config(&[("x", &backend)], json!({}));
        let gateway = Gateway::guarded(
            &config_json,
            GatewayOptions::default(),
            tokens.clone(),
            |address| address,
        )
        .await;
        Self {
            gateway,
            tokens,
            _backend: backend,
        }
    }

    fn client(&self, path: &str, token: &str) -> Http {
        let mut client = self.gateway.stranger(path);
        client.token = Some(token.to_owned());
        client
    }

    /// Adds a client token of this name.
    fn token(&self, name: &str) -> String {
        let (token, _) = self.tokens.add(name, None).expect("added");
        token.expose().to_owned()
    }
}

async fn ping(client: &Http) -> StatusCode {
    client.post(PING).await.status
}

/// Reads a stream to its end.
async fn until_end(mut stream: Stream) {
    stream.rest().await;
}

/// When the first client token is added, every MCP path begins to demand a token.
#[tokio::test]
async fn with_a_clients_token_every_mcp_path_asks_for_one() {
    let world = TestConfig::new().await;
    world.gateway.client().await.assert_echo("x__echo").await;
    let token = world.token("laptop");
    for path in PATHS {
        for (bearer_token, challenge) in [
            (None, "Bearer"),
            (Some(&token[..20]), r#"Bearer error="invalid_token""#),
            (Some("other"), r#"Bearer error="invalid_token""#),
        ] {
            let mut client = world.gateway.stranger(path);
            client.token = bearer_token.map(str::to_owned);
            for method in [Method::POST, Method::GET, Method::DELETE] {
                let headers = client.headers("application/json, text/event-stream");
                let refused_response = client.send(method.clone(), headers, PING).await;
                assert_eq!(
                    refused_response.status,
                    StatusCode::UNAUTHORIZED,
                    "{method} {path}"
                );
                assert_eq!(
                    refused_response.headers[header::WWW_AUTHENTICATE],
                    challenge
                );
            }
        }
        let ping_status = ping(&world.client(path, &token)).await;
        assert_ne!(ping_status, StatusCode::UNAUTHORIZED, "{path}");
    }
    for path in ["/healthz", "/readyz"] {
        let client = world.gateway.stranger(path);
        let headers = client.headers("*/*");
        let status = client.send(Method::GET, headers, "").await.status;
        assert_eq!(status, StatusCode::OK, "{path}");
    }
    // Browsers send preflight requests without a token.
    let client = world.gateway.stranger("/mcp");
    let mut headers = client.headers("*/*");
    headers.insert(header::ORIGIN, "http://localhost:1".parse().expect("ASCII"));
    let preflight = client.send(Method::OPTIONS, headers, "").await;
    assert_eq!(preflight.status, StatusCode::NO_CONTENT);

    let mut client = world.client("/mcp", &token);
    client.initialize("2025-11-25").await;
    client.assert_echo("x__echo").await;
    // The client on stdio has started Mainstay, so it needs no token.
    world.gateway.pipe().await.assert_echo("x__echo").await;
}

/// The 401 comes before the body has arrived.
#[tokio::test]
async fn the_body_of_a_stranger_is_not_read() {
    let world = TestConfig::new().await;
    world.token("laptop");
    let mut stream = TcpStream::connect(world.gateway.address)
        .await
        .expect("accepted");
    let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
        content-length: 1000000\r\n\r\n{";
    stream.write_all(head.as_bytes()).await.expect("written");
    let mut answer = [0; 64];
    let read_message = soon("an answer", stream.read(&mut answer))
        .await
        .expect("read");
    assert!(
        answer[..read_message].starts_with(b"HTTP/1.1 401"),
        "{answer:?}"
    );
}

/// `http.requireToken` decides if a token is demanded. Its default depends on the address.
#[tokio::test]
async fn the_configuration_and_the_address_say_who_is_asked() {
    for (settings, is_exposed, has_token, expected) in [
        (json!({"http": {"requireToken": true}}), false, false, 401),
        (json!({"http": {"requireToken": false}}), false, true, 400),
        (json!({}), true, false, 401),
        (json!({}), false, false, 400),
    ] {
        let tokens = Tokens::from(Secret::new(TOKEN));
        if has_token {
            tokens.add("laptop", None).expect("added");
        }
        let config_json = config(&[], settings);
        let gateway = Gateway::guarded(
            &config_json,
            GatewayOptions::default(),
            tokens,
            |mut address| {
                if is_exposed {
                    address.set_ip([0, 0, 0, 0].into());
                }
                address
            },
        )
        .await;
        // The status of an accepted request. It is an error because there is no session.
        assert_eq!(
            ping(&gateway.stranger("/mcp")).await,
            expected,
            "{config_json}"
        );
        let metrics = gateway.stranger("/metrics");
        let mut headers = metrics.headers("*/*");
        let scraped_response = metrics.send(Method::GET, headers.clone(), "").await;
        assert_eq!(
            scraped_response.status == StatusCode::UNAUTHORIZED,
            is_exposed
        );
        if is_exposed {
            assert_eq!(scraped_response.headers[header::WWW_AUTHENTICATE], "Bearer");
            assert_eq!(
                scraped_response.whole().await.json()["error"],
                "unauthorized"
            );
        }
        let bearer = format!("Bearer {TOKEN}").parse().expect("ASCII");
        headers.insert(header::AUTHORIZATION, bearer);
        let status = metrics.send(Method::GET, headers, "").await.status;
        assert_ne!(status, StatusCode::UNAUTHORIZED);
        gateway.stop().await;
    }
}

/// For clients with another token, the session does not exist.
#[tokio::test]
async fn a_session_is_its_principals_alone() {
    let world = TestConfig::new().await;
    let (own_token, other_token) = (world.token("mine"), world.token("other"));
    for path in ["/mcp", "/servers/x/mcp"] {
        let mut client = world.client(path, &own_token);
        client.initialize("2025-11-25").await;
        for (token, expected) in [
            (other_token.as_str(), StatusCode::NOT_FOUND),
            (TOKEN, StatusCode::NOT_FOUND),
            (&own_token, StatusCode::OK),
        ] {
            client.token = Some(token.to_owned());
            assert_eq!(ping(&client).await, expected, "{path}");
            let headers = client.headers("text/event-stream");
            let get = client.send(Method::GET, headers, "").await;
            assert_eq!(get.status, expected, "GET {path}");
        }
        client.token = Some(other_token.clone());
        assert_eq!(client.delete().await, StatusCode::NOT_FOUND);
        client.token = Some(own_token.clone());
        assert!(client.delete().await.is_success());
    }
    for path in ["/sse", "/servers/x/sse"] {
        let mut stream = world.client(path, &own_token).listen().await;
        let endpoint = stream.next().await.expect("an endpoint");
        for (token, expected) in [
            (&other_token, StatusCode::NOT_FOUND),
            (&own_token, StatusCode::ACCEPTED),
        ] {
            let post_response = world.client(&endpoint, token);
            let post_response = post_response.post(initialize("2025-11-25")).await;
            assert_eq!(post_response.status, expected, "{path}");
        }
        assert_eq!(stream.message().await["id"], "hello");
    }
}

/// After a restart, the seal in the session id shows to which token the session belongs.
#[tokio::test]
async fn a_session_is_its_principals_after_a_restart() {
    let backend = Backend::http().await;
    let config_json = config(&[("x", &backend)], json!({}));
    let tokens = Tokens::from(Secret::new(TOKEN));
    let options = || DaemonOptions {
        session_key: Some(Secret::new("the key of this house")),
        ..DaemonOptions::default()
    };
    let (own_token, _) = tokens.add("mine", None).expect("added");
    let (other_token, _) = tokens.add("other", None).expect("added");
    let gateway =
        Gateway::guarded(&config_json, options(), tokens.clone(), |address| address).await;
    let mut client = gateway.stranger("/mcp");
    client.token = Some(own_token.expose().to_owned());
    client.initialize("2025-11-25").await;
    let session = client.session.take();
    gateway.stop().await;

    let gateway = Gateway::guarded(&config_json, options(), tokens, |address| address).await;
    for (token, expected) in [
        (other_token.expose(), StatusCode::NOT_FOUND),
        (own_token.expose(), StatusCode::OK),
        (other_token.expose(), StatusCode::NOT_FOUND),
    ] {
        let mut client = gateway.stranger("/mcp");
        (client.token, client.session) = (Some(token.to_owned()), session.clone());
        assert_eq!(ping(&client).await, expected);
    }
}

/// A suspended call belongs to its client (2026-07-28, "Multi Round-Trip Requests", "Server
/// Requirements").
#[tokio::test]
async fn a_parked_call_is_its_principals_alone() {
    let legacy = Backend::start(BackendKind::Http, &["--revisions", "2025-11-25"]).await;
    let world = TestConfig::start(legacy).await;
    let (own_token, other_token) = (world.token("mine"), world.token("other"));
    let bearer = |token: &str| {
        let capabilities = json!({"elicitation": {"form": {}}, "sampling": {}});
        let mut client = Modern::at(&world.gateway, "/servers/x/mcp").able(capabilities);
        client.http.token = Some(token.to_owned());
        client
    };
    let params = json!({"name": "ask_in_turn", "arguments": {}});
    let required_result = bearer(&own_token)
        .result("tools/call", params.clone())
        .await;
    let questions = required_result["inputRequests"]
        .as_object()
        .expect("questions");
    let (key, _) = questions.iter().next().expect("a question");
    let mut next_params = params;
    next_params["inputResponses"][key] = json!({"action": "accept", "content": {"name": "Ada"}});
    next_params["requestState"] = required_result["requestState"].clone();
    let (_, error) = bearer(&other_token)
        .error("tools/call", next_params.clone())
        .await;
    assert_eq!(error["code"], -32602, "{error}");
    let resumed_result = bearer(&own_token).result("tools/call", next_params).await;
    assert_eq!(
        resumed_result["resultType"], "input_required",
        "{resumed_result}"
    );
}

/// When a token is removed, its sessions and streams end, even on open connections.
#[tokio::test]
async fn a_removed_token_opens_nothing_any_more() {
    let world = TestConfig::new().await;
    let (own_token, other_token) = (world.token("mine"), world.token("other"));
    let mut client = world.client("/mcp", &own_token);
    client.initialize("2025-11-25").await;
    let mut remaining_client = world.client("/mcp", &other_token);
    remaining_client.initialize("2025-11-25").await;
    let sse = world.client("/sse", &own_token).listen().await;
    let (stream, mut remaining_stream) = (client.listen().await, remaining_client.listen().await);

    let mut connection = TcpStream::connect(world.gateway.address)
        .await
        .expect("accepted");
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
        authorization: Bearer {own_token}\r\ncontent-length: {}\r\n\r\n{PING}",
        PING.len()
    );
    let mut status = async || {
        connection.write_all(request.as_bytes()).await.ok();
        let mut buffer = [0; 2048];
        let length = soon("an answer", connection.read(&mut buffer))
            .await
            .unwrap_or_default();
        let answer = String::from_utf8_lossy(&buffer[..length]).into_owned();
        answer.split(' ').nth(1).unwrap_or("closed").to_owned()
    };
    // The token is accepted. The status is 400, because the request has no session.
    assert_eq!(status().await, "400");

    let rest = world.gateway.rest();
    let removed_response = rest.delete("/api/tokens/mine").await;
    assert_eq!(
        removed_response,
        (StatusCode::OK, json!({"success": true, "name": "mine"}))
    );
    assert_eq!(ping(&client).await, StatusCode::UNAUTHORIZED);
    assert!(["401", "closed"].contains(&status().await.as_str()));
    until_end(stream).await;
    until_end(sse).await;

    let second_removal = rest.delete("/api/tokens/mine").await;
    assert_eq!(
        (second_removal.0, &second_removal.1["error"]),
        (StatusCode::NOT_FOUND, &json!("token_not_found"))
    );
    remaining_client.call("x__change_tools", json!({})).await;
    assert_eq!(
        remaining_stream.message().await["method"],
        "notifications/tools/list_changed"
    );
}

/// When the first token is added, the sessions without a token end.
#[tokio::test]
async fn the_first_token_ends_what_was_opened_without() {
    let world = TestConfig::new().await;
    let client = world.gateway.client().await;
    let stream = client.listen().await;
    world.token("laptop");
    assert_eq!(ping(&client).await, StatusCode::UNAUTHORIZED);
    until_end(stream).await;
}

/// A client token opens only MCP. The control token opens everything (Q2).
#[tokio::test]
async fn clients_tokens_do_not_open_rest() {
    let world = TestConfig::new().await;
    let token = world.token("laptop");
    for (path, bearer_token, expected) in [
        ("/api/servers", token.as_str(), StatusCode::FORBIDDEN),
        ("/api/tokens", &token, StatusCode::FORBIDDEN),
        ("/api/servers", TOKEN, StatusCode::OK),
        ("/api/servers", "mst_x", StatusCode::UNAUTHORIZED),
    ] {
        let client = world.client(path, bearer_token);
        let headers = client.headers("application/json");
        let answer = client.send(Method::GET, headers, "").await.whole().await;
        assert_eq!(answer.status, expected, "{path}");
        if expected == StatusCode::FORBIDDEN {
            assert_eq!(answer.json()["error"], "forbidden");
            assert!(
                answer.text.contains("MCP tokens not permitted"),
                "{}",
                answer.text
            );
        }
    }
    let mut operator = world.client("/mcp", TOKEN);
    operator.initialize("2025-11-25").await;
    operator.assert_echo("x__echo").await;
}

/// Only the answer to the creation of a token contains its value (Q7).
#[tokio::test]
async fn tokens_are_made_and_listed_over_rest() {
    let world = TestConfig::new().await;
    let rest = world.gateway.rest();
    let (status, added_token) = rest
        .post("/api/tokens", json!({"name": "ci", "expiresInSeconds": 60}))
        .await;
    assert_eq!(status, StatusCode::OK, "{added_token}");
    let token = added_token["token"].as_str().expect("a token");
    assert!(token.starts_with("mst_") && token.len() == 68, "{token}");
    let mut client = world.client("/mcp", token);
    client.initialize("2025-11-25").await;

    let list = rest.get("/api/tokens").await;
    let listed_token = &list["tokens"][0];
    assert_eq!(
        (&listed_token["name"], &listed_token["expired"]),
        (&json!("ci"), &json!(false))
    );
    assert_eq!(
        (&listed_token["createdAt"], &listed_token["expiresAt"]),
        (&added_token["createdAt"], &added_token["expiresAt"])
    );
    assert!(!list.to_string().contains(token));

    for (body, status, error) in [
        (json!({}), 400, "missing_parameter"),
        (json!({"name": "a b"}), 400, "invalid_token_name"),
        (
            json!({"name": "x", "expiresInSeconds": 0}),
            400,
            "invalid_lifetime",
        ),
        (
            json!({"name": "x", "expiresInSeconds": u64::MAX}),
            400,
            "invalid_lifetime",
        ),
        (
            json!({"name": "x", "expiresInSeconds": -1}),
            400,
            "invalid_request",
        ),
        (json!({"name": "ci"}), 409, "token_exists"),
    ] {
        let (actual_status, answer) = rest.post("/api/tokens", body.clone()).await;
        assert_eq!(
            (actual_status.as_u16(), &answer["error"]),
            (status, &json!(error)),
            "{body}"
        );
    }
}

/// A rotation replaces the control token, and ends the sessions of the old one.
#[tokio::test]
async fn a_rotated_control_token_takes_over_at_once() {
    let world = TestConfig::new().await;
    let events = world.client("/api/events", TOKEN).listen().await;
    let (status, rotation) = world
        .gateway
        .rest()
        .post("/api/token/rotate", json!({}))
        .await;
    assert_eq!(status, StatusCode::OK, "{rotation}");
    let new_text = rotation["token"].as_str().expect("a token");
    for (token, expected) in [
        (TOKEN, StatusCode::UNAUTHORIZED),
        (new_text, StatusCode::OK),
    ] {
        let client = world.client("/api/servers", token);
        let headers = client.headers("application/json");
        assert_eq!(client.send(Method::GET, headers, "").await.status, expected);
    }
    until_end(events).await;
}

/// For a client with a token, the name of the token selects the switches. The name that the client
/// states does not count (A36).
#[tokio::test]
async fn a_client_with_a_token_has_the_switches_of_its_name() {
    let world = TestConfig::new().await;
    world.gateway.client().await.assert_echo("x__echo").await;
    let (laptop_token, other_token) = (world.token("laptop"), world.token("other"));
    let switch_body = json!({"server": "x", "enabled": false});
    let rest = world.gateway.rest();
    let (status, _) = rest.put("/api/switches/laptop", switch_body).await;
    assert_eq!(status, StatusCode::OK);
    for (token, is_off) in [(&laptop_token, true), (&other_token, false)] {
        let mut client = world.client("/mcp", token);
        client.initialize(LATEST).await;
        assert_eq!(client.tools().await.is_empty(), is_off);
    }
}
