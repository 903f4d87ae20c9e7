//! Servers that are lost and return (G8, G9, G19, K9, W5, W14).

use mainstay_doorway::json_views::servers::{Disclosure, details};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, failure},
    gateway::{Gateway, until},
};

pub async fn pid(client: &Http, tool: &str) -> String {
    client.call_text(tool, json!({})).await
}

pub fn kill(pid: &str) {
    let pid = pid
        .parse()
        .ok()
        .and_then(Pid::from_raw)
        .expect("a process id");
    kill_process(pid, Signal::KILL).expect("it lives");
}

/// A call to a lost server starts it again (G8).
#[tokio::test]
async fn a_killed_server_is_back_for_the_next_call() {
    let (backend, calm_backend) = (Backend::stdio().await, Backend::stdio().await);
    let gateway = Gateway::with_servers(&[("x", &backend), ("calm", &calm_backend)]).await;
    let client = gateway.client().await;
    let calm_pid = pid(&client, "calm__pid").await;
    for round in 1..=2 {
        let previous_pid = pid(&client, "x__pid").await;
        kill(&previous_pid);
        // If the call was sent before Mainstay noticed the loss, its outcome is unknown. The next
        // call succeeds.
        let mut result = client.call("x__pid", json!({})).await;
        if result["isError"] == true {
            assert_eq!(failure(&result)["kind"], "outcome_unknown", "{result}");
            result = client.call("x__pid", json!({})).await;
        }
        assert_ne!(crate::client::text(&result), previous_pid);
        assert!(result["isError"].is_null(), "{result}");
        assert_eq!(backend.count("initialize"), 1 + round);
        assert_eq!(pid(&client, "calm__pid").await, calm_pid);
    }
}

/// A call may fail before the supervisor notices the loss. Its error already says whether the
/// server is tried again.
#[tokio::test]
async fn a_loss_that_is_not_noticed_yet_says_whether_it_is_tried_again() {
    let auto = Backend::start(BackendKind::Http, &["--no-get"]).await;
    let unreached_backend = Backend::start(BackendKind::Http, &["--no-get"]).await;
    let unreached_backend = unreached_backend.option("autoReconnect", false);
    let gateway = Gateway::with_servers(&[("auto", &auto), ("never", &unreached_backend)]).await;
    let rest = gateway.rest();
    for (name, backend, is_retried) in [("auto", &auto, true), ("never", &unreached_backend, false)]
    {
        let server = gateway.registry().server(name).expect("it is there");
        let server_details = || details(gateway.registry(), &server, Disclosure::Operator);
        let mut rounds = 0;
        loop {
            rest.until_status(name, "connected").await;
            let session = server.live_session().expect("it is connected");
            assert!(!server_details().retried, "{name}");
            backend.fake().expire_sessions();
            // The runtime has one thread, so the supervisor cannot run between the answer and this
            // check.
            let answer = session.ask(session.probe(), None).await;
            let current_details = server_details();
            answer.expect_err("the session has expired");
            assert!(session.is_over(), "{name}");
            assert_eq!(
                current_details.retried, is_retried,
                "{name}: {current_details:?}"
            );
            if current_details.status == "connected" {
                break;
            }
            rounds += 1;
            assert!(
                rounds < 100,
                "the supervisor is always quicker: {current_details:?}"
            );
            rest.done(name, "reconnect").await;
        }
    }
}

/// A lost server reconnects even without a call. Its tools stay listed.
#[tokio::test]
async fn a_killed_server_comes_back_by_itself() {
    let backend = Backend::stdio().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    let tools = client.tools().await;
    kill(&pid(&client, "x__pid").await);
    until("a second process", || {
        backend.count("notifications/initialized") == 2
    })
    .await;
    assert_eq!(client.tools().await, tools);
    client.assert_echo("x__echo").await;
}

/// With `autoReconnect: false`, a call fails with the reason of the loss.
#[tokio::test]
async fn a_server_that_is_not_to_come_back_stays_away() {
    let backend = Backend::stdio().await.option("autoReconnect", false);
    let calm_backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend), ("calm", &calm_backend)]).await;
    let client = gateway.client().await;
    kill(&pid(&client, "x__pid").await);
    let lost_call = async || {
        let response = client
            .request("tools/call", json!({"name": "x__pid"}))
            .await;
        match response["error"]["data"].clone() {
            Value::Null => failure(&response["result"]).clone(),
            data => data,
        }
    };
    let mut failure = lost_call().await;
    if failure["kind"] == "outcome_unknown" {
        failure = lost_call().await;
    }
    // The tool may already have been removed from the catalog.
    let kinds = ["server_not_connected", "tool_not_found"];
    assert!(
        kinds.contains(&failure["kind"].as_str().unwrap_or_default()),
        "{failure}"
    );
    assert_eq!(failure["status"], "crashed", "{failure}");
    assert!(
        failure["lastError"]
            .as_str()
            .is_some_and(|text| text.contains("signal 9")),
        "{failure}"
    );
    client.assert_echo("calm__echo").await;
    assert_eq!(backend.count("initialize"), 1);
}

/// A call reconnects a remote server. Concurrent calls share one attempt.
#[tokio::test]
async fn a_remote_server_that_was_away_is_found_again() {
    for kind in [BackendKind::Http, BackendKind::Sse] {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        client.assert_echo("x__echo").await;
        backend.fake().refuse(true).await.expect("the fake runs");
        backend.fake().expire_sessions();
        let failed_result = client.call("x__echo", json!({})).await;
        assert_eq!(failed_result["isError"], true, "{failed_result}");
        backend.fake().refuse(false).await.expect("the fake runs");
        futures_util::future::join_all((0..10).map(|_| client.assert_echo("x__echo"))).await;
        assert_eq!(backend.count("initialize"), 2);
    }
}

/// If the GET stream breaks, it is opened again in the same session.
#[tokio::test]
async fn a_stream_that_breaks_off_is_opened_again() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    let mut stream = client.listen().await;
    until("the stream upstream", || backend.fake().streams() == 1).await;
    backend.fake().drop_streams();
    client.assert_echo("x__echo").await;
    client.call("x__change_tools", json!({})).await;
    assert_eq!(
        stream.message().await["method"],
        "notifications/tools/list_changed"
    );
    assert_eq!(backend.count("initialize"), 1);
}

/// If the stream of a call breaks, the outcome of the call is unknown, and the session continues.
#[tokio::test]
async fn a_calls_stream_that_breaks_off_is_an_unknown_outcome() {
    let backend = Backend::start(BackendKind::Http, &["--answer", "sse"]).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    let (result, ()) = tokio::join!(client.call("x__hang", json!({})), async {
        backend.until_called("hang").await;
        // Wait until the call's stream is open.
        client.assert_echo("x__echo").await;
        backend.fake().drop_streams();
    });
    assert_eq!(failure(&result)["kind"], "outcome_unknown", "{result}");
    client.assert_echo("x__echo").await;
    assert_eq!(backend.count("initialize"), 1);
}

/// A server works without GET and without session ids.
#[tokio::test]
async fn a_server_without_get_and_sessions_is_served() {
    for flags in [
        &["--no-get"][..],
        &["--stateless"],
        &["--no-get", "--stateless", "--answer", "json"],
    ] {
        let backend = Backend::start(BackendKind::Http, flags).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (client, direct) = (
            gateway.client().await,
            gateway.client_at("/servers/x/mcp").await,
        );
        client.assert_echo("x__echo").await;
        direct.assert_echo("echo").await;
        let params = json!({"name": "x__progress", "arguments": {"steps": 3}, "_meta": {"progressToken": 1}});
        let messages = client.exchange("tools/call", &params.to_string()).await;
        assert!(
            messages
                .last()
                .is_some_and(|line| line.contains("3 steps done")),
            "{messages:?}"
        );
    }
}
