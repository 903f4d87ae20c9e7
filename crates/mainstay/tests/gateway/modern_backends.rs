//! Servers of 2026-07-28, and how Mainstay detects the era of a server (docs/dev/wire.md).

use std::time::Duration;

use mainstay_gateway::GatewayOptions;
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, text},
    gateway::{Gateway, config, soon, until},
    modern::Modern,
    rest_client::{health_checks, never_retry, prompt_retry},
};

const MODERN: &[&str] = &["--revisions", "2026-07-28"];
const DUAL: &[&str] = &["--revisions", "2025-06-18,2026-07-28"];

/// Defines a test for each transport that exists in both eras.
macro_rules! over_both_transports {
    ($($(#[$doc:meta])* async fn $name:ident($kind:ident) $body:block)*) => {$(
        $(#[$doc])*
        mod $name {
            use super::*;

            async fn over($kind: BackendKind) $body

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn stdio() {
                over(BackendKind::Stdio).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn http() {
                over(BackendKind::Http).await;
            }
        }
    )*};
}

/// The numbers of `server/discover` and `initialize` requests.
fn greetings(backend: &Backend) -> (usize, usize) {
    (
        backend.count("server/discover"),
        backend.count("initialize"),
    )
}

/// Waits until the server has exactly the expected subscriptions.
async fn until_subscribed(client: &Http, expected: Value) {
    let subscribed_result = async {
        while client.call("x__subscriptions", json!({})).await["structuredContent"] != expected {}
    };
    soon(&format!("subscriptions {expected}"), subscribed_result).await;
}

/// Makes the server announce a new tool, and waits until the client lists it.
async fn until_announced(client: &Http) {
    client.call("x__change_tools", json!({})).await;
    let list_wait = async { while !client.tools().await.contains(&"x__extra".to_owned()) {} };
    soon("the announced tool to be listed", list_wait).await;
}

over_both_transports! {
    async fn a_modern_server_is_connected_and_called(kind) {
        let backend = Backend::start(kind, MODERN).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        assert!(client.tools().await.contains(&"x__echo".to_owned()));
        client.assert_echo("x__echo").await;
        client.assert_echo("x__echo").await;
        for method in ["notifications/initialized", "ping", "logging/setLevel"] {
            assert_eq!(backend.count(method), 0, "{method}");
        }
        // With a legacy session, there would be a second `initialize`.
        assert_eq!(greetings(&backend), (1, usize::from(kind == BackendKind::Http)));
    }

    /// Only a modern message shows that a server is modern (section 2, "Detecting a backend's
    /// era").
    async fn a_legacy_server_is_found_out_however_it_answers(kind) {
        for flags in [&[][..], &["--on-discover", "empty"], &["--on-discover", "silence"]] {
            let backend = Backend::start(kind, flags).await;
            let gateway = Gateway::with_servers(&[("x", &backend)]).await;
            gateway.client().await.assert_echo("x__echo").await;
            assert_eq!(greetings(&backend), (1, 1), "{flags:?}");
            assert_eq!(backend.count("subscriptions/listen"), 0);
            // The next connection uses the stored era.
            gateway.rest().done("x", "reconnect").await;
            assert_eq!(greetings(&backend), (1, 2), "{flags:?}");
        }
    }

    /// A server of both eras gets a modern session. Over HTTP, legacy clients also share one legacy
    /// session (section 6).
    async fn a_server_of_both_eras_is_spoken_to_in_both(kind) {
        let backend = Backend::start(kind, DUAL).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let modern = Modern::at(&gateway, "/mcp");
        let result = modern.call("x__echo", json!({"text": "hello"})).await;
        assert_eq!(text(&result), "hello");
        assert_eq!(greetings(&backend), (1, 0));
        let client = gateway.client().await;
        client.assert_echo("x__echo").await;
        client.assert_echo("x__echo").await;
        assert_eq!(greetings(&backend), (1, usize::from(kind == BackendKind::Http)));
    }

    /// `protocol` sets the era, and nothing is detected.
    async fn the_pin_wins(kind) {
        let backend = Backend::start(kind, DUAL).await.option("protocol", "2025-06-18");
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        gateway.client().await.assert_echo("x__echo").await;
        assert_eq!(greetings(&backend), (0, 1));
        let requested_revision = &backend.of_method("initialize")[0]["params"]["protocolVersion"];
        assert_eq!(requested_revision, "2025-06-18");

        let backend = Backend::start(kind, DUAL).await.option("protocol", "2026-07-28");
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        gateway.client().await.assert_echo("x__echo").await;
        assert_eq!(greetings(&backend), (1, 0));

        let backend = Backend::start(kind, &[]).await.option("protocol", "2026-07-28").option("reconnect", never_retry());
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let server = gateway.rest().until("x", "refused", |server| server["lastError"].is_string()).await;
        let reason = server["lastError"].as_str().expect("a reason");
        assert!(reason.contains("server/discover"), "{reason}");
        assert_eq!(backend.count("initialize"), 0);
    }

    /// The next run uses the stored era, and notices if the era has changed.
    async fn the_next_run_knows_the_era(kind) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let backend = Backend::start(kind, &["--on-discover", "silence"]).await;
        let config_json = config(&[("x", &backend)], json!({}));
        for run in 1..=2 {
            let options = GatewayOptions { catalogs: Some(folder.path().to_owned()), ..GatewayOptions::default() };
            let gateway = Gateway::with_options(&config_json, options).await;
            gateway.client().await.assert_echo("x__echo").await;
            gateway.rest().until("x", "listed", |server| server["listsStale"] == false).await;
            gateway.stop().await;
            assert_eq!(greetings(&backend), (1, run), "{run}");
        }
    }

    /// `server/discover` replaces `ping` as the probe (section 4).
    async fn a_modern_server_is_probed_by_discover(kind) {
        let backend = Backend::start(kind, MODERN).await;
        let backend = backend.option("health", health_checks(Duration::from_millis(100), "reconnect"));
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        gateway.rest().until_status("x", "connected").await;
        backend.until_count("server/discover", 4).await;
        let server = gateway.rest().server("x").await;
        assert_eq!((&server["status"], &server["healthStatus"]), (&json!("connected"), &json!("healthy")), "{server}");
        assert_eq!((backend.count("ping"), backend.count("initialize")), (0, 0));
    }

    /// Announcements arrive both before and after a reconnect.
    async fn the_kept_listen_is_sent_again_after_a_reconnect(kind) {
        let backend = Backend::start(kind, MODERN).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        backend.until_count("subscriptions/listen", 1).await;
        gateway.rest().done("x", "reconnect").await;
        backend.until_count("subscriptions/listen", 2).await;
        let filter = &backend.of_method("subscriptions/listen")[1]["params"]["notifications"];
        assert_eq!(filter, &json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true}));
        until_announced(&client).await;
    }

    /// All subscriptions share one upstream listen stream. It is opened again when they change.
    async fn resources_are_subscribed_to_in_the_kept_listen(kind) {
        let backend = Backend::start(kind, MODERN).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (first_client, second_client) = (gateway.client().await, gateway.client().await);
        let mut stream = first_client.listen().await;
        for (client, uri) in [(&first_client, "fake://text"), (&second_client, "fake://text"), (&second_client, "fake://blob")] {
            client.result("resources/subscribe", json!({"uri": uri})).await;
        }
        until_subscribed(&first_client, json!({"fake://text": 1, "fake://blob": 1})).await;
        first_client.call("x__touch", json!({"uri": "fake://text"})).await;
        let message = stream.message().await;
        assert_eq!(message["method"], "notifications/resources/updated", "{message}");
        assert_eq!(message["params"], json!({"uri": "fake://text"}));

        let refused_response = first_client.error("resources/subscribe", json!({"uri": "mainstay+x:fake://nothing"})).await;
        assert!(refused_response["message"].as_str().expect("words").contains("does not serve"), "{refused_response}");
        second_client.result("resources/unsubscribe", json!({"uri": "fake://text"})).await;
        second_client.result("resources/unsubscribe", json!({"uri": "fake://blob"})).await;
        until_subscribed(&first_client, json!({"fake://text": 1})).await;
        assert_eq!(backend.count("resources/subscribe"), 0);

        gateway.rest().done("x", "reconnect").await;
        until_subscribed(&first_client, json!({"fake://text": 1})).await;
    }

    /// If one call is in flight, its log message arrives before its answer. If several calls are in
    /// flight on a pipe, every client that has requested log messages of the server gets the
    /// message.
    async fn log_messages_of_calls_beside_others_are_heard(kind) {
        let backend = Backend::start(kind, MODERN).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client_at("/servers/x/mcp").await;
        client.result("logging/setLevel", json!({"level": "info"})).await;
        let progress_task = async {
            backend.until_called("hang").await;
            let log = json!({"name": "log", "arguments": {"n": 1, "level": "error"}});
            let messages = client.exchange("tools/call", &log.to_string()).await;
            if let [message, _] = &messages[..] {
                assert!(message.contains("notifications/message"), "{messages:?}");
            } else {
                let message = client.listen().await.message().await;
                assert_eq!(message["method"], "notifications/message", "{message}");
            }
        };
        tokio::select! {
            answer = client.request("tools/call", json!({"name": "hang"})) => panic!("{answer}"),
            () = progress_task => {}
        }
    }

    /// A modern server must not send requests. If it does, its call fails, and the client is not
    /// asked (docs/dev/wire.md).
    async fn a_request_of_a_modern_server_fails_its_call(kind) {
        let backend = Backend::start(kind, MODERN).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        let failed_result = client.call("x__ping_client", json!({})).await;
        assert!(text(&failed_result).contains("which its protocol revision forbids"), "{failed_result}");
        client.assert_echo("x__echo").await;
    }

    /// Over HTTP, a tool with an invalid header is neither listed nor callable ("Custom Headers
    /// from Tool Parameters").
    async fn an_invalid_tool_exists_only_where_there_are_no_headers(kind) {
        let backend = Backend::start(kind, &[MODERN, &["--bad-tool"]].concat()).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        let arguments = json!({"region": "Zürich", "shard": 7, "urgent": null, "place": {"zone": " a"}, "query": "q"});
        let result = client.call("x__routed", arguments.clone()).await;
        assert_eq!(result["structuredContent"], arguments, "{result}");
        assert_eq!(client.tools().await.contains(&"x__misrouted".to_owned()), kind == BackendKind::Stdio);
        if kind == BackendKind::Http {
            let direct_client = Modern::at(&gateway, "/servers/x/mcp");
            let listed_text = direct_client.result("tools/list", json!({})).await.to_string();
            assert!(listed_text.contains("routed") && !listed_text.contains("misrouted"), "{listed_text}");
            let refused_result = direct_client.call("misrouted", json!({"size": 1})).await;
            assert!(text(&refused_result).contains("definition is invalid"), "{refused_result}");
            assert_eq!(backend.calls_of("misrouted"), [] as [Value; 0]);
        }
    }

    /// The cancellation has the form that the server's transport requires.
    async fn a_call_is_cancelled(kind) {
        let backend = Backend::start(kind, MODERN).await.option("timeout_s", 0.3);
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        client.call("x__sleep", json!({"ms": 60_000})).await;
        let cancelled_result = async { while client.call_text("x__cancelled", json!({})).await == "[]" {} };
        soon("the server to hear of it", cancelled_result).await;
        assert_eq!(backend.cancelled().is_empty(), kind == BackendKind::Http);
    }
}

/// If a process exits after `server/discover`, it is restarted without that request. The exit does
/// not count as a crash (section 2).
#[tokio::test]
async fn a_process_that_ends_at_the_question_has_not_crashed() {
    let backend = Backend::start(BackendKind::Stdio, &["--on-discover", "exit"]).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    gateway.client().await.assert_echo("x__echo").await;
    let server = gateway.rest().server("x").await;
    assert_eq!(
        (&server["status"], &server["crashCount"]),
        (&json!("connected"), &json!(0)),
        "{server}"
    );
    assert_eq!(greetings(&backend), (1, 1));
    gateway.rest().done("x", "reconnect").await;
    assert_eq!(greetings(&backend), (1, 2));
}

/// If a server does not answer `server/discover` over HTTP, Mainstay stops waiting and tries
/// `initialize`.
#[tokio::test]
async fn a_question_that_hangs_over_http_is_given_up() {
    let flags = ["--stateless", "--on-discover", "silence"];
    let backend = Backend::start(BackendKind::Http, &flags).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    gateway.rest().until_status("x", "connected").await;
    gateway.client().await.assert_echo("x__echo").await;
    assert_eq!(greetings(&backend), (1, 1));
}

/// The timeout of `server/discover` does not include the start of a slow process.
#[tokio::test]
async fn a_modern_process_that_starts_slowly_is_still_modern() {
    let backend = Backend::start(
        BackendKind::Stdio,
        &[MODERN, &["--slow-start", "2500"]].concat(),
    )
    .await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    gateway.rest().until_status("x", "connected").await;
    backend.until_count("subscriptions/listen", 1).await;
    gateway.client().await.assert_echo("x__echo").await;
}

/// The statuses 401, 403, 429 and 5xx do not show the era. After them Mainstay sends `initialize`,
/// except after 429 (section 2).
#[tokio::test]
async fn common_http_errors_are_no_evidence_of_an_era() {
    for status in ["401", "403", "429", "503"] {
        let flags = [MODERN, &["--status", status, "--status-times", "2"]].concat();
        let backend = Backend::start(BackendKind::Http, &flags).await;
        let backend = backend.option("reconnect", prompt_retry());
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let rest = gateway.rest();
        let server = rest
            .until("x", "refused", |server| server["lastError"].is_string())
            .await;
        let reason = server["lastError"].as_str().expect("a reason");
        assert!(reason.contains(status), "{reason}");
        let tried_server = async {
            while rest.server("x").await["status"] != "connected" {
                rest.operate("x", "reconnect").await;
            }
        };
        soon("a modern session", tried_server).await;
        backend.until_count("subscriptions/listen", 1).await;
        // This server accepts requests without information about the client.
        let max_greetings = usize::from(status != "429");
        assert!(backend.count("initialize") <= max_greetings, "{status}");
    }
}

/// Without a connection, the end of a server is noticed by failed calls, by probes and by the
/// listen stream.
#[tokio::test]
async fn a_server_that_has_gone_is_noticed_and_comes_back() {
    let backend = Backend::start(BackendKind::Http, MODERN)
        .await
        .option("reconnect", prompt_retry());
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let (client, rest) = (gateway.client().await, gateway.rest());
    backend.until_count("subscriptions/listen", 1).await;
    backend.fake().refuse(true).await.expect("the fake runs");
    rest.until("x", "lost", |server| server["status"] != "connected")
        .await;
    backend.fake().refuse(false).await.expect("the fake runs");
    rest.until_status("x", "connected").await;
    until_announced(&client).await;
}

/// If the listen stream breaks, it is opened again, and the session continues.
#[tokio::test]
async fn a_listen_that_broke_off_is_opened_again() {
    let backend = Backend::start(BackendKind::Http, MODERN).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    until("the kept listen", || backend.fake().listens() == 1).await;
    backend.fake().drop_streams();
    backend.until_count("subscriptions/listen", 2).await;
    until_announced(&client).await;
    assert_eq!(backend.count("server/discover"), 1);
}

/// If a server is no longer modern, it gets a session of its new era.
#[tokio::test]
async fn a_server_that_changes_its_era_is_found_out_again() {
    let backend = Backend::start(BackendKind::Http, MODERN).await;
    let backend = backend
        .option(
            "health",
            health_checks(Duration::from_millis(100), "reconnect"),
        )
        .option("reconnect", prompt_retry());
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    client.assert_echo("x__echo").await;
    let previous_count = backend.count("notifications/initialized");
    backend.fake().edit(|script| script.revisions.clear());
    backend
        .until_count("notifications/initialized", previous_count + 1)
        .await;
    client.assert_echo("x__echo").await;
}

/// After the error −32020, Mainstay reads the tool list and sends the call again ("Custom Headers
/// from Tool Parameters").
#[tokio::test]
async fn headers_that_are_out_of_date_are_made_anew() {
    let backend = Backend::start(BackendKind::Http, &[MODERN, &["--no-tools"]].concat()).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    gateway.rest().until_status("x", "connected").await;
    backend.fake().edit(|script| script.no_tools = false);
    let direct_client = Modern::at(&gateway, "/servers/x/mcp");
    let result = direct_client.call("routed", json!({"shard": 1})).await;
    assert_eq!(result["structuredContent"], json!({"shard": 1}), "{result}");
    assert_eq!(
        (backend.calls_of("routed").len(), backend.runs("routed")),
        (2, 1)
    );
}
