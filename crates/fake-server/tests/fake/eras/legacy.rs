//! Tests of fakes that are pinned to legacy revisions.

use fake_server::{Fake, REVISIONS, Revision, Script};
use hyper::StatusCode;
use serde_json::{Value, json};

use crate::common::modern::{self, everything};
use crate::common::peer::Peer;
use crate::common::{call, parse, read, request, send, text, within};

fn initialize(revision: &str, capabilities: &Value) -> String {
    let params = json!({
        "protocolVersion": revision,
        "capabilities": capabilities,
        "clientInfo": {"name": "test", "version": "0"},
    });
    request(0, "initialize", &params)
}

async fn open(revision: &str, capabilities: &Value) -> Peer {
    let mut peer = Peer::spawn(&["--revisions", revision]);
    let answer = peer.ask(initialize(revision, capabilities)).await;
    assert_eq!(answer["result"]["protocolVersion"], revision);
    peer
}

async fn tools(peer: &mut Peer) -> Vec<String> {
    let answer = peer.ask(request(1, "tools/list", &json!({}))).await;
    let tools = answer["result"]["tools"].as_array().expect("tools");
    let name = |tool: &Value| tool["name"].as_str().expect("a name").to_owned();
    tools.iter().map(name).collect()
}

#[tokio::test]
async fn negotiates_what_it_is_pinned_to_and_nothing_else() {
    within(async {
        for pinned_revision in REVISIONS {
            for requested_revision in REVISIONS.into_iter().chain(["2026-07-28"]) {
                let mut peer = Peer::spawn(&["--revisions", pinned_revision]);
                let answer = peer.ask(initialize(requested_revision, &json!({}))).await;
                assert_eq!(answer["result"]["protocolVersion"], pinned_revision);
            }
        }
        let mut peer = Peer::spawn(&["--revisions", "2025-11-25,2024-11-05"]);
        for (requested_revision, expected) in [
            ("2024-11-05", "2024-11-05"),
            ("2025-06-18", "2025-11-25"),
            ("2025-11-25", "2025-11-25"),
        ] {
            let answer = peer.ask(initialize(requested_revision, &json!({}))).await;
            assert_eq!(answer["result"]["protocolVersion"], expected);
        }
    })
    .await;
}

#[tokio::test]
async fn only_a_pinned_fake_has_era_items() {
    within(async {
        let mut peer = Peer::open(&[]).await;
        let plain_tools = tools(&mut peer).await;
        assert_eq!(plain_tools.len(), 35);
        let unknown_response = peer.ask(call(2, "finished", &json!({}))).await;
        assert_eq!(unknown_response["error"]["code"], -32602);
        let prompts = peer.ask(request(3, "prompts/list", &json!({}))).await;
        assert_eq!(
            prompts["result"]["prompts"].as_array().map(Vec::len),
            Some(2)
        );

        for (revision, present_tool, absent_tool) in [
            ("2024-11-05", "ask_roots", "audio"),
            ("2025-03-26", "audio", "ask_elicitation"),
            ("2025-06-18", "ask_elicitation", "ask_url"),
            ("2025-11-25", "ask_url", "list"),
        ] {
            let mut peer = open(revision, &json!({})).await;
            let tools = tools(&mut peer).await;
            assert_eq!(tools[..35], plain_tools[..], "{revision}");
            assert!(
                tools.iter().any(|tool| tool == present_tool),
                "{revision}: {tools:?}"
            );
            assert!(
                !tools.iter().any(|tool| tool == absent_tool),
                "{revision}: {tools:?}"
            );
            let unknown_response = peer.ask(call(2, absent_tool, &json!({}))).await;
            assert_eq!(unknown_response["error"]["code"], -32602, "{revision}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_probe_is_unknown_or_what_the_script_makes_of_it() {
    within(async {
        let probe = || modern::request(7, "server/discover", &json!({})).to_string();
        for flags in [&[][..], &["--revisions", "2025-11-25"]] {
            let answer = Peer::spawn(flags).ask(probe()).await;
            assert_eq!(answer["error"]["code"], -32601, "{flags:?}");
        }
        let empty_response = Peer::spawn(&["--on-discover", "empty"]).ask(probe()).await;
        assert_eq!(empty_response["result"], json!({}));

        let mut silent_peer = Peer::spawn(&["--on-discover", "silence"]);
        silent_peer.send(probe()).await;
        let next_response = silent_peer.ask(request(8, "ping", &json!({}))).await;
        assert_eq!(next_response["id"], 8);

        let mut peer = Peer::spawn(&["--on-discover", "exit"]);
        peer.send(probe()).await;
        assert_eq!(peer.child.wait().await.expect("ends").code(), Some(1));

        let fake = Fake::http(Script::default()).await.expect("starts");
        let headers = modern::headers(&modern::request(7, "server/discover", &json!({})));
        let answer = modern::post(&fake.url(), &parse(&probe()), &headers).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
        assert_eq!(
            read(answer).await.expect("a body"),
            "missing Mcp-Session-Id"
        );
    })
    .await;
}

#[tokio::test]
async fn asks_by_requests_of_its_own() {
    within(async {
        let mut peer = open("2025-11-25", &everything()).await;
        let sampling_result =
            json!({"model": "m", "role": "assistant", "content": {"type": "text", "text": "I"}});
        let accepted_result = json!({"action": "accept", "content": {"name": "Ada"}});
        for (tool, questions) in [
            ("ask_sampling", &["sampling/createMessage"][..]),
            ("ask_elicitation", &["elicitation/create"]),
            ("ask_roots", &["roots/list"]),
            (
                "ask_in_turn",
                &["elicitation/create", "sampling/createMessage"],
            ),
        ] {
            peer.send(call(1, tool, &json!({}))).await;
            for method in questions {
                let question = peer.next().await;
                assert_eq!(question["method"], *method, "{tool}");
                let result = if *method == "elicitation/create" {
                    &accepted_result
                } else {
                    &sampling_result
                };
                let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
                peer.send(answer.to_string()).await;
            }
            let answer = peer.next().await;
            assert_eq!(answer["id"], 1, "{answer}");
            assert_eq!(
                parse(text(&answer)).as_object().map(serde_json::Map::len),
                Some(questions.len())
            );
        }
        let ends = peer.ask(call(2, "finished", &json!({}))).await;
        assert_eq!(
            ends["result"]["structuredContent"],
            json!({"ask_sampling": 1, "ask_elicitation": 1, "ask_roots": 1, "ask_in_turn": 1})
        );

        // Both questions arrive before an answer. A client error becomes a tool error.
        peer.send(call(3, "ask_together", &json!({}))).await;
        let (first, second_message) = (peer.next().await, peer.next().await);
        assert_eq!(first["method"], "elicitation/create");
        assert_eq!(second_message["method"], "sampling/createMessage");
        let refusal =
            json!({"jsonrpc": "2.0", "id": second_message["id"], "error": {"code": -1, "message": "no"}});
        peer.send(refusal.to_string()).await;
        let answer = json!({"jsonrpc": "2.0", "id": first["id"], "result": accepted_result});
        let answer = peer.ask(answer.to_string()).await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");

        // Prompts and resources can ask.
        for (method, params, question_method, subject) in [
            (
                "prompts/get",
                json!({"name": "ask_name"}),
                "elicitation/create",
                "form",
            ),
            (
                "resources/read",
                json!({"uri": "fake://asked"}),
                "roots/list",
                "roots",
            ),
        ] {
            let question = peer.ask(request(4, method, &params)).await;
            assert_eq!(question["method"], question_method);
            let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {}});
            let answer = peer.ask(answer.to_string()).await;
            let text = format!(r#"{{\"{subject}\":{{}}}}"#);
            assert!(answer["result"].to_string().contains(&text), "{answer}");
        }

        let mut peer = open("2025-11-25", &json!({"elicitation": {}})).await;
        let refusal = peer
            .ask(request(
                1,
                "resources/read",
                &json!({"uri": "fake://asked"}),
            ))
            .await;
        assert_eq!(refusal["error"]["code"], -32603);
        let refusal = peer.ask(call(1, "ask_in_turn", &json!({}))).await;
        assert_eq!(refusal["result"]["isError"], true);
        assert_eq!(
            text(&refusal),
            r#"the client did not declare {"sampling":{}}"#
        );
    })
    .await;
}

#[tokio::test]
async fn sends_the_user_to_a_url_by_request_or_by_error() {
    within(async {
        let mut peer = open("2025-11-25", &everything()).await;
        let question = peer.ask(call(1, "ask_url", &json!({}))).await;
        assert_eq!(question["params"]["mode"], "url");
        let id = &question["params"]["elicitationId"];
        assert!(id.is_string());
        let acceptance =
            json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}});
        let completion_notice = peer.ask(acceptance.to_string()).await;
        assert_eq!(
            completion_notice["method"],
            "notifications/elicitation/complete"
        );
        assert_eq!(&completion_notice["params"]["elicitationId"], id);
        assert_eq!(text(&peer.next().await), r#"{"url":{"action":"accept"}}"#);

        let error = peer.ask(call(2, "url_required", &json!({}))).await;
        assert_eq!(error["error"]["code"], -32042);
        let elicitation = &error["error"]["data"]["elicitations"][0];
        assert_eq!(elicitation["mode"], "url");
        assert!(elicitation["elicitationId"].is_string());
        let retry_response = peer.ask(call(3, "url_required", &json!({}))).await;
        assert_eq!(text(&retry_response), "signed in");

        // Form elicitation alone is not sufficient.
        let mut peer = open("2025-11-25", &json!({"elicitation": {}})).await;
        let refusal = peer.ask(call(1, "ask_url", &json!({}))).await;
        assert_eq!(refusal["result"]["isError"], true);
        let refusal = peer.ask(call(2, "url_required", &json!({}))).await;
        assert_eq!(refusal["error"]["code"], -32603);
    })
    .await;
}

#[tokio::test]
async fn a_dual_fake_serves_both_eras_on_one_endpoint() {
    within(async {
        let revisions = "2025-06-18,2026-07-28";
        let mut peer = Peer::open(&["--revisions", revisions]).await;
        let discover_response = peer
            .ask(modern::request(1, "server/discover", &json!({})).to_string())
            .await;
        assert_eq!(
            discover_response["result"]["supportedVersions"],
            json!(["2026-07-28", "2025-06-18"])
        );
        // Each era has its own rules on one pipe.
        let pong = peer.ask(request(2, "ping", &json!({}))).await;
        assert_eq!(pong["result"], json!({}));
        let unknown_response = peer
            .ask(modern::request(3, "ping", &json!({})).to_string())
            .await;
        assert_eq!(unknown_response["error"]["code"], -32601);

        let script = Script {
            revisions: vec![Revision::V2026_07_28, Revision::V2025_06_18],
            ..Script::default()
        };
        let fake = Fake::http(script).await.expect("starts");
        let accept = ("accept", "application/json, text/event-stream");
        let kind = ("content-type", "application/json");
        let open_response = initialize("2025-06-18", &json!({}));
        let open_response = send(&fake.url(), "POST", &[accept, kind], open_response)
            .await
            .expect("answered");
        assert!(open_response.headers().contains_key("mcp-session-id"));
        let session = open_response.headers()["mcp-session-id"]
            .to_str()
            .expect("ASCII")
            .to_owned();
        let headers = [
            accept,
            kind,
            ("mcp-session-id", &session),
            ("mcp-protocol-version", "2025-06-18"),
        ];
        let pong = send(
            &fake.url(),
            "POST",
            &headers,
            request(1, "ping", &json!({})),
        )
        .await;
        assert_eq!(pong.expect("answered").status(), StatusCode::OK);
        let (status, _) =
            modern::ask(&fake.url(), &modern::request(1, "tools/list", &json!({}))).await;
        assert_eq!(status, StatusCode::OK);
        // The header selects the modern era, which requires `_meta`.
        let headers = [accept, kind, ("mcp-protocol-version", "2026-07-28")];
        let bare_response = send(
            &fake.url(),
            "POST",
            &headers,
            request(1, "server/discover", &json!({})),
        )
        .await;
        let bare_response = bare_response.expect("answered");
        assert_eq!(bare_response.status(), StatusCode::BAD_REQUEST);
        assert_eq!(
            parse(&read(bare_response).await.expect("a body"))["error"]["code"],
            -32602
        );
    })
    .await;
}
