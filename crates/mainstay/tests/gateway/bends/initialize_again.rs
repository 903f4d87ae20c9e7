//! Clients that send `initialize` although they have a session, or remember one. They get a new session.

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

/// Each endpoint, and the prefix of its tools.
const ENDPOINTS: [(&str, &str); 3] = [
    ("/mcp", "x__"),
    ("/mcp/narrow", "x__"),
    ("/servers/x/mcp", ""),
];

fn narrow() -> Value {
    json!({"profiles": {"narrow": {"servers": ["x"]}}})
}

async fn assert_echo(client: &Http, prefix: &str) {
    client.assert_echo(&format!("{prefix}echo")).await;
}

over_every_transport! {
    /// The client names an unknown id, an id of another endpoint, or an id that Mainstay did not make.
    async fn an_unknown_session_keeps_no_client_out(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_settings(&[("x", &backend)], narrow()).await;
        let elsewhere = gateway.client_at("/mcp/narrow").await.session;
        for (path, prefix) in ENDPOINTS {
            for remembered in [Some("of-another-program".to_owned()), elsewhere.clone()] {
                let mut client = gateway.stranger(path);
                client.session.clone_from(&remembered);
                client.initialize(LATEST).await;
                assert_ne!(client.session, remembered, "{path}");
                assert_echo(&client, prefix).await;
            }
        }
    }
}

/// The session that the client names continues: a call in it may be in flight, or another process may use it.
#[tokio::test]
async fn a_session_that_lives_is_left_alone_and_a_new_one_is_opened() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_settings(&[("x", &backend)], narrow()).await;
    for (path, prefix) in ENDPOINTS {
        let first = gateway.client_at(path).await;
        let params = json!({"name": format!("{prefix}sleep"), "arguments": {"ms": 300}});
        let slow = first.request_text("tools/call", &params.to_string());
        let slow = first.post(slow);
        let again = async {
            backend.until_called("sleep").await;
            let mut again = gateway.stranger(path);
            again.session.clone_from(&first.session);
            again.initialize(LATEST).await;
            assert_ne!(again.session, first.session, "{path}");
            assert_echo(&again, prefix).await;
        };
        let (answer, ()) = soon("both", async { tokio::join!(slow, again) }).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        assert_echo(&first, prefix).await;
    }
}

/// A session of an earlier run is treated alike.
#[tokio::test]
async fn a_session_of_an_earlier_run_keeps_no_client_out() {
    let backend = Backend::http().await;
    let config = config(&[("x", &backend)], narrow());
    let options = || DaemonOptions {
        session_key: Some(Secret::new("a key that is kept")),
        ..DaemonOptions::default()
    };
    for (path, prefix) in ENDPOINTS {
        let first = Gateway::with_options(&config, options()).await;
        let remembered = first.client_at(path).await.session;
        first.stop().await;
        let second = Gateway::with_options(&config, options()).await;
        let mut client = second.stranger(path);
        client.session.clone_from(&remembered);
        client.initialize(LATEST).await;
        assert_ne!(client.session, remembered, "{path}");
        assert_echo(&client, prefix).await;
        second.stop().await;
    }
}

/// A stream has one session. A new one ends the old one with its calls, which get no answers.
#[tokio::test]
async fn on_stdio_the_session_before_ends() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let mut pipe = gateway.pipe().await;
    let slow = json!({"name": "x__hang", "arguments": {}}).to_string();
    let slow = pipe.begin("tools/call", &slow).await;
    backend.until_called("hang").await;
    let greeting = pipe.initialize("2025-06-18").await;
    assert_eq!(greeting["protocolVersion"], "2025-06-18");
    until("the cancellation", || backend.given_up() == 1).await;
    pipe.assert_echo("x__echo").await;
    assert_eq!(gateway.sessions(), 1);
    // The cancellation of an ended call has no effect.
    pipe.send(cancelled(&slow)).await;
    pipe.assert_echo("x__echo").await;
    let mut messages = std::mem::take(&mut pipe.other_messages);
    messages.extend(pipe.close().await);
    assert!(
        messages.iter().all(|message| message["id"] != slow),
        "{messages:?}"
    );
    until("no session", || gateway.sessions() == 0).await;
}

over_every_transport! {
    async fn on_an_event_stream_the_session_before_ends(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for (calls, (path, prefix)) in [(1, ("/sse", "x__")), (2, ("/servers/x/sse", ""))] {
            let mut client = Sse::greeted(&gateway, path).await;
            client.begin(&format!("{prefix}hang"), json!({"arguments": {}})).await;
            until("the call", || backend.runs("hang") == calls).await;
            client.initialize(LATEST).await;
            if !prefix.is_empty() {
                until("the cancellation", || backend.given_up() == calls).await;
            }
            // The client's own upstream session has ended, and its call, too.
            client.assert_echo(&format!("{prefix}echo")).await;
            assert_eq!(gateway.sessions(), 1, "{path}");
            drop(client);
            until("no session", || gateway.sessions() == 0).await;
        }
    }
}

/// The session of another client is not touched.
#[tokio::test]
async fn a_foreign_session_keeps_no_client_out() {
    let backend = Backend::http().await;
    let tokens = Tokens::from(Secret::new(TOKEN));
    let all = config(&[("x", &backend)], narrow());
    let options = GatewayOptions::default();
    let gateway = Gateway::guarded(&all, options, tokens.clone(), |address| address).await;
    let client = |path: &str, name: &str| {
        let mut client = gateway.stranger(path);
        let (token, _) = tokens.add(name, None).expect("added");
        client.token = Some(token.expose().to_owned());
        client
    };
    for (number, (path, prefix)) in ENDPOINTS.into_iter().enumerate() {
        let mut mine = client(path, &format!("mine-{number}"));
        mine.initialize(LATEST).await;
        let mut other = client(path, &format!("other-{number}"));
        other.session.clone_from(&mine.session);
        other.initialize(LATEST).await;
        assert_ne!(other.session, mine.session, "{path}");
        assert_echo(&other, prefix).await;
        assert_echo(&mine, prefix).await;
    }
}

/// Revision 2025-03-26, "Lifecycle": a batch must not contain `initialize`.
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
