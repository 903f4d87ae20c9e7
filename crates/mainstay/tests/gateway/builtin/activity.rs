//! Own tools of the group `activity` (Z2): waiting for events, and answering questions of servers.

use std::time::{Duration, Instant};

use mainstay_core::config::Secret;
use mainstay_gateway::GatewayOptions;
use mainstay_tokens::Tokens;
use serde_json::{Value, json};

use super::{call_failing, call_ok, gateway};
use crate::{
    backend::{Backend, BackendKind},
    client::{Http, LATEST, value},
    gateway::{Gateway, config, soon},
    reloading::{File, reload},
    rest_client::TOKEN,
};

const SAMPLING: &str = "sampling/createMessage";

/// An event ends the wait. The next wait begins after that event.
#[tokio::test]
async fn an_event_ends_the_wait() {
    let backend = Backend::http().await;
    let gateway = gateway(&[("x", &backend)], &["activity"]).await;
    let client = gateway.client().await;
    client.assert_echo("x__echo").await;
    let silent_result = call_ok(&client, "await_activity", json!({"timeout_ms": 100})).await;
    assert_eq!(
        (&silent_result["triggered_by"], &silent_result["events"]),
        (&json!("timeout"), &json!([])),
        "{silent_result}"
    );
    let place = silent_result["last_event_id"].clone();
    let other_client = gateway.client().await;
    let wait = json!({"last_event_id": place, "timeout_ms": 900_000});
    let rest = gateway.rest();
    let (result, _) = tokio::join!(
        soon("an event", call_ok(&other_client, "await_activity", wait)),
        rest.done("x", "stop")
    );
    assert_eq!(result["triggered_by"], "event", "{result}");
    assert_eq!(
        result["events"][0]["type"], "server_disconnected",
        "I6: {result}"
    );
    assert_eq!(result["events"][0]["data"]["wasIntentional"], true);
    rest.done("x", "start").await;
    let wait = json!({"last_event_id": result["last_event_id"]});
    let result = call_ok(&client, "await_activity", wait).await;
    let kinds = result["events"].as_array().expect("a list").iter();
    assert!(
        kinds
            .map(|kind| &kind["type"])
            .all(|kind| kind != "server_disconnected"),
        "{result}"
    );
    assert_eq!(
        result["pending_client"],
        json!({"sampling": 0, "elicitation": 0})
    );
    let failure = call_failing(
        &client,
        "await_activity",
        json!({"last_event_id": "yesterday"}),
    )
    .await;
    assert_eq!(failure["error"], "invalid_request");
}

/// A wait also ends when the client cancels it, or when Mainstay stops.
#[tokio::test]
async fn a_wait_can_be_given_up() {
    let backend = Backend::http().await;
    let gateway = gateway(&[("x", &backend)], &["activity"]).await;
    let client = gateway.client().await;
    client.assert_echo("x__echo").await;
    let wait = json!({"name": "await_activity", "arguments": {"timeout_ms": 900_000}});
    let text = client.request_text("tools/call", &wait.to_string());
    let id = value(&text)["id"].clone();
    let mut stream = client.begin(text).await;
    client.cancel(&id).await;
    soon("the end of the answer", stream.rest()).await;
    let waiting_result = client
        .begin(client.request_text("tools/call", &wait.to_string()))
        .await;
    let started_at = Instant::now();
    gateway.stop().await;
    assert!(started_at.elapsed() < Duration::from_secs(9), "T8");
    drop(waiting_result);
}

/// Waits for a question of a server. Returns the first question that `tool` lists.
async fn pending_request(client: &Http, tool: &str) -> Value {
    let pending_reads = async {
        loop {
            let result = call_ok(client, "await_activity", json!({"timeout_ms": 10_000})).await;
            if result["triggered_by"] == "pending" {
                return result;
            }
        }
    };
    let result = soon("a question", pending_reads).await;
    assert_eq!(result["pending_server"], 1, "the call that asks: {result}");
    let result = call_ok(client, tool, json!({})).await;
    result["requests"][0].clone()
}

/// Tools answer questions of servers that no client can answer (Y8, Z2).
#[tokio::test]
async fn servers_are_answered_by_tools() {
    let backend = Backend::start(BackendKind::Http, &[])
        .await
        .option("serverRequests", "queue");
    let gateway = gateway(&[("x", &backend)], &["activity"]).await;
    let (client, other_client) = (gateway.client().await, gateway.client().await);
    let ask = |method: &str| {
        let arguments = json!({"method": method, "params": {"asked": method}});
        client.call_text("x__ask", arguments)
    };
    let (answer, ()) = tokio::join!(ask(SAMPLING), async {
        let request = pending_request(&other_client, "get_sampling_requests").await;
        assert_eq!(
            (&request["server"], &request["params"]["asked"]),
            (&json!("x"), &json!(SAMPLING))
        );
        let empty_result = call_ok(&other_client, "get_elicitations", json!({})).await;
        assert_eq!(empty_result["requests"], json!([]), "each kind by itself");
        let id = &request["request_id"];
        let wrong_response = json!({"request_id": id, "action": "decline"});
        let failure = call_failing(&other_client, "respond_to_elicitation", wrong_response).await;
        assert_eq!(failure["error"], "request_not_found", "{failure}");
        let reply = json!({"request_id": id, "content": "by tool", "model": "m"});
        let final_result = call_ok(&other_client, "respond_to_sampling", reply.clone()).await;
        assert_eq!(final_result, json!({"success": true, "request_id": id}));
        let failure = call_failing(&other_client, "respond_to_sampling", reply).await;
        assert_eq!(failure["error"], "request_not_found", "once: {failure}");
    });
    for part in ["by tool", "assistant", "endTurn", "\"m\""] {
        assert!(answer.contains(part), "{part}: {answer}");
    }
    let (answer, ()) = tokio::join!(ask("elicitation/create"), async {
        let request = pending_request(&other_client, "get_elicitations").await;
        // Send the id as a number, as models often do.
        let id: u64 = request["request_id"]
            .as_str()
            .and_then(|id| id.parse().ok())
            .expect("an id");
        let reply = json!({"request_id": id, "action": "accept", "content": {"name": "Ada"}});
        call_ok(&other_client, "respond_to_elicitation", reply).await;
    });
    assert!(
        answer.contains("accept") && answer.contains("Ada"),
        "{answer}"
    );
    for (method, list, tool) in [
        (SAMPLING, "get_sampling_requests", "cancel_sampling_request"),
        (
            "elicitation/create",
            "get_elicitations",
            "cancel_elicitation_request",
        ),
    ] {
        let (answer, ()) = tokio::join!(ask(method), async {
            let request = pending_request(&other_client, list).await;
            let failure = json!({"request_id": request["request_id"], "reason": "not today"});
            call_ok(&other_client, tool, failure).await;
        });
        assert!(answer.contains("not today"), "{answer}");
    }
}

/// Only clients with the token of a call can see and answer the questions of that call (Q7).
#[tokio::test]
async fn questions_of_another_token_are_nobodys_here() {
    let backend = Backend::start(BackendKind::Http, &[])
        .await
        .option("serverRequests", "queue");
    let tokens = Tokens::from(Secret::new(TOKEN));
    let config_json = config(&[("x", &backend)], json!({"ownTools": ["activity"]}));
    let gateway = Gateway::guarded(
        &config_json,
        GatewayOptions::default(),
        tokens.clone(),
        |address| address,
    )
    .await;
    let token_client = async |token: &str| {
        let mut client = gateway.stranger("/mcp");
        client.token = Some(token.to_owned());
        client.initialize(LATEST).await;
        client
    };
    let token = |name: &str| tokens.add(name, None).expect("added").0.expose().to_owned();
    let (ada_token, alan_token) = (token("ada"), token("alan"));
    let (ada, second_client, alan) = (
        token_client(&ada_token).await,
        token_client(&ada_token).await,
        token_client(&alan_token).await,
    );
    let operator = token_client(TOKEN).await;
    let ask = json!({"method": SAMPLING, "params": {}});
    let (answer, ()) = tokio::join!(ada.call_text("x__ask", ask), async {
        // Another session with the same token sees the question.
        let request = pending_request(&second_client, "get_sampling_requests").await;
        let result = call_ok(&operator, "get_sampling_requests", json!({})).await;
        assert_eq!(result["requests"][0]["request_id"], request["request_id"]);
        let result = call_ok(&alan, "get_sampling_requests", json!({})).await;
        assert_eq!(result["requests"], json!([]), "another's");
        let result = call_ok(&alan, "await_activity", json!({"timeout_ms": 100})).await;
        assert_eq!(result["pending_client"]["sampling"], 0, "{result}");
        let mut reply =
            json!({"request_id": request["request_id"], "content": "hers", "model": "m"});
        for tool in ["respond_to_sampling", "cancel_sampling_request"] {
            let arguments = match tool {
                "respond_to_sampling" => reply.clone(),
                _ => json!({"request_id": request["request_id"]}),
            };
            let failure = call_failing(&alan, tool, arguments).await;
            assert_eq!(failure["error"], "request_not_found", "{tool}: {failure}");
        }
        reply["content"] = "by tool".into();
        call_ok(&second_client, "respond_to_sampling", reply).await;
    });
    assert!(answer.contains("by tool"), "{answer}");
}

/// If tokens are optional, a client without a token cannot see or answer the questions of a client
/// with a token.
#[tokio::test]
async fn questions_of_a_token_are_hidden_from_clients_without_one() {
    let backend = Backend::start(BackendKind::Http, &[])
        .await
        .option("serverRequests", "queue");
    let tokens = Tokens::from(Secret::new(TOKEN));
    let settings = json!({"ownTools": ["activity"], "http": {"requireToken": false}});
    let config_json = config(&[("x", &backend)], settings);
    let gateway = Gateway::guarded(
        &config_json,
        GatewayOptions::default(),
        tokens.clone(),
        |address| address,
    )
    .await;
    let mut ada = gateway.stranger("/mcp");
    let token = tokens.add("ada", None).expect("added").0;
    ada.token = Some(token.expose().to_owned());
    ada.initialize(LATEST).await;
    let (first_client, other_client) = (gateway.client().await, gateway.client().await);
    let ask = json!({"method": SAMPLING, "params": {}});
    let reply = |request: &Value, content| json!({"request_id": request["request_id"], "content": content, "model": "m"});
    let (answer, ()) = tokio::join!(ada.call_text("x__ask", ask.clone()), async {
        let request = pending_request(&ada, "get_sampling_requests").await;
        let result = call_ok(&first_client, "get_sampling_requests", json!({})).await;
        assert_eq!(result["requests"], json!([]), "another's");
        let result = call_ok(&first_client, "await_activity", json!({"timeout_ms": 100})).await;
        assert_eq!(result["pending_client"]["sampling"], 0, "{result}");
        let failure = call_failing(
            &first_client,
            "respond_to_sampling",
            reply(&request, "forged"),
        )
        .await;
        assert_eq!(failure["error"], "request_not_found", "{failure}");
        call_ok(&ada, "respond_to_sampling", reply(&request, "hers")).await;
    });
    assert!(answer.contains("hers"), "{answer}");
    // Clients without a token can answer each other's questions.
    let (answer, ()) = tokio::join!(first_client.call_text("x__ask", ask), async {
        let request = pending_request(&other_client, "get_sampling_requests").await;
        let result = call_ok(&ada, "get_sampling_requests", json!({})).await;
        assert_eq!(result["requests"], json!([]), "another's");
        call_ok(
            &other_client,
            "respond_to_sampling",
            reply(&request, "by tool"),
        )
        .await;
    });
    assert!(answer.contains("by tool"), "{answer}");
}

/// The event about a reload lists only servers of the client's profile.
#[tokio::test]
async fn a_reload_names_no_server_that_the_profile_hides() {
    let (shown_backend, hidden_backend) = (Backend::http().await, Backend::http().await);
    let small_profile = json!({"servers": ["x"], "ownTools": ["activity"]});
    let settings = json!({"profiles": {"small": small_profile}, "ownTools": ["activity"]});
    let file = File::with_servers(&[("x", &shown_backend)]);
    file.write_with(&[("x", &shown_backend)], settings.clone());
    let gateway = file.run().await;
    let (part, full_client) = (
        gateway.client_at("/mcp/small").await,
        gateway.client().await,
    );
    part.assert_echo("x__echo").await;
    let place = call_ok(&part, "await_activity", json!({"timeout_ms": 100})).await;
    let place = place["last_event_id"].clone();
    file.write_with(
        &[("x", &shown_backend), ("hidden", &hidden_backend)],
        settings.clone(),
    );
    reload(&gateway).await;
    file.write_with(&[("hidden", &hidden_backend)], settings);
    reload(&gateway).await;
    let wait = json!({"last_event_id": place, "timeout_ms": 1000});
    let reloads = |result: &Value| -> Vec<Value> {
        let events = result["events"].as_array().expect("a list").iter();
        events
            .filter(|event| event["type"] == "config_reloaded")
            .map(|event| event["data"].clone())
            .collect()
    };
    let result = call_ok(&part, "await_activity", wait.clone()).await;
    assert!(!result.to_string().contains("hidden"), "{result}");
    let removal = json!({"added": [], "removed": ["x"], "changed": []});
    assert_eq!(reloads(&result), std::slice::from_ref(&removal), "{result}");
    let result = call_ok(&full_client, "await_activity", wait).await;
    let addition = json!({"added": ["hidden"], "removed": [], "changed": []});
    assert_eq!(reloads(&result), [addition, removal], "{result}");
}

/// Tools read prompts, resources and logs of servers page by page (Z2).
#[tokio::test]
async fn lists_are_read_page_by_page() {
    let many_tools = Backend::start(BackendKind::Http, &["--tools", "150"]).await;
    let (other_backend, line) = (Backend::stdio().await, "a line of its log");
    let gateway = gateway(
        &[("many", &many_tools), ("other", &other_backend)],
        &["activity"],
    )
    .await;
    let client = gateway.client().await;
    let mut names = Vec::new();
    let mut page = json!({"server": "many"});
    loop {
        let result = call_ok(&client, "list_tools", page.clone()).await;
        for tool in result["tools"].as_array().expect("a list") {
            assert!(
                tool["server"] == "many" && tool.get("inputSchema").is_none(),
                "{tool}"
            );
            names.push(tool["name"].to_string());
        }
        let Some(cursor) = result["next_cursor"].as_str() else {
            break;
        };
        page["cursor"] = cursor.into();
    }
    assert!(
        names.len() > 150 && names.contains(&"\"many__tool_150\"".to_owned()),
        "{names:?}"
    );
    for (tool, member, key) in [
        ("list_resources", "resources", "uri"),
        (
            "list_resource_templates",
            "resourceTemplates",
            "uriTemplate",
        ),
        ("list_prompts", "prompts", "name"),
    ] {
        let result = call_ok(&client, tool, json!({"server": "other"})).await;
        assert!(result[member][0][key].is_string(), "{result}");
        assert_eq!(result[member][0]["server"], "other", "{result}");
    }
    let read_arguments = json!({"server": "other", "uri": "fake://text"});
    let result = call_ok(&client, "read_resource", read_arguments).await;
    assert_eq!(result["contents"][0]["text"], "the text of the fake");
    for name in [
        json!({"name": "other/greet"}),
        json!({"server": "other", "name": "greet"}),
    ] {
        let mut get = name.clone();
        get["arguments"] = json!({"name": "Ada"});
        let result = call_ok(&client, "get_prompt", get).await;
        assert_eq!(
            result["messages"][0]["content"]["text"], "Please greet Ada.",
            "{name}"
        );
    }
    client.call("other__stderr", json!({"text": line})).await;
    let logged_result = async {
        loop {
            let result = call_ok(&client, "get_logs", json!({"server": "other"})).await;
            if result.to_string().contains(line) {
                return result;
            }
        }
    };
    soon("the line", logged_result).await;
    for (tool, arguments, kind) in [
        ("list_tools", json!({"cursor": "9999"}), "invalid_request"),
        (
            "get_prompt",
            json!({"name": "other/nothing"}),
            "prompt_not_found",
        ),
        ("get_logs", json!({"server": "nosuch"}), "server_not_found"),
    ] {
        let failure = call_failing(&client, tool, arguments).await;
        assert_eq!(failure["error"], kind, "{tool}: {failure}");
    }
}
