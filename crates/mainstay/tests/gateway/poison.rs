//! Calls that crash their server. After three crashes in a row, Mainstay refuses the call. The
//! server stays available for other calls.

use futures_util::future::join_all;
use mainstay_core::record::{State, Status};
use serde_json::{Value, json};

use crate::{
    backend::Backend,
    client::{Http, failure, text},
    gateway::{Gateway, found, soon, until},
    records::Recorded,
    rest_client::Rest,
};

/// Makes a call that crashes the server or is refused. Returns the kind of its failure.
async fn crash(client: &Http, arguments: Value) -> Value {
    let result = client.call("x__crash", arguments).await;
    failure(&result)["kind"].clone()
}

/// Calls the tool `crash` three times with the same arguments.
async fn crash_three_times(client: &Http) {
    for _ in 0..3 {
        assert_eq!(crash(client, json!({})).await, "outcome_unknown");
    }
}

/// The data of all events of this type.
async fn event_data(rest: &Rest, kind: &str) -> Vec<Value> {
    let recent_response = rest.get("/api/events/recent").await;
    let events = recent_response["events"].as_array().expect("a list").iter();
    let matching_events = events.filter(|event| event["type"] == kind);
    matching_events.map(|event| event["data"].clone()).collect()
}

/// Waits for an event of this type. Returns the data of all of them.
async fn until_event(rest: &Rest, kind: &str) -> Vec<Value> {
    found(kind, async || {
        let events = event_data(rest, kind).await;
        (!events.is_empty()).then_some(events)
    })
    .await
}

/// The first three of six such calls reach the server. Other calls wait for at most one start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_crashes_its_server_is_refused_and_the_server_stays() {
    let backend = Backend::stdio().await;
    let fixture = Recorded::with_backend(&backend).await;
    let gateway = &fixture.gateway;
    let (attacker, client) = (gateway.client().await, gateway.client().await);
    let mut kinds = Vec::new();
    for _ in 0..6 {
        kinds.push(crash(&attacker, json!({"secret": "of-the-arguments"})).await);
        client.assert_echo("x__echo").await;
    }
    let (unknown_kind, refused_kind) = ("outcome_unknown", "call_crashes_server");
    assert_eq!(
        kinds,
        [
            unknown_kind,
            unknown_kind,
            unknown_kind,
            refused_kind,
            refused_kind,
            refused_kind
        ]
    );
    assert_eq!((backend.runs("crash"), backend.count("initialize")), (3, 4));

    let result = attacker
        .call("x__crash", json!({"secret": "of-the-arguments"}))
        .await;
    let message = text(&result);
    for part in [
        "Tool 'crash' of server 'x'",
        "3 crashes",
        "was not sent",
        "mainstay restart x",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let retry_after = failure(&result)["retryAfterMs"].as_u64();
    assert!(
        retry_after.is_some_and(|wait| (500_000..=600_000).contains(&wait)),
        "{result}"
    );
    let record = fixture.latest().await;
    assert_eq!(
        (record.state, record.status),
        (State::NotSent, Status::Refused),
        "{record:?}"
    );

    let rest = gateway.rest();
    let server = rest.server("x").await;
    assert_eq!(server["status"], "connected", "{server}");
    let events = event_data(&rest, "call_refused").await;
    let expected = json!({"name": "x", "method": "tools/call", "tool": "crash", "arguments": "same", "crashes": 3, "retryAfterMs": 600_000});
    assert_eq!(events, [expected]);
    let all_text = rest.get("/api/events/recent").await.to_string();
    assert!(!all_text.contains("of-the-arguments"), "{all_text}");
    let metrics = rest_metrics(&fixture).await;
    assert!(metrics.contains("call_crashes_server"), "{metrics}");
}

async fn rest_metrics(fixture: &Recorded) -> String {
    let metrics = fixture.gateway.stranger("/metrics");
    let headers = metrics.headers("text/plain");
    let answer = metrics
        .send(http::Method::GET, headers, "")
        .await
        .whole()
        .await;
    answer.text
}

/// A call that is in flight at every crash is not refused, because it is answered between the
/// crashes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frequent_call_is_not_blamed_for_the_crashes_of_another() {
    let backend = Backend::stdio().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let (attacker, client) = (gateway.client().await, gateway.client().await);
    let sleep = || client.call("x__sleep", json!({"ms": 1000}));
    for round in 1..=3 {
        let sleep_result = sleep().await;
        assert!(sleep_result["isError"].is_null(), "{sleep_result}");
        let previous_count = backend.runs("sleep");
        let attack = async {
            until("the frequent call to be in flight", || {
                backend.runs("sleep") > previous_count
            })
            .await;
            crash(&attacker, json!({})).await
        };
        let (_, kind) = tokio::join!(sleep(), attack);
        assert_eq!(kind, "outcome_unknown", "{round}");
    }
    assert_eq!(crash(&attacker, json!({})).await, "call_crashes_server");
    let sleep_result = sleep().await;
    assert!(sleep_result["isError"].is_null(), "{sleep_result}");
    let refusal_event = event_data(&gateway.rest(), "call_refused").await;
    assert_eq!(refusal_event.len(), 1, "{refusal_event:?}");
}

/// A tool that crashes with three different arguments is refused with all arguments.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_crashes_with_any_arguments_is_refused_with_any() {
    let backend = Backend::stdio().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    for n in 1..=3 {
        assert_eq!(crash(&client, json!({"n": n})).await, "outcome_unknown");
    }
    assert_eq!(crash(&client, json!({"n": 4})).await, "call_crashes_server");
    client.assert_echo("x__echo").await;
    let events = event_data(&gateway.rest(), "call_refused").await;
    assert_eq!(
        (events.len(), &events[0]["arguments"]),
        (1, &json!("any")),
        "{events:?}"
    );
}

/// After the third crash, calls that wait for a start are also refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_wait_for_the_server_are_refused_too() {
    let backend = Backend::stdio().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let attacker = gateway.client().await;
    let attack = async || while crash(&attacker, json!({})).await != "call_crashes_server" {};
    let attacks = join_all((0..5).map(|_| attack()));
    soon("every one to be refused", attacks).await;
    gateway.client().await.assert_echo("x__echo").await;
    assert_eq!(backend.count("initialize"), 4);
}

/// After a restart by the operator the call is allowed again. An event says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_allows_the_call_again() {
    let backend = Backend::stdio().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let (client, rest) = (gateway.client().await, gateway.rest());
    crash_three_times(&client).await;
    assert_eq!(crash(&client, json!({})).await, "call_crashes_server");
    rest.done("x", "restart").await;
    let events = until_event(&rest, "call_allowed").await;
    let expected =
        json!({"name": "x", "method": "tools/call", "tool": "crash", "arguments": "same"});
    assert_eq!(events, [expected]);
    assert_eq!(crash(&client, json!({})).await, "outcome_unknown");
    client.assert_echo("x__echo").await;
}
