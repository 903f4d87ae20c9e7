//! Mainstay sends a call a second time only if the first attempt did not run, or if a second run
//! does no harm (invariant 6, G18, Y21). The fakes count the runs.

use mainstay_core::record::{State, Status};
use serde_json::json;

use crate::{
    backend::{Backend, BackendKind},
    client::{failure, text},
    gateway::Gateway,
    loss::{kill, pid},
    records::Recorded,
    rest_client::prompt_retry,
};

over_every_transport! {
    /// Each run of the tool crashes the server. A tool that only reads runs exactly twice.
    async fn a_tool_that_only_reads_is_tried_once_more(kind) {
        let backend = Backend::start(kind, &["--hint", "readOnlyHint"]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        let result = client.call("x__crash", json!({})).await;
        assert_eq!(failure(&result)["kind"], "outcome_unknown", "{result}");
        assert_eq!(backend.runs("crash"), 2);
    }

    /// A tool without hints runs once. The error advises to check the outcome before a retry.
    async fn a_tool_that_may_change_something_is_not(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        let result = client.call("x__crash", json!({})).await;
        let failure = failure(&result);
        assert_eq!((&failure["kind"], &failure["server"]), (&json!("outcome_unknown"), &json!("x")), "{failure}");
        let message = text(&result);
        assert!(message.contains("Server 'x' was lost during the call"), "{message}");
        assert!(message.contains("may or may not have run; check before you call again"), "{message}");
        client.assert_echo("x__echo").await;
        assert_eq!(backend.runs("crash"), 1);
    }

    /// With `idempotentHint`, a call is sent again only if `callRetry` is set.
    async fn an_idempotent_tool_is_tried_again_where_we_are_told_so(kind) {
        for (call_retry, runs) in [(false, 1), (true, 2)] {
            let backend = Backend::start(kind, &["--hint", "idempotentHint"]).await.option("callRetry", call_retry);
            let gateway = Gateway::with_servers(&[("x", &backend)]).await;
            gateway.client().await.call("x__crash", json!({})).await;
            assert_eq!(backend.runs("crash"), runs, "callRetry: {call_retry}");
        }
    }

    /// If a call was not sent, it is sent after the reconnect.
    async fn a_call_that_was_not_sent_is_sent(kind) {
        let backend = Backend::start(kind, &[]).await.option("reconnect", prompt_retry());
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        for round in 1..=3 {
            client.call("x__crash", json!({})).await;
            client.assert_echo("x__echo").await;
            assert_eq!((backend.runs("crash"), backend.runs("echo")), (round, round));
        }
    }

    /// The rule also holds at the transparent endpoint.
    async fn a_private_session_has_the_same_rule(kind) {
        for (flags, runs) in [(&[][..], 1), (&["--hint", "readOnlyHint"], 2)] {
            let backend = Backend::start(kind, flags).await;
            let gateway = Gateway::with_servers(&[("x", &backend)]).await;
            gateway.client().await.assert_echo("x__echo").await;
            let direct = gateway.client_at("/servers/x/mcp").await;
            let result = direct.call("crash", json!({})).await;
            assert_eq!(failure(&result)["kind"], "outcome_unknown", "{result}");
            assert_eq!(backend.runs("crash"), runs);
        }
    }
}

/// A call that only reads succeeds although its server dies.
#[tokio::test]
async fn a_reading_call_survives_the_death_of_its_server() {
    let backend = Backend::start(BackendKind::Stdio, &["--hint", "readOnlyHint"]).await;
    let backend = backend.option("reconnect", prompt_retry());
    let fixture = Recorded::with_backend(&backend).await;
    let client = fixture.gateway.client().await;
    let victim_pid = pid(&client, "x__pid").await;
    let (text, ()) = tokio::join!(client.call_text("x__sleep", json!({"ms": 700})), async {
        backend.until_called("sleep").await;
        kill(&victim_pid);
    });
    assert_eq!(text, "slept 700 ms");
    assert_eq!(backend.runs("sleep"), 2);
    let record = fixture.latest().await;
    assert_eq!((record.attempts, record.status), (2, Status::Ok));
    let [lost_attempt] = &record.earlier[..] else {
        panic!("{record:?}");
    };
    assert_eq!(
        (lost_attempt.state, &*lost_attempt.error.kind),
        (State::Sent, "outcome_unknown")
    );
    assert!(
        lost_attempt.error.text.contains("was lost during the call"),
        "{lost_attempt:?}"
    );
    assert!(Some(lost_attempt.ended) < record.duration, "{record:?}");
}

/// If the server does not return, the lost attempt is recorded.
#[tokio::test]
async fn the_attempt_before_a_server_was_lost_for_good_is_on_record() {
    let backend = Backend::start(BackendKind::Stdio, &["--hint", "readOnlyHint"]).await;
    let backend = backend.option("restart", json!({"mode": "never"}));
    let fixture = Recorded::with_backend(&backend).await;
    let client = fixture.gateway.client().await;
    let result = client.call("x__crash", json!({})).await;
    assert!(failure(&result)["kind"].is_string(), "{result}");
    let record = fixture.one().await;
    assert_eq!(
        (record.attempts, record.earlier.len()),
        (2, 1),
        "{record:?}"
    );
    assert_eq!(record.earlier[0].state, State::Sent);
    assert_ne!(record.status, Status::Ok);
}

/// The statuses 502, 503 and 504 may come from a proxy, so the outcome is unknown. 429 is an answer
/// of the server.
#[tokio::test]
async fn a_gateway_error_is_an_unknown_outcome() {
    for (status, kind, hint, sent_count) in [
        (502, "outcome_unknown", None, 1),
        (503, "outcome_unknown", None, 1),
        (504, "outcome_unknown", None, 1),
        (503, "outcome_unknown", Some("readOnlyHint"), 2),
        (429, "call_failed", Some("readOnlyHint"), 1),
        (500, "call_failed", None, 1),
    ] {
        for transport in [BackendKind::Http, BackendKind::Sse] {
            let flags: Vec<&str> = hint.iter().flat_map(|hint| ["--hint", hint]).collect();
            let backend = Backend::start(transport, &flags).await;
            let gateway = Gateway::with_servers(&[("x", &backend)]).await;
            let client = gateway.client().await;
            client.assert_echo("x__echo").await;
            backend.fake().edit(|script| {
                // After the call, Mainstay checks the session by a list request. With 500, only the
                // call fails.
                let times = if status == 500 { 1 } else { 9 };
                (script.status, script.status_times) = (Some(status), Some(times));
            });
            let result = client.call("x__count", json!({})).await;
            let failure_data = failure(&result);
            assert_eq!(
                failure_data["kind"], kind,
                "{status} {transport:?}: {failure_data}"
            );
            let calls = backend.calls_of("count").len();
            assert_eq!(calls, sent_count, "{status} {transport:?}");
        }
    }
}
