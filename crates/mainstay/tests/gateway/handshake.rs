//! Handshakes in every legacy revision, with clients and with servers (E6, E8).

use fake_server::REVISIONS;
use http::StatusCode;
use serde_json::json;

use crate::{
    backend::{Backend, BackendKind},
    client::LATEST,
    gateway::Gateway,
};

over_every_transport! {
    /// The session uses the revision that the server answers (E6).
    async fn a_server_of_any_revision_is_greeted_and_called(kind) {
        for revision in REVISIONS {
            let flags = ["--revision", revision, "--check-protocol-header"];
            let backend = Backend::start(kind, &flags).await;
            let gateway = Gateway::with_servers(&[("x", &backend)]).await;
            gateway.client().await.assert_echo("x__echo").await;
            let direct = gateway.client_at("/servers/x/mcp").await;
            direct.assert_echo("echo").await;

            let methods: Vec<_> = backend
                .received()
                .iter()
                .map(|message| message["method"].clone())
                .collect();
            // HTTP+SSE exists in one era only, so Mainstay does not send `server/discover`.
            let discovers = usize::from(kind != BackendKind::Sse);
            assert_eq!(methods.iter().take_while(|method| *method == "server/discover").count(), discovers);
            let methods: Vec<_> = methods.into_iter().skip(discovers).collect();
            assert_eq!(methods[..2], ["initialize", "notifications/initialized"], "{revision}");
            assert!(!methods.contains(&json!("server/discover")), "{revision}");
        }
    }

    /// At `/servers/<name>/mcp`, `initialize` and its answer pass unchanged.
    async fn a_transparent_session_greets_with_the_clients_own_words(kind) {
        let backend = Backend::start(kind, &["--instructions", "be kind"]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for revision in REVISIONS {
            let mut client = gateway.stranger("/servers/x/mcp");
            let result = client.initialize(revision).await;
            assert_eq!(result["protocolVersion"], revision);
            assert_eq!(result["instructions"], "be kind");
            assert_eq!(result["serverInfo"]["name"], "fake-server");
            let text = client.call_text("client", json!({})).await;
            assert!(text.contains(r#""name":"tests""#), "{text}");
        }
    }
}

/// From 2025-06-18 on, requests after the handshake have the header `MCP-Protocol-Version`
/// (specification, "Transports").
#[tokio::test]
async fn the_version_header_goes_upstream_from_the_revision_that_knows_it() {
    for revision in REVISIONS {
        let backend = Backend::start(BackendKind::Http, &["--revision", revision]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        gateway.client().await.assert_echo("x__echo").await;
        let expected = (revision >= "2025-06-18").then_some(revision);
        backend
            .fake()
            .until(|requests| requests.iter().any(|request| request.verb == "GET"))
            .await;
        // Skip `initialize` and `server/discover`. The latter has a version of its own.
        for received_request in backend.fake().received().iter().skip(2) {
            let sent_version = received_request.headers.get("mcp-protocol-version");
            let sent_version = sent_version.map(|value| value.to_str().expect("ASCII"));
            assert_eq!(
                sent_version, expected,
                "{} {}",
                received_request.verb, received_request.body
            );
        }
    }
}

/// Mainstay accepts a revision that it knows. For an unknown revision it answers with the latest
/// one (specification, "Lifecycle").
#[tokio::test]
async fn the_aggregate_negotiates_with_its_clients() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let known_revisions = REVISIONS.map(|revision| (revision, revision));
    let unknown_revisions = [("1999-12-31", LATEST), ("2099-01-01", LATEST), ("", LATEST)];
    for (requested_revision, expected) in known_revisions.into_iter().chain(unknown_revisions) {
        let mut client = gateway.stranger("/mcp");
        let result = client.initialize(requested_revision).await;
        assert_eq!(result["protocolVersion"], expected);
        assert_eq!(result["serverInfo"]["name"], "mainstay");
        client.assert_echo("x__echo").await;

        let mut pipe = gateway.silent_pipe();
        assert_eq!(
            pipe.initialize(requested_revision).await["protocolVersion"],
            expected
        );
        pipe.assert_echo("x__echo").await;
    }
}

/// The aggregate's capabilities are those that Mainstay relays. Its instructions are those of the
/// servers, each with the server's name.
#[tokio::test]
async fn the_aggregate_says_what_it_relays_and_joins_instructions() {
    let first_backend = Backend::start(BackendKind::Http, &["--instructions", "first words"]).await;
    let second_backend =
        Backend::start(BackendKind::Sse, &["--instructions", "second words"]).await;
    let gateway = Gateway::with_servers(&[("one", &first_backend), ("two", &second_backend)]).await;
    let mut client = gateway.stranger("/mcp");
    let result = client.initialize(LATEST).await;
    let capabilities = &result["capabilities"];
    for list in ["tools", "prompts", "resources"] {
        assert_eq!(capabilities[list]["listChanged"], true, "{capabilities}");
    }
    assert_eq!(capabilities["resources"]["subscribe"], true);
    assert!(capabilities["logging"].is_object() && capabilities["completions"].is_object());
    let instructions = result["instructions"].as_str().expect("instructions");
    let places =
        ["# one", "first words", "# two", "second words"].map(|text| instructions.find(text));
    assert!(places.is_sorted() && places[0].is_some(), "{instructions}");
}

/// Before the handshake, all requests except pings fail (specification, "Lifecycle").
#[tokio::test]
async fn on_stdio_requests_wait_for_the_handshake() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let mut pipe = gateway.silent_pipe();
    assert!(pipe.ask("ping", "{}").await.contains(r#""result":{}"#));
    assert!(pipe.ask("tools/list", "{}").await.contains("-32600"));
    pipe.initialize(LATEST).await;
    pipe.assert_echo("x__echo").await;
}

/// Mainstay detects the transport of a URL, unless the entry sets `type`. The list of servers shows
/// the transport (Y13).
#[tokio::test]
async fn the_transport_behind_a_url_is_detected() {
    for (kind, transport) in [(BackendKind::Http, "http"), (BackendKind::Sse, "sse")] {
        let mut backend = Backend::start(kind, &[]).await;
        backend.entry = json!({"url": backend.fake().url()});
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        gateway.client().await.assert_echo("x__echo").await;
        assert_eq!(gateway.rest().server("x").await["transport"], transport);
    }
}

/// Every request has the configured headers. Without them, the status shows the server's 401 (E2,
/// E3).
#[tokio::test]
async fn a_server_that_asks_for_a_token_gets_it() {
    for kind in [BackendKind::Http, BackendKind::Sse] {
        let flags = ["--require-header", "authorization=Bearer t0ken"];
        let backend = Backend::start(kind, &flags)
            .await
            .option("bearerToken", "t0ken");
        let bare_backend = Backend::start(kind, &flags).await;
        let gateway = Gateway::with_servers(&[("x", &backend), ("bare", &bare_backend)]).await;
        let client = gateway.client().await;
        client.assert_echo("x__echo").await;
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

/// If the server refuses the handshake, a person has to act. The call fails at once with the
/// reason.
#[tokio::test]
async fn a_refused_handshake_is_passed_on() {
    let backend = Backend::start(BackendKind::Http, &["--initialize-error"]).await;
    let calm_backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend), ("calm", &calm_backend)]).await;
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
    gateway.client().await.assert_echo("calm__echo").await;
}
