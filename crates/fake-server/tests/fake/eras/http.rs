//! Tests of 2026-07-28 over Streamable HTTP.

use fake_server::{Fake, Revision, Script};
use hyper::StatusCode;
use serde_json::{Value, json};

use crate::common::modern::{ask, ask_with, call, headers, post, request};
use crate::common::{
    Stream, eventually, initialize, notification, parse, read, send, text, within,
};

pub async fn start(script: Script) -> Fake {
    let script = Script {
        revisions: vec![Revision::V2026_07_28],
        ..script
    };
    Fake::http(script).await.expect("starts")
}

#[tokio::test]
async fn there_are_no_sessions_and_only_posts() {
    within(async {
        let fake = start(Script::default()).await;
        let message = call(1, "pid", &json!({}));
        let mut session_headers = headers(&message);
        session_headers.push(("mcp-session-id".to_owned(), "unknown".to_owned()));
        let answer = post(&fake.url(), &message, &session_headers).await;
        assert_eq!(answer.status(), StatusCode::OK);
        assert!(!answer.headers().contains_key("mcp-session-id"));
        assert_eq!(fake.sessions(), 0);
        for verb in ["GET", "DELETE"] {
            let accept = [("accept", "text/event-stream")];
            let answer = send(&fake.url(), verb, &accept, String::new()).await;
            let answer = answer.expect("answered");
            assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED, "{verb}");
            assert_eq!(answer.headers()["allow"], "POST");
        }
        fake.stop().await.expect("stops");
    })
    .await;
}

#[tokio::test]
async fn every_refusal_has_its_status() {
    within(async {
        let fake = start(Script::default()).await;
        let url = fake.url();
        let (status, answer) = ask(&url, &request(1, "ping", &json!({}))).await;
        assert_eq!(
            (status, &answer["error"]["code"]),
            (StatusCode::NOT_FOUND, &json!(-32601))
        );
        assert_eq!(answer["id"], 1);

        let mut bare_request = request(2, "tools/list", &json!({}));
        bare_request["params"] = json!({});
        let (status, answer) = ask(&url, &bare_request).await;
        assert_eq!(
            (status, &answer["error"]["code"]),
            (StatusCode::BAD_REQUEST, &json!(-32602))
        );
        assert_eq!(answer["id"], 2);

        let key = "io.modelcontextprotocol/protocolVersion";
        let foreign_request = request(3, "tools/list", &json!({"_meta": {key: "1900-01-01"}}));
        let mut right_headers = headers(&foreign_request);
        let version = right_headers
            .iter_mut()
            .find(|(name, _)| name == "mcp-protocol-version");
        version.expect("there").1 = "1900-01-01".to_owned();
        let (status, answer) = ask_with(&url, &foreign_request, &right_headers).await;
        assert_eq!(
            (status, &answer["error"]["code"]),
            (StatusCode::BAD_REQUEST, &json!(-32022))
        );

        // A legacy handshake has no headers of this era.
        let accept = ("accept", "application/json, text/event-stream");
        let kind = ("content-type", "application/json");
        let open_response = send(&url, "POST", &[accept, kind], initialize("2025-11-25")).await;
        let open_response = open_response.expect("answered");
        assert_eq!(open_response.status(), StatusCode::BAD_REQUEST);
        let open_response = parse(&read(open_response).await.expect("a body"));
        assert_eq!(
            open_response["error"]["data"]["supported"],
            json!(["2026-07-28"])
        );

        let unknown_call = call(4, "no_such_tool", &json!({}));
        let (status, answer) = ask(&url, &unknown_call).await;
        assert_eq!(
            (status, &answer["error"]["code"]),
            (StatusCode::OK, &json!(-32602))
        );

        let message = notification("notifications/anything", &json!({}));
        let accept_response = send(&url, "POST", &[accept, kind], message)
            .await
            .expect("answered");
        assert_eq!(accept_response.status(), StatusCode::ACCEPTED);
        let response = json!({"jsonrpc": "2.0", "id": 1, "result": {}}).to_string();
        let response = send(&url, "POST", &[accept, kind], response)
            .await
            .expect("answered");
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    })
    .await;
}

#[tokio::test]
async fn progress_and_logs_come_on_the_stream_of_their_call() {
    within(async {
        let fake = start(Script::default()).await;
        let meta = json!({"progressToken": 5, "io.modelcontextprotocol/logLevel": "info"});
        let params = json!({"name": "progress", "arguments": {"steps": 2}, "_meta": meta});
        let message = request(1, "tools/call", &params);
        let mut stream = Stream::new(post(&fake.url(), &message, &headers(&message)).await);
        assert_eq!(stream.message().await["params"]["progressToken"], 5);
        assert_eq!(stream.message().await["params"]["progress"], 2);
        assert_eq!(text(&stream.message().await), "2 steps done");
        assert_eq!(stream.next().await.expect("unbroken"), None);

        let params = json!({"name": "log", "_meta": meta});
        let message = request(2, "tools/call", &params);
        let mut stream = Stream::new(post(&fake.url(), &message, &headers(&message)).await);
        assert_eq!(stream.message().await["method"], "notifications/message");
        assert_eq!(stream.message().await["id"], 2);
        assert_eq!(fake.finished("progress"), 1);
    })
    .await;
}

#[tokio::test]
async fn closing_the_stream_cancels_the_call() {
    within(async {
        for is_ignored in [false, true] {
            let fake = start(Script {
                ignore_cancel: is_ignored,
                ..Script::default()
            })
            .await;
            let params = json!({
                "name": "progress",
                "arguments": {"steps": 3, "intervalMs": 150},
                "_meta": {"progressToken": 1},
            });
            let message = request(7, "tools/call", &params);
            let mut stream = Stream::new(post(&fake.url(), &message, &headers(&message)).await);
            stream.message().await;
            drop(stream);
            eventually(|| fake.cancelled() == ["7"]).await;
            if is_ignored {
                eventually(|| fake.finished("progress") == 1).await;
            } else {
                // The delay is longer than the steps before.
                ask(&fake.url(), &call(8, "sleep", &json!({"ms": 500}))).await;
                assert_eq!(fake.finished("sleep"), 1);
                assert_eq!(fake.finished("progress"), 0);
            }
            assert_eq!(fake.cancelled(), ["7"]);
        }
    })
    .await;
}

#[tokio::test]
async fn a_call_before_its_first_byte_is_cancelled_too() {
    within(async {
        let fake = start(Script::default()).await;
        let message = call(9, "hang", &json!({}));
        let url = fake.url();
        let abandoned_headers = headers(&message);
        let pending_response = post(&url, &message, &abandoned_headers);
        tokio::select! {
            _ = pending_response => panic!("nobody answers"),
            () = fake.until(|requests| !requests.is_empty()) => {}
        }
        eventually(|| fake.cancelled() == ["9"]).await;
        assert_eq!(fake.finished("hang"), 0);
        let answer: Value = ask(&url, &call(10, "client", &json!({}))).await.1;
        assert!(text(&answer).contains(r#""name":"test""#), "{answer}");
    })
    .await;
}

/// A violation of the protocol that gateways must detect.
#[tokio::test]
async fn a_violation_sends_a_request_on_the_stream() {
    within(async {
        let fake = start(Script::default()).await;
        let message = call(1, "ping_client", &json!({}));
        let mut stream = Stream::new(post(&fake.url(), &message, &headers(&message)).await);
        let ping = stream.message().await;
        assert_eq!(ping["method"], "ping");
        assert!(ping["id"].is_string());
        drop(stream);
        eventually(|| fake.cancelled() == ["1"]).await;
    })
    .await;
}

#[tokio::test]
async fn the_oldest_transport_is_not_served() {
    within(async {
        let script = Script {
            revisions: vec![Revision::V2026_07_28],
            ..Script::default()
        };
        let fake = Fake::sse(script).await.expect("starts");
        let accept = [("accept", "text/event-stream")];
        let answer = send(&fake.url(), "GET", &accept, String::new()).await;
        assert_eq!(answer.expect("answered").status(), StatusCode::NOT_FOUND);
    })
    .await;
}
