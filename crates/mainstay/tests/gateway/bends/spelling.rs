//! Messages with additional bytes around the JSON, or with members of other JSON-RPC versions.

use serde_json::json;

use crate::{
    backend::{Backend, BackendKind},
    client::text,
    gateway::{Gateway, soon},
};

async fn assert_works(kind: BackendKind, flags: &[&str]) {
    let backend = Backend::start(kind, flags).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    let direct = gateway.client_at("/servers/x/mcp").await;
    for _ in 0..3 {
        client.assert_echo("x__echo").await;
        direct.assert_echo("echo").await;
    }
    let error = client.error("tools/call", json!({"name": "x__rpc_error"}));
    assert_eq!(error.await["message"], "the request failed");
    let params =
        json!({"name": "x__progress", "arguments": {"steps": 3}, "_meta": {"progressToken": 1}});
    let messages = client.exchange("tools/call", &params.to_string()).await;
    assert_eq!(messages.len(), 4, "{flags:?}: {messages:?}");
}

over_every_transport! {
    async fn a_byte_order_mark_hides_no_message(kind) {
        assert_works(kind, &["--bend", "byte-order-mark"]).await;
    }

    async fn members_of_other_versions_hide_no_answer(kind) {
        for bend in ["null-members", "no-version"] {
            assert_works(kind, &["--bend", bend]).await;
        }
    }

    /// If an answer is not JSON, its call fails at once with the reason.
    async fn an_answer_that_cannot_be_read_is_named(kind) {
        for form in ["json", "sse"] {
            let backend = Backend::start(kind, &["--bend", "not-a-number", "--answer", form]).await;
            let gateway = Gateway::with_servers(&[("x", &backend)]).await;
            let client = gateway.client().await;
            let failed_result = soon("a failure", client.call("x__echo", json!({"text": "x"}))).await;
            let text = text(&failed_result);
            assert!(text.contains("is not a JSON-RPC message: not JSON"), "{text}");
            assert_eq!(client.call_text("x__add", json!({"a": 1, "b": 2})).await, "3");
        }
    }
}

#[tokio::test]
async fn harmless_bytes_on_stdout_hide_no_message() {
    for bend in [
        "colours",
        "carriage-returns",
        "progress-on-stdout",
        "nul",
        "two-on-a-line",
    ] {
        assert_works(BackendKind::Stdio, &["--bend", bend]).await;
    }
    let bend_flags = [
        "--bend",
        "colours",
        "--bend",
        "carriage-returns",
        "--bend",
        "byte-order-mark",
    ];
    assert_works(BackendKind::Stdio, &bend_flags).await;
}
