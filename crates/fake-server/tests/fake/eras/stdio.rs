//! Tests of 2026-07-28 on a pipe.

use fake_server::WEIRD_RESULT;
use serde_json::{Value, json};

use crate::common::modern::{call, everything, request, request_as};
use crate::common::peer::Peer;
use crate::common::{initialize, notification, text, within};

fn spawn(flags: &[&str]) -> Peer {
    Peer::spawn(&[&["--revisions", "2026-07-28"], flags].concat())
}

async fn ask(peer: &mut Peer, message: &Value) -> Value {
    peer.ask(message.to_string()).await
}

#[tokio::test]
async fn discovery_has_all_required_members() {
    within(async {
        let flags = [
            "--ttl",
            "250",
            "--private-cache",
            "--instructions",
            "be kind",
            "--tasks",
        ];
        let mut peer = spawn(&flags);
        let answer = ask(&mut peer, &request(1, "server/discover", &json!({}))).await;
        let result = &answer["result"];
        assert_eq!(result["resultType"], "complete");
        assert_eq!(result["supportedVersions"], json!(["2026-07-28"]));
        assert_eq!(result["ttlMs"], 250);
        assert_eq!(result["cacheScope"], "private");
        assert_eq!(result["instructions"], "be kind");
        assert_eq!(
            result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"],
            "fake-server"
        );
        let capabilities = &result["capabilities"];
        assert_eq!(capabilities["tools"]["listChanged"], true);
        assert_eq!(capabilities["completions"], json!({}));
        assert_eq!(
            capabilities["extensions"],
            json!({"io.modelcontextprotocol/tasks": {}})
        );
        let mut plain_peer = spawn(&[]);
        let answer = ask(&mut plain_peer, &request(1, "server/discover", &json!({}))).await;
        assert_eq!(answer["result"]["capabilities"]["extensions"], Value::Null);
    })
    .await;
}

#[tokio::test]
async fn only_cacheable_results_have_cache_hints() {
    within(async {
        let mut peer = spawn(&["--ttl", "9"]);
        for (method, params, key) in [
            ("tools/list", json!({}), "tools"),
            ("resources/list", json!({}), "resources"),
            ("resources/templates/list", json!({}), "resourceTemplates"),
            ("prompts/list", json!({}), "prompts"),
            ("resources/read", json!({"uri": "fake://text"}), "contents"),
        ] {
            let answer = ask(&mut peer, &request(1, method, &params)).await;
            let result = &answer["result"];
            assert!(result[key].is_array(), "{answer}");
            assert_eq!(result["resultType"], "complete", "{method}");
            assert_eq!(
                (&result["ttlMs"], &result["cacheScope"]),
                (&json!(9), &json!("public"))
            );
        }
        let completion = json!({
            "ref": {"type": "ref/prompt", "name": "greet"},
            "argument": {"name": "name", "value": "A"},
        });
        for (method, params, key) in [
            ("prompts/get", json!({"name": "plain"}), "messages"),
            ("completion/complete", completion, "completion"),
            ("tools/call", json!({"name": "pid"}), "content"),
        ] {
            let answer = ask(&mut peer, &request(1, method, &params)).await;
            let result = &answer["result"];
            assert!(!result[key].is_null(), "{answer}");
            assert_eq!(result["resultType"], "complete", "{method}");
            assert_eq!(result["ttlMs"], Value::Null, "{method}");
            assert_eq!(result["cacheScope"], Value::Null, "{method}");
        }
        let sum = ask(&mut peer, &call(2, "add", &json!({"a": 2, "b": 3}))).await;
        assert_eq!(text(&sum), "5");
        peer.send(call(3, "weird", &json!({})).to_string()).await;
        let line = String::from_utf8(peer.line().await).expect("UTF-8");
        assert!(line.contains(&WEIRD_RESULT[1..]), "{line}");
    })
    .await;
}

#[tokio::test]
async fn every_request_says_who_sends_it() {
    within(async {
        let mut peer = spawn(&[]);
        for key in ["protocolVersion", "clientCapabilities"] {
            let mut message = request(1, "tools/list", &json!({}));
            let meta = message["params"]["_meta"]
                .as_object_mut()
                .expect("an object");
            meta.shift_remove(&format!("io.modelcontextprotocol/{key}"));
            let answer = ask(&mut peer, &message).await;
            assert_eq!(answer["error"]["code"], -32602, "{key}");
        }
        let bare_response =
            peer.ask(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string());
        assert_eq!(bare_response.await["error"]["code"], -32602);

        let level = json!({"_meta": {"io.modelcontextprotocol/logLevel": "loud"}});
        let answer = ask(&mut peer, &request(1, "tools/list", &level)).await;
        assert_eq!(answer["error"]["code"], -32602);

        for version in ["2025-11-25", "1900-01-01"] {
            let version = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": version}});
            let answer = ask(&mut peer, &request(1, "tools/list", &version)).await;
            assert_eq!(answer["error"]["code"], -32022);
            assert_eq!(answer["error"]["data"]["supported"], json!(["2026-07-28"]));
            assert_eq!(
                answer["error"]["data"]["requested"],
                version["_meta"]["io.modelcontextprotocol/protocolVersion"]
            );
        }
        // A legacy client sends `initialize`. The error names the revision that it requested.
        let answer = peer.ask(initialize("2025-11-25")).await;
        assert_eq!(answer["error"]["code"], -32022);
        assert_eq!(answer["error"]["data"]["requested"], "2025-11-25");
    })
    .await;
}

#[tokio::test]
async fn removed_methods_and_missing_resources_have_their_codes() {
    within(async {
        let mut peer = spawn(&[]);
        for method in [
            "initialize",
            "ping",
            "logging/setLevel",
            "resources/subscribe",
            "resources/unsubscribe",
            "tasks/get",
        ] {
            let answer = ask(
                &mut peer,
                &request(1, method, &json!({"uri": "fake://text"})),
            )
            .await;
            assert_eq!(answer["error"]["code"], -32601, "{method}");
        }
        let missing_request = request(2, "resources/read", &json!({"uri": "fake://none"}));
        let answer = ask(&mut peer, &missing_request).await;
        assert_eq!(answer["error"]["code"], -32602);
        assert_eq!(answer["error"]["data"]["uri"], "fake://none");
        let failed_response = ask(&mut peer, &call(3, "rpc_error", &json!({}))).await;
        assert_eq!(failed_response["error"]["code"], -31050);
    })
    .await;
}

#[tokio::test]
async fn logs_and_progress_come_only_where_they_are_asked_for() {
    within(async {
        let mut peer = spawn(&[]);
        let silent_response = ask(
            &mut peer,
            &call(1, "log", &json!({"n": 2, "level": "alert"})),
        )
        .await;
        assert_eq!(text(&silent_response), "0 lines logged");
        for (level, lines) in [("emergency", 0), ("warning", 2)] {
            let meta = json!({"io.modelcontextprotocol/logLevel": level});
            let arguments = json!({"n": 2, "level": "error", "outside": true});
            let params = json!({"name": "log", "arguments": arguments, "_meta": meta});
            peer.send(request(2, "tools/call", &params).to_string())
                .await;
            for _ in 0..lines {
                assert_eq!(peer.next().await["method"], "notifications/message");
            }
            assert_eq!(peer.next().await["id"], 2);
        }
        let silent_response = ask(&mut peer, &call(3, "progress", &json!({"steps": 2}))).await;
        assert_eq!(text(&silent_response), "2 steps done");
        let params =
            json!({"name": "progress", "arguments": {"steps": 2}, "_meta": {"progressToken": "p"}});
        peer.send(request(4, "tools/call", &params).to_string())
            .await;
        for step in [1, 2] {
            let progress = peer.next().await;
            assert_eq!(progress["params"]["progress"], step);
            assert_eq!(progress["params"]["progressToken"], "p");
        }
        assert_eq!(peer.next().await["id"], 4);
    })
    .await;
}

#[tokio::test]
async fn a_notification_cancels() {
    within(async {
        let mut peer = spawn(&[]);
        peer.send(call(1, "sleep", &json!({"ms": 60_000})).to_string())
            .await;
        peer.send(notification(
            "notifications/cancelled",
            &json!({"requestId": 1}),
        ))
        .await;
        let answer = ask(&mut peer, &call(2, "cancelled", &json!({}))).await;
        assert_eq!(text(&answer), "[1]");
        let ends = ask(&mut peer, &call(3, "finished", &json!({}))).await;
        assert_eq!(ends["result"]["structuredContent"], json!({"cancelled": 1}));
    })
    .await;
}

#[tokio::test]
async fn results_hold_what_older_revisions_cannot() {
    within(async {
        let mut peer = spawn(&[]);
        let audio = ask(&mut peer, &call(1, "audio", &json!({}))).await;
        assert_eq!(audio["result"]["content"][1]["type"], "audio");
        let link = ask(&mut peer, &call(1, "link", &json!({}))).await;
        assert_eq!(link["result"]["content"][1]["type"], "resource_link");
        let object = ask(&mut peer, &call(1, "object", &json!({}))).await;
        assert_eq!(object["result"]["structuredContent"], json!({"answer": 42}));
        let list = ask(&mut peer, &call(1, "list", &json!({}))).await;
        assert_eq!(list["result"]["structuredContent"], json!([1, 2, 3]));

        let tools = ask(&mut peer, &request(2, "tools/list", &json!({}))).await;
        let tools = tools["result"]["tools"].as_array().expect("tools").clone();
        let find = |name: &str| tools.iter().find(|tool| tool["name"] == name);
        assert_eq!(
            find("list").expect("there")["outputSchema"]["type"],
            "array"
        );
        assert!(find("misrouted").is_none() && find("task").is_none());
        let mut peer = spawn(&["--bad-tool", "--tasks"]);
        let tools = ask(&mut peer, &request(2, "tools/list", &json!({}))).await;
        assert!(tools.to_string().contains(r#""x-mcp-header":"Size""#));
        assert!(tools.to_string().contains(r#""name":"task""#));
    })
    .await;
}

#[tokio::test]
async fn modern_handshakes_can_fail() {
    within(async {
        let discover = request_as(&everything(), 1, "server/discover", &json!({}));
        let mut peer = spawn(&["--initialize-error"]);
        assert_eq!(ask(&mut peer, &discover).await["error"]["code"], -32603);
        let mut peer = spawn(&["--hang-at-start"]);
        peer.send(discover.to_string()).await;
        let next_response = ask(&mut peer, &request(2, "tools/list", &json!({}))).await;
        assert_eq!(next_response["id"], 2);
    })
    .await;
}
