//! The handshake at every legacy revision, on both sides (E6, E8).

use fake_server::REVISIONS;
use http::StatusCode;
use serde_json::json;

use crate::{
    backend::{Backend, Kind},
    client::LATEST,
    gateway::Gateway,
};

over_every_transport! {
    /// E6: whatever revision a server answers with is spoken from then on.
    async fn a_server_of_any_revision_is_greeted_and_called(kind) {
        for revision in REVISIONS {
            let flags = ["--revision", revision, "--check-protocol-header"];
            let backend = Backend::start(kind, &flags).await;
            let gateway = Gateway::of(&[("x", &backend)]).await;
            gateway.client().await.hears("x__echo").await;
            let own = gateway.client_at("/servers/x/mcp").await;
            own.hears("echo").await;

            let methods: Vec<_> = backend
                .received()
                .iter()
                .map(|message| message["method"].clone())
                .collect();
            // That transport has no other era to ask for.
            let asked = usize::from(kind != Kind::Sse);
            assert_eq!(methods.iter().take_while(|method| *method == "server/discover").count(), asked);
            let methods: Vec<_> = methods.into_iter().skip(asked).collect();
            assert_eq!(methods[..2], ["initialize", "notifications/initialized"], "{revision}");
            assert!(!methods.contains(&json!("server/discover")), "{revision}");
        }
    }

    /// `/servers/<name>/mcp`: the server's own answer, asked for with what the client declared.
    async fn a_transparent_session_greets_with_the_clients_own_words(kind) {
        let backend = Backend::start(kind, &["--instructions", "be kind"]).await;
        let gateway = Gateway::of(&[("x", &backend)]).await;
        for revision in REVISIONS {
            let mut client = gateway.stranger("/servers/x/mcp");
            let result = client.initialize(revision).await;
            assert_eq!(result["protocolVersion"], revision);
            assert_eq!(result["instructions"], "be kind");
            assert_eq!(result["serverInfo"]["name"], "fake-server");
            let said = client.say("client", json!({})).await;
            assert!(said.contains(r#""name":"tests""#), "{said}");
        }
    }
}

/// Specification, transports: `MCP-Protocol-Version` on every request after the handshake, from
/// 2025-06-18 on.
#[tokio::test]
async fn the_version_header_goes_upstream_from_the_revision_that_knows_it() {
    for revision in REVISIONS {
        let backend = Backend::start(Kind::Http, &["--revision", revision]).await;
        let gateway = Gateway::of(&[("x", &backend)]).await;
        gateway.client().await.hears("x__echo").await;
        let expected = (revision >= "2025-06-18").then_some(revision);
        backend
            .fake()
            .until(|all| all.iter().any(|it| it.verb == "GET"))
            .await;
        // Before: `server/discover`, which has a version of its own, and `initialize`.
        for received in backend.fake().received().iter().skip(2) {
            let sent = received.headers.get("mcp-protocol-version");
            let sent = sent.map(|value| value.to_str().expect("ASCII"));
            assert_eq!(sent, expected, "{} {}", received.verb, received.body);
        }
    }
}

/// Specification, lifecycle: a known revision is mirrored, an unknown one answered with the latest.
#[tokio::test]
async fn the_aggregate_negotiates_with_its_clients() {
    let backend = Backend::http().await;
    let gateway = Gateway::of(&[("x", &backend)]).await;
    let asked = REVISIONS.map(|revision| (revision, revision));
    let unknown = [("1999-12-31", LATEST), ("2099-01-01", LATEST), ("", LATEST)];
    for (requested, expected) in asked.into_iter().chain(unknown) {
        let mut client = gateway.stranger("/mcp");
        let result = client.initialize(requested).await;
        assert_eq!(result["protocolVersion"], expected);
        assert_eq!(result["serverInfo"]["name"], "mainstay");
        client.hears("x__echo").await;

        let mut pipe = gateway.silent_pipe();
        assert_eq!(
            pipe.initialize(requested).await["protocolVersion"],
            expected
        );
        pipe.hears("x__echo").await;
    }
}

/// Capabilities are what can be relayed, instructions stand under their names.
#[tokio::test]
async fn the_aggregate_says_what_it_relays_and_joins_instructions() {
    let one = Backend::start(Kind::Http, &["--instructions", "first words"]).await;
    let two = Backend::start(Kind::Sse, &["--instructions", "second words"]).await;
    let gateway = Gateway::of(&[("one", &one), ("two", &two)]).await;
    let mut client = gateway.stranger("/mcp");
    let result = client.initialize(LATEST).await;
    let capabilities = &result["capabilities"];
    for list in ["tools", "prompts", "resources"] {
        assert_eq!(capabilities[list]["listChanged"], true, "{capabilities}");
    }
    assert_eq!(capabilities["resources"]["subscribe"], true);
    assert!(capabilities["logging"].is_object() && capabilities["completions"].is_object());
    let instructions = result["instructions"].as_str().expect("instructions");
    let places = ["# one", "first words", "# two", "second words"].map(|it| instructions.find(it));
    assert!(places.is_sorted() && places[0].is_some(), "{instructions}");
}

/// Specification, lifecycle: only pings before the handshake.
#[tokio::test]
async fn on_stdio_requests_wait_for_the_handshake() {
    let backend = Backend::http().await;
    let gateway = Gateway::of(&[("x", &backend)]).await;
    let mut pipe = gateway.silent_pipe();
    assert!(pipe.ask("ping", "{}").await.contains(r#""result":{}"#));
    assert!(pipe.ask("tools/list", "{}").await.contains("-32600"));
    pipe.initialize(LATEST).await;
    pipe.hears("x__echo").await;
}

/// Y13: a URL without a pinned transport is detected, and the server is listed with what was found.
#[tokio::test]
async fn the_transport_behind_a_url_is_detected() {
    for (kind, transport) in [(Kind::Http, "http"), (Kind::Sse, "sse")] {
        let mut backend = Backend::start(kind, &[]).await;
        backend.entry = json!({"url": backend.fake().url()});
        let gateway = Gateway::of(&[("x", &backend)]).await;
        gateway.client().await.hears("x__echo").await;
        assert_eq!(gateway.rest().server("x").await["transport"], transport);
    }
}

/// E2, E3: configured headers go with every request; without them the server says 401, and so do we.
#[tokio::test]
async fn a_server_that_asks_for_a_token_gets_it() {
    for kind in [Kind::Http, Kind::Sse] {
        let flags = ["--require-header", "authorization=Bearer t0ken"];
        let backend = Backend::start(kind, &flags)
            .await
            .option("bearerToken", "t0ken");
        let bare = Backend::start(kind, &flags).await;
        let gateway = Gateway::of(&[("x", &backend), ("bare", &bare)]).await;
        let client = gateway.client().await;
        client.hears("x__echo").await;
        let error = client
            .error("tools/call", json!({"name": "bare__echo"}))
            .await;
        let message = error["message"].as_str().expect("words");
        assert!(
            message.contains("401") && message.contains("bare"),
            "{message}"
        );
    }
}

/// Only a person can help where a handshake is refused, so the client hears why at once.
#[tokio::test]
async fn a_refused_handshake_is_passed_on() {
    let backend = Backend::start(Kind::Http, &["--initialize-error"]).await;
    let calm = Backend::http().await;
    let gateway = Gateway::of(&[("x", &backend), ("calm", &calm)]).await;
    let response = gateway
        .stranger("/servers/x/mcp")
        .post(crate::client::initialize(LATEST))
        .await;
    assert_eq!(response.status, StatusCode::OK);
    assert!(
        response.text.contains("refuses to initialize"),
        "{}",
        response.text
    );
    gateway.client().await.hears("calm__echo").await;
}
