//! Clients that send `initialize` together with a session id. They always get a new session.

use http::StatusCode;
use mainstay::daemon::DaemonOptions;
use mainstay_core::config::Secret;
use mainstay_gateway::GatewayOptions;
use mainstay_tokens::Tokens;
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, LATEST, cancelled},
    gateway::{Gateway, config, soon, until},
    rest_client::TOKEN,
    sse::Sse,
};

/// The endpoints, each with the prefix of its tools.
const ENDPOINTS: [(&str, &str); 3] = [
    ("/mcp", "x__"),
    ("/mcp/narrow", "x__"),
    ("/servers/x/mcp", ""),
];

fn narrow_settings() -> Value {
    json!({"profiles": {"narrow": {"servers": ["x"]}}})
}

async fn assert_echo(client: &Http, prefix: &str) {
    client.assert_echo(&format!("{prefix}echo")).await;
}

over_every_transport! {
    /// The client sends an unknown session id, or an id that belongs to another endpoint.
    async fn an_unknown_session_keeps_no_client_out(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_settings(&[("x", &backend)], narrow_settings()).await;
        let other_client = gateway.client_at("/mcp/narrow").await.session;
        for (path, prefix) in ENDPOINTS {
            for remembered_session in [Some("of-another-program".to_owned()), other_client.clone()] {
                let mut client = gateway.stranger(path);
                client.session.clone_from(&remembered_session);
                client.initialize(LATEST).await;
                assert_ne!(client.session, remembered_session, "{path}");
                assert_echo(&client, prefix).await;
            }
        }
    }
}

/// The old session continues, because another process of the client may use it.
#[tokio::test]
async fn a_session_that_lives_is_left_alone_and_a_new_one_is_opened() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_settings(&[("x", &backend)], narrow_settings()).await;
    for (path, prefix) in ENDPOINTS {
        let first = gateway.client_at(path).await;
        let params = json!({"name": format!("{prefix}sleep"), "arguments": {"ms": 300}});
        let slow_result = first.request_text("tools/call", &params.to_string());
        let slow_result = first.post(slow_result);
        let second_greeting = async {
            backend.until_called("sleep").await;
            let mut second_greeting = gateway.stranger(path);
            second_greeting.session.clone_from(&first.session);
            second_greeting.initialize(LATEST).await;
            assert_ne!(second_greeting.session, first.session, "{path}");
            assert_echo(&second_greeting, prefix).await;
        };
        let (answer, ()) = soon("both", async { tokio::join!(slow_result, second_greeting) }).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        assert_echo(&first, prefix).await;
    }
}

/// The client sends a session id from an earlier run of Mainstay.
#[tokio::test]
async fn a_session_of_an_earlier_run_keeps_no_client_out() {
    let backend = Backend::http().await;
    let config = config(&[("x", &backend)], narrow_settings());
    let options = || DaemonOptions {
        session_key: Some(Secret::new("a key that is kept")),
        ..DaemonOptions::default()
    };
    for (path, prefix) in ENDPOINTS {
        let first = Gateway::with_options(&config, options()).await;
        let remembered_client = first.client_at(path).await.session;
        first.stop().await;
        let second_gateway = Gateway::with_options(&config, options()).await;
        let mut client = second_gateway.stranger(path);
        client.session.clone_from(&remembered_client);
        client.initialize(LATEST).await;
        assert_ne!(client.session, remembered_client, "{path}");
        assert_echo(&client, prefix).await;
        second_gateway.stop().await;
    }
}

/// A pipe has only one session. A new session ends the old one, and calls of the old session are
/// not answered.
#[tokio::test]
async fn a_new_session_on_stdio_ends_the_old_one() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let mut pipe = gateway.pipe().await;
    let slow_text = json!({"name": "x__hang", "arguments": {}}).to_string();
    let slow_text = pipe.begin("tools/call", &slow_text).await;
    backend.until_called("hang").await;
    let greeting_answer = pipe.initialize("2025-06-18").await;
    assert_eq!(greeting_answer["protocolVersion"], "2025-06-18");
    until("the cancellation", || backend.cancelled_count() == 1).await;
    pipe.assert_echo("x__echo").await;
    assert_eq!(gateway.sessions(), 1);
    // Cancelling a call that has ended has no effect.
    pipe.send(cancelled(&slow_text)).await;
    pipe.assert_echo("x__echo").await;
    let mut messages = std::mem::take(&mut pipe.other_messages);
    messages.extend(pipe.close().await);
    assert!(
        messages.iter().all(|message| message["id"] != slow_text),
        "{messages:?}"
    );
    until("no session", || gateway.sessions() == 0).await;
}

over_every_transport! {
    async fn a_new_session_on_an_event_stream_ends_the_old_one(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for (calls, (path, prefix)) in [(1, ("/sse", "x__")), (2, ("/servers/x/sse", ""))] {
            let mut client = Sse::greeted(&gateway, path).await;
            client.begin(&format!("{prefix}hang"), json!({"arguments": {}})).await;
            until("the call", || backend.runs("hang") == calls).await;
            client.initialize(LATEST).await;
            if !prefix.is_empty() {
                until("the cancellation", || backend.cancelled_count() == calls).await;
            }
            // The client's upstream session has ended together with the call.
            client.assert_echo(&format!("{prefix}echo")).await;
            assert_eq!(gateway.sessions(), 1, "{path}");
            drop(client);
            until("no session", || gateway.sessions() == 0).await;
        }
    }
}

/// The client sends the session id of another client. The other session continues.
#[tokio::test]
async fn a_foreign_session_keeps_no_client_out() {
    let backend = Backend::http().await;
    let tokens = Tokens::from(Secret::new(TOKEN));
    let config_json = config(&[("x", &backend)], narrow_settings());
    let options = GatewayOptions::default();
    let gateway = Gateway::guarded(&config_json, options, tokens.clone(), |address| address).await;
    let client = |path: &str, name: &str| {
        let mut client = gateway.stranger(path);
        let (token, _) = tokens.add(name, None).expect("added");
        client.token = Some(token.expose().to_owned());
        client
    };
    for (number, (path, prefix)) in ENDPOINTS.into_iter().enumerate() {
        let mut own_client = client(path, &format!("mine-{number}"));
        own_client.initialize(LATEST).await;
        let mut other_client = client(path, &format!("other-{number}"));
        other_client.session.clone_from(&own_client.session);
        other_client.initialize(LATEST).await;
        assert_ne!(other_client.session, own_client.session, "{path}");
        assert_echo(&other_client, prefix).await;
        assert_echo(&own_client, prefix).await;
    }
}

/// A batch must not contain `initialize` (revision 2025-03-26, "Lifecycle").
#[tokio::test]
async fn a_batch_opens_no_session() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let mut client = gateway.stranger("/mcp");
    client.initialize("2025-03-26").await;
    let initialize = crate::client::initialize(LATEST);
    let answer = client.post(format!("[{initialize}]")).await;
    assert!(
        answer.text.contains("stands in no batch"),
        "{}",
        answer.text
    );
}
