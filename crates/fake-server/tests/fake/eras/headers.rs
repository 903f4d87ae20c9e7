//! Tests of the HTTP headers that repeat parts of the body.

use fake_server::{Fake, Script};
use hyper::StatusCode;
use serde_json::{Value, json};

use super::http::start;
use crate::common::modern::{ask_with, call, headers, request};
use crate::common::within;

/// Returns true if the request succeeds with these changed or removed headers.
async fn passes(fake: &Fake, message: &Value, changes: &[(&str, Option<&str>)]) -> bool {
    let mut headers = headers(message);
    for (name, value) in changes {
        headers.retain(|(header_name, _)| header_name != name);
        headers.extend(value.map(|value| ((*name).to_owned(), value.to_owned())));
    }
    let (status, answer) = ask_with(&fake.url(), message, &headers).await;
    if answer["error"].is_null() {
        assert_eq!(status, StatusCode::OK, "{answer}");
        return true;
    }
    assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
    assert_eq!(answer["error"]["code"], -32020, "{answer}");
    assert_eq!(answer["id"], message["id"]);
    false
}

#[tokio::test]
async fn standard_headers_must_be_there_and_right() {
    within(async {
        let fake = start(Script {
            tasks: true,
            ..Script::default()
        })
        .await;
        let call = call(1, "pid", &json!({}));
        assert!(passes(&fake, &call, &[]).await);
        for (name, wrong_value) in [
            ("mcp-protocol-version", "2025-11-25"),
            ("mcp-method", "tools/list"),
            ("mcp-name", "PID"),
        ] {
            assert!(!passes(&fake, &call, &[(name, None)]).await, "{name}");
            assert!(
                !passes(&fake, &call, &[(name, Some(wrong_value))]).await,
                "{name}"
            );
        }
        let read_request = request(2, "resources/read", &json!({"uri": "fake://text"}));
        assert!(passes(&fake, &read_request, &[]).await);
        assert!(!passes(&fake, &read_request, &[("mcp-name", None)]).await);
        let task = request(4, "tasks/cancel", &json!({"taskId": "t"}));
        assert!(!passes(&fake, &task, &[("mcp-name", None)]).await);
        // A list request has no name.
        let list = request(3, "tools/list", &json!({}));
        assert!(passes(&fake, &list, &[("mcp-name", None)]).await);
        assert_eq!(fake.runs("pid"), 1);
    })
    .await;
}

#[tokio::test]
async fn names_may_be_encoded_and_strictly() {
    within(async {
        let fake = start(Script::default()).await;
        let call = call(1, "pid", &json!({}));
        for (value, is_accepted) in [
            ("=?base64?cGlk?=", true),
            ("=?base64?cGlkIQ==?=", false),
            ("=?base64?cGl?=", false),
            ("=?base64?cGlk=?=", false),
            ("=?BASE64?cGlk?=", false),
            ("=?base64?c-lk?=", false),
        ] {
            assert_eq!(
                passes(&fake, &call, &[("mcp-name", Some(value))]).await,
                is_accepted,
                "{value}"
            );
        }
        let read_request = request(2, "resources/read", &json!({"uri": "fake://item/é"}));
        let encoded_text = "=?base64?ZmFrZTovL2l0ZW0vw6k=?=";
        assert!(passes(&fake, &read_request, &[("mcp-name", Some(encoded_text))]).await);
        // The unused bits are not zero.
        let encoded_text = "=?base64?ZmFrZTovL2l0ZW0vw6l=?=";
        assert!(!passes(&fake, &read_request, &[("mcp-name", Some(encoded_text))]).await);
    })
    .await;
}

#[tokio::test]
async fn parameters_are_mirrored() {
    within(async {
        let fake = start(Script::default()).await;
        let all_arguments = json!({
            "region": "us west", "shard": 42, "urgent": true, "place": {"zone": "ü"}, "query": "q",
        });
        let call_all = call(1, "routed", &all_arguments);
        let region = ("mcp-param-region", Some("us west"));
        let shard = ("mcp-param-shard", Some("42"));
        let urgent_header = ("mcp-param-urgent", Some("true"));
        let zone = ("mcp-param-zone", Some("=?base64?w7w=?="));
        assert!(passes(&fake, &call_all, &[region, shard, urgent_header, zone]).await);
        let numeric_header = ("mcp-param-shard", Some("42.0"));
        assert!(
            passes(
                &fake,
                &call_all,
                &[region, numeric_header, urgent_header, zone]
            )
            .await
        );
        for wrong_headers in [
            [region, shard, urgent_header, ("mcp-param-zone", None)],
            [region, shard, ("mcp-param-urgent", Some("True")), zone],
            [region, ("mcp-param-shard", Some("43")), urgent_header, zone],
            [
                ("mcp-param-region", Some("us-west")),
                shard,
                urgent_header,
                zone,
            ],
        ] {
            assert!(
                !passes(&fake, &call_all, &wrong_headers).await,
                "{wrong_headers:?}"
            );
        }
        let call_none = call(2, "routed", &json!({"region": null}));
        assert!(passes(&fake, &call_none, &[]).await);
        assert!(!passes(&fake, &call_none, &[region]).await);
        assert_eq!(fake.runs("routed"), 3);
    })
    .await;
}
