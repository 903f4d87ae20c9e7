//! Servers that lose or refuse sessions, require cookies, or redirect requests.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::failure,
    gateway::{Gateway, until},
    rest_client::{health_checks, prompt_retry},
};

const PROBE_INTERVAL: Duration = Duration::from_millis(100);

/// Bends that determine how a server refuses an unknown session.
const LOST_SESSION_BENDS: [&str; 7] = [
    "",
    "--bend=lost-session400",
    "--bend=lost-session400-text",
    "--bend=lost-session410",
    "--bend=lost-session500",
    "--bend=lost-session200",
    "--bend=lost-session200-null",
];

/// Each bend over HTTP+SSE, where the response to a POST is empty, and over Streamable HTTP.
fn lost_sessions() -> impl Iterator<Item = (BackendKind, &'static str)> {
    let bends_of_kind = |kind| LOST_SESSION_BENDS.into_iter().map(move |bend| (kind, bend));
    let sse = bends_of_kind(BackendKind::Sse).filter(|(_, bend)| !bend.contains("200"));
    bends_of_kind(BackendKind::Http).chain(sse)
}

async fn start(kind: BackendKind, bend: &str) -> Backend {
    let flags: Vec<_> = [bend].into_iter().filter(|bend| !bend.is_empty()).collect();
    Backend::start(kind, &flags).await
}

/// Mainstay opens a new session. It sends a call again only if the call cannot have run.
#[tokio::test]
async fn a_lost_session_is_found_out_however_it_is_refused() {
    for (kind, bend) in lost_sessions() {
        let can_have_run = bend.ends_with("500");
        for (path, prefix) in [("/mcp", "x__"), ("/servers/x/mcp", "")] {
            let backend = start(kind, bend).await.option("reconnect", prompt_retry());
            let gateway = Gateway::with_servers(&[("x", &backend)]).await;
            let client = gateway.client_at(path).await;
            let echo = format!("{prefix}echo");
            client.assert_echo(&echo).await;
            let (greeting_count, runs) = (backend.count("initialize"), backend.runs("echo"));
            backend.fake().lose_sessions();
            let result = client.call(&echo, json!({"text": "hello"})).await;
            if can_have_run {
                assert_eq!(
                    failure(&result)["kind"],
                    "outcome_unknown",
                    "{bend}: {result}"
                );
            } else {
                assert_eq!(
                    result["content"][0]["text"], "hello",
                    "{kind:?} {bend}: {result}"
                );
                assert_eq!(backend.runs("echo"), runs + 1, "{kind:?} {bend}");
            }
            client.assert_echo(&echo).await;
            assert!(
                backend.count("initialize") > greeting_count,
                "{kind:?} {bend}"
            );
        }
    }
}

/// Twenty calls in a lost session open only one new session.
#[tokio::test]
async fn a_lost_session_is_renewed_once_for_all_calls() {
    let backend = start(BackendKind::Http, "--bend=lost-session400").await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    client.assert_echo("x__echo").await;
    backend.fake().lose_sessions();
    futures_util::future::join_all((0..20).map(|_| client.assert_echo("x__echo"))).await;
    assert_eq!(backend.count("initialize"), 2);
    assert_eq!(backend.runs("echo"), 21);
}

/// Mainstay detects the lost session by a refused ping.
#[tokio::test]
async fn a_probe_finds_a_lost_session_out() {
    for (kind, bend) in lost_sessions() {
        let backend = start(kind, bend).await;
        let backend = backend
            .option("health", health_checks(PROBE_INTERVAL, "verify"))
            .option("reconnect", prompt_retry());
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        gateway.rest().until_status("x", "connected").await;
        let greeted_count = backend.count("initialize");
        backend.fake().lose_sessions();
        until(&format!("{kind:?} {bend}: a new session"), || {
            backend.count("initialize") > greeted_count
        })
        .await;
    }
}

over_every_transport! {
    /// A server that refuses `ping` but answers list requests keeps its session.
    async fn a_server_that_refuses_pings_keeps_its_session(kind) {
        let mut health = health_checks(PROBE_INTERVAL, "reconnect");
        health["threshold"] = json!(1);
        let backend = Backend::start(kind, &["--bend=refused-ping"]).await;
        let backend = backend.option("health", health);
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        backend.until_count("ping", 5).await;
        let server = gateway.rest().server("x").await;
        assert_eq!(server["healthStatus"], "healthy", "{server}");
        assert_eq!(backend.count("initialize"), 1);
    }
}

/// A tool error does not end the session, even if its text is that of a lost session.
#[tokio::test]
async fn a_refused_call_of_a_living_session_fails_alone() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    client.assert_echo("x__echo").await;
    for (status, body) in [
        (
            400,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}"#,
        ),
        (400, "bad arguments"),
        (500, "it broke"),
    ] {
        backend.fake().edit(|script| {
            script.status = Some(status);
            script.status_times = Some(1);
            script.status_body = Some(body.to_owned());
        });
        let answer = client
            .request(
                "tools/call",
                json!({"name": "x__echo", "arguments": {"text": "a"}}),
            )
            .await;
        let is_failed = answer["error"].is_object() || answer["result"]["isError"] == true;
        assert!(is_failed, "{status} {body}: {answer}");
        client.assert_echo("x__echo").await;
    }
    assert_eq!(backend.count("initialize"), 1);
}

/// Every request of a session sends the cookies back, because load balancers route by cookie.
#[tokio::test]
async fn cookies_go_back_with_every_request_of_a_session() {
    for kind in [BackendKind::Http, BackendKind::Sse] {
        let backend = Backend::start(kind, &["--bend=sticky-cookie"]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        client.assert_echo("x__echo").await;
        until("the stream upstream", || backend.fake().streams() == 1).await;
        client.assert_echo("x__echo").await;
        assert_eq!(backend.count("initialize"), 1, "{kind:?}");
    }
}

/// Redirects during a session follow the same rules as redirects at the start.
#[tokio::test]
async fn redirects_within_a_session_are_followed() {
    for kind in [BackendKind::Http, BackendKind::Sse] {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        client.assert_echo("x__echo").await;
        backend
            .fake()
            .edit(|script| script.bends.push(fake_server::Bend::SessionRedirect));
        for _ in 0..3 {
            client.assert_echo("x__echo").await;
        }
        client.tools().await;
        assert_eq!(backend.runs("echo"), 4, "{kind:?}");
        assert_eq!(backend.count("initialize"), 1, "{kind:?}");
        let is_moved = |request: &fake_server::Received| request.path.contains("moved");
        // Mainstay remembers a redirect, so only the first request to each path is redirected.
        let received = backend.fake().received();
        let calls = received
            .iter()
            .filter(|request| request.method().as_deref() == Some("tools/call"));
        assert_eq!(calls.filter(|call| is_moved(call)).count(), 3, "{kind:?}");
    }
}

/// A redirect to another origin is refused. The error names the target.
#[tokio::test]
async fn a_redirect_to_another_origin_is_named() {
    let backend = Backend::http()
        .await
        .option("health", health_checks(PROBE_INTERVAL, "verify"));
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    client.assert_echo("x__echo").await;
    backend.fake().edit(|script| {
        script.status = Some(307);
        script.location = Some("http://127.0.0.2:1/mcp".to_owned());
    });
    let result = client.call("x__echo", json!({"text": "a"})).await;
    let message = failure(&result).to_string() + &result["content"].to_string();
    assert!(message.contains("127.0.0.2:1/mcp"), "{result}");
    let is_named = |server: &Value| {
        let reason = server["lastError"].as_str().unwrap_or_default();
        reason.contains("127.0.0.2:1/mcp") && reason.contains("`url`")
    };
    gateway.rest().until("x", "the reason", is_named).await;
}

/// A list request that fails for another reason does not end the session. The server is then
/// degraded, and its status has the reason.
#[tokio::test]
async fn a_list_that_fails_loses_no_session() {
    for kind in [BackendKind::Http, BackendKind::Sse, BackendKind::Stdio] {
        let backend = Backend::start(kind, &["--bend=list-error"]).await;
        let backend = backend.option("protocol", "legacy");
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let is_degraded = |server: &Value| {
            let reason = server["lastError"].as_str().unwrap_or_default();
            server["healthStatus"] == "degraded" && reason.contains("the disk is full")
        };
        gateway.rest().until("x", "degraded", is_degraded).await;
        let direct = gateway.client_at("/servers/x/mcp").await;
        direct.assert_echo("echo").await;
        let error = direct.error("tools/list", json!({})).await;
        assert_eq!(error["code"], -32603, "{error}");
        let greeted_count = backend.count("initialize");
        // At most one handshake for the shared session and one for the isolated session.
        assert!(greeted_count <= 2, "{kind:?}: {greeted_count}");
    }
}

/// If an error has a code of the server's own, it may be the result of the call. The call is not
/// repeated.
#[tokio::test]
async fn a_call_that_failed_by_name_is_not_sent_again() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client_at("/servers/x/mcp").await;
    client.assert_echo("echo").await;
    let error = r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"Connection closed"}}"#;
    backend.fake().edit(|script| {
        script.status = Some(200);
        script.status_body = Some(error.to_owned());
    });
    let call = json!({"name": "count", "arguments": {"text": "a"}});
    client.request("tools/call", call).await;
    assert_eq!(backend.calls_of("count").len(), 1);
}

/// A redirect of GET does not affect POST.
#[tokio::test]
async fn a_redirect_of_the_stream_leaves_calls_alone() {
    let backend = Backend::start(BackendKind::Http, &["--bend=stream-redirect"]).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    until("the stream", || backend.fake().streams() == 1).await;
    gateway.client().await.assert_echo("x__echo").await;
    let received_requests = backend.fake().received();
    let mut posts = received_requests
        .iter()
        .filter(|request| request.verb == "POST");
    assert!(
        posts.all(|post| post.path == "/mcp"),
        "{received_requests:#?}"
    );
    assert_eq!(backend.count("initialize"), 1);
}

/// Some servers answer list requests without a session, but refuse calls. Mainstay opens a new
/// session for them.
#[tokio::test]
async fn a_session_in_which_every_call_is_refused_is_not_kept() {
    let backend = Backend::start(BackendKind::Http, &["--bend=calls-refused"]).await;
    let backend = backend.option("reconnect", prompt_retry());
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    for _ in 0..3 {
        client
            .request(
                "tools/call",
                json!({"name": "x__echo", "arguments": {"text": "a"}}),
            )
            .await;
    }
    client.assert_echo("x__echo").await;
    assert_eq!(backend.count("initialize"), 2);
}

/// A server without session ids may still lose its clients. If it says so, Mainstay sends
/// `initialize` again.
#[tokio::test]
async fn a_server_without_session_ids_is_greeted_anew_when_it_says_so() {
    let backend = Backend::start(BackendKind::Http, &["--stateless", "--no-get"]).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    client.assert_echo("x__echo").await;
    let error =
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Server not initialized"}}"#;
    backend.fake().edit(|script| {
        script.status = Some(200);
        // The status answers the call, and the list request that confirms the loss.
        script.status_times = Some(2);
        script.status_body = Some(error.to_owned());
    });
    client.assert_echo("x__echo").await;
    assert_eq!(backend.count("initialize"), 2);
}

over_every_transport! {
    /// A server that answers every call with "not initialized" is degraded, even if its lists work.
    async fn a_server_that_says_it_is_not_initialized_is_not_well(kind) {
        let backend = Backend::start(kind, &["--bend=uninitialized"]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        for _ in 0..3 {
            client.request("tools/call", json!({"name": "x__echo"})).await;
        }
        let is_named = |server: &Value| {
            let reason = server["lastError"].as_str().unwrap_or_default();
            let is_well = server["status"] == "connected" && server["healthStatus"] == "healthy";
            !is_well && reason.contains("not initialized")
        };
        gateway.rest().until("x", "not well", is_named).await;
    }
}

/// Some HTTP+SSE servers put the answer into the response to the POST.
#[tokio::test]
async fn an_answer_in_the_body_of_a_post_is_one() {
    let backend = Backend::start(BackendKind::Sse, &["--bend=answer-in-post"]).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    gateway.client().await.assert_echo("x__echo").await;
    assert_eq!(backend.count("initialize"), 1);
}
