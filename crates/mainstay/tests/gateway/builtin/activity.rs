//! Group `activity` (Z2): waiting for what happens, and answering servers by tools.

use std::time::{Duration, Instant};

use mainstay_core::config::Secret;
use mainstay_gateway::GatewayOptions;
use mainstay_tokens::Tokens;
use serde_json::{Value, json};

use super::{fails, gateway, says};
use crate::{
    backend::{Backend, Kind},
    client::{Http, LATEST, value},
    gateway::{Gateway, config, soon},
    reloading::{File, reload},
    rest_client::TOKEN,
};

const SAMPLING: &str = "sampling/createMessage";

/// What happens ends the wait; the next one goes on after it.
#[tokio::test]
async fn what_happens_ends_the_wait() {
    let backend = Backend::http().await;
    let gateway = gateway(&[("x", &backend)], &["activity"]).await;
    let client = gateway.client().await;
    client.hears("x__echo").await;
    let silent = says(&client, "await_activity", json!({"timeout_ms": 100})).await;
    assert_eq!(
        (&silent["triggered_by"], &silent["events"]),
        (&json!("timeout"), &json!([])),
        "{silent}"
    );
    let place = silent["last_event_id"].clone();
    let other = gateway.client().await;
    let wait = json!({"last_event_id": place, "timeout_ms": 900_000});
    let rest = gateway.rest();
    let (heard, _) = tokio::join!(
        soon("an event", says(&other, "await_activity", wait)),
        rest.done("x", "stop")
    );
    assert_eq!(heard["triggered_by"], "event", "{heard}");
    assert_eq!(
        heard["events"][0]["type"], "server_disconnected",
        "I6: {heard}"
    );
    assert_eq!(heard["events"][0]["data"]["wasIntentional"], true);
    rest.done("x", "start").await;
    let wait = json!({"last_event_id": heard["last_event_id"]});
    let heard = says(&client, "await_activity", wait).await;
    let kinds = heard["events"].as_array().expect("a list").iter();
    assert!(
        kinds
            .map(|it| &it["type"])
            .all(|kind| kind != "server_disconnected"),
        "{heard}"
    );
    assert_eq!(
        heard["pending_client"],
        json!({"sampling": 0, "elicitation": 0})
    );
    let said = fails(
        &client,
        "await_activity",
        json!({"last_event_id": "yesterday"}),
    )
    .await;
    assert_eq!(said["error"], "invalid_request");
}

/// A wait that the client gives up ends, and so does one when Mainstay stops.
#[tokio::test]
async fn a_wait_can_be_given_up() {
    let backend = Backend::http().await;
    let gateway = gateway(&[("x", &backend)], &["activity"]).await;
    let client = gateway.client().await;
    client.hears("x__echo").await;
    let wait = json!({"name": "await_activity", "arguments": {"timeout_ms": 900_000}});
    let text = client.request_text("tools/call", &wait.to_string());
    let id = value(&text)["id"].clone();
    let mut stream = client.begin(text).await;
    client.cancel(&id).await;
    soon("the end of the answer", stream.rest()).await;
    let waiting = client
        .begin(client.request_text("tools/call", &wait.to_string()))
        .await;
    let began = Instant::now();
    gateway.stop().await;
    assert!(began.elapsed() < Duration::from_secs(9), "T8");
    drop(waiting);
}

/// Waits until a server asks, and returns what `tool` shows.
async fn asked(client: &Http, tool: &str) -> Value {
    let pending = async {
        loop {
            let heard = says(client, "await_activity", json!({"timeout_ms": 10_000})).await;
            if heard["triggered_by"] == "pending" {
                return heard;
            }
        }
    };
    let heard = soon("a question", pending).await;
    assert_eq!(heard["pending_server"], 1, "the call that asks: {heard}");
    let shown = says(client, tool, json!({})).await;
    shown["requests"][0].clone()
}

/// Y8, Z2: what no client could be asked is answered by tools.
#[tokio::test]
async fn servers_are_answered_by_tools() {
    let backend = Backend::start(Kind::Http, &[])
        .await
        .option("serverRequests", "queue");
    let gateway = gateway(&[("x", &backend)], &["activity"]).await;
    let (client, other) = (gateway.client().await, gateway.client().await);
    let ask = |method: &str| {
        let arguments = json!({"method": method, "params": {"asked": method}});
        client.say("x__ask", arguments)
    };
    let (answer, ()) = tokio::join!(ask(SAMPLING), async {
        let request = asked(&other, "get_sampling_requests").await;
        assert_eq!(
            (&request["server"], &request["params"]["asked"]),
            (&json!("x"), &json!(SAMPLING))
        );
        let none = says(&other, "get_elicitations", json!({})).await;
        assert_eq!(none["requests"], json!([]), "each kind by itself");
        let id = &request["request_id"];
        let wrong = json!({"request_id": id, "action": "decline"});
        let said = fails(&other, "respond_to_elicitation", wrong).await;
        assert_eq!(said["error"], "request_not_found", "{said}");
        let reply = json!({"request_id": id, "content": "by tool", "model": "m"});
        let done = says(&other, "respond_to_sampling", reply.clone()).await;
        assert_eq!(done, json!({"success": true, "request_id": id}));
        let said = fails(&other, "respond_to_sampling", reply).await;
        assert_eq!(said["error"], "request_not_found", "once: {said}");
    });
    for part in ["by tool", "assistant", "endTurn", "\"m\""] {
        assert!(answer.contains(part), "{part}: {answer}");
    }
    let (answer, ()) = tokio::join!(ask("elicitation/create"), async {
        let request = asked(&other, "get_elicitations").await;
        // Models like to write numbers.
        let id: u64 = request["request_id"]
            .as_str()
            .and_then(|id| id.parse().ok())
            .expect("an id");
        let reply = json!({"request_id": id, "action": "accept", "content": {"name": "Ada"}});
        says(&other, "respond_to_elicitation", reply).await;
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
            let request = asked(&other, list).await;
            let refusal = json!({"request_id": request["request_id"], "reason": "not today"});
            says(&other, tool, refusal).await;
        });
        assert!(answer.contains("not today"), "{answer}");
    }
}

/// What a server asks because of one token's call is not another's to see, and not to answer (Q7).
#[tokio::test]
async fn questions_of_another_token_are_nobodys_here() {
    let backend = Backend::start(Kind::Http, &[])
        .await
        .option("serverRequests", "queue");
    let tokens = Tokens::from(Secret::new(TOKEN));
    let all = config(&[("x", &backend)], json!({"ownTools": ["activity"]}));
    let gateway = Gateway::guarded(&all, GatewayOptions::default(), tokens.clone(), |it| it).await;
    let bearing = async |token: &str| {
        let mut client = gateway.stranger("/mcp");
        client.token = Some(token.to_owned());
        client.initialize(LATEST).await;
        client
    };
    let token = |name: &str| tokens.add(name, None).expect("added").0.expose().to_owned();
    let (one, two) = (token("ada"), token("alan"));
    let (ada, second, alan) = (
        bearing(&one).await,
        bearing(&one).await,
        bearing(&two).await,
    );
    let operator = bearing(TOKEN).await;
    let ask = json!({"method": SAMPLING, "params": {}});
    let (answer, ()) = tokio::join!(ada.say("x__ask", ask), async {
        // A client with the same token is asked, in whatever session.
        let request = asked(&second, "get_sampling_requests").await;
        let seen = says(&operator, "get_sampling_requests", json!({})).await;
        assert_eq!(seen["requests"][0]["request_id"], request["request_id"]);
        let seen = says(&alan, "get_sampling_requests", json!({})).await;
        assert_eq!(seen["requests"], json!([]), "another's");
        let heard = says(&alan, "await_activity", json!({"timeout_ms": 100})).await;
        assert_eq!(heard["pending_client"]["sampling"], 0, "{heard}");
        let mut reply =
            json!({"request_id": request["request_id"], "content": "hers", "model": "m"});
        for tool in ["respond_to_sampling", "cancel_sampling_request"] {
            let arguments = match tool {
                "respond_to_sampling" => reply.clone(),
                _ => json!({"request_id": request["request_id"]}),
            };
            let said = fails(&alan, tool, arguments).await;
            assert_eq!(said["error"], "request_not_found", "{tool}: {said}");
        }
        reply["content"] = "by tool".into();
        says(&second, "respond_to_sampling", reply).await;
    });
    assert!(answer.contains("by tool"), "{answer}");
}

/// A client without a token, where none is required, sees and answers no question of a client with one.
#[tokio::test]
async fn questions_of_a_token_are_hidden_from_clients_without_one() {
    let backend = Backend::start(Kind::Http, &[])
        .await
        .option("serverRequests", "queue");
    let tokens = Tokens::from(Secret::new(TOKEN));
    let settings = json!({"ownTools": ["activity"], "http": {"requireToken": false}});
    let all = config(&[("x", &backend)], settings);
    let gateway = Gateway::guarded(&all, GatewayOptions::default(), tokens.clone(), |it| it).await;
    let mut ada = gateway.stranger("/mcp");
    let token = tokens.add("ada", None).expect("added").0;
    ada.token = Some(token.expose().to_owned());
    ada.initialize(LATEST).await;
    let (one, other) = (gateway.client().await, gateway.client().await);
    let ask = json!({"method": SAMPLING, "params": {}});
    let reply = |request: &Value, content| json!({"request_id": request["request_id"], "content": content, "model": "m"});
    let (answer, ()) = tokio::join!(ada.say("x__ask", ask.clone()), async {
        let request = asked(&ada, "get_sampling_requests").await;
        let seen = says(&one, "get_sampling_requests", json!({})).await;
        assert_eq!(seen["requests"], json!([]), "another's");
        let heard = says(&one, "await_activity", json!({"timeout_ms": 100})).await;
        assert_eq!(heard["pending_client"]["sampling"], 0, "{heard}");
        let said = fails(&one, "respond_to_sampling", reply(&request, "forged")).await;
        assert_eq!(said["error"], "request_not_found", "{said}");
        says(&ada, "respond_to_sampling", reply(&request, "hers")).await;
    });
    assert!(answer.contains("hers"), "{answer}");
    // Clients without a token answer each other's.
    let (answer, ()) = tokio::join!(one.say("x__ask", ask), async {
        let request = asked(&other, "get_sampling_requests").await;
        let seen = says(&ada, "get_sampling_requests", json!({})).await;
        assert_eq!(seen["requests"], json!([]), "another's");
        says(&other, "respond_to_sampling", reply(&request, "by tool")).await;
    });
    assert!(answer.contains("by tool"), "{answer}");
}

/// A reload names to a client only the servers that its profile shows.
#[tokio::test]
async fn a_reload_names_no_server_that_the_profile_hides() {
    let (x, y) = (Backend::http().await, Backend::http().await);
    let small = json!({"servers": ["x"], "ownTools": ["activity"]});
    let settings = json!({"profiles": {"small": small}, "ownTools": ["activity"]});
    let file = File::of(&[("x", &x)]);
    file.write_with(&[("x", &x)], settings.clone());
    let gateway = file.run().await;
    let (part, all) = (
        gateway.client_at("/mcp/small").await,
        gateway.client().await,
    );
    part.hears("x__echo").await;
    let place = says(&part, "await_activity", json!({"timeout_ms": 100})).await;
    let place = place["last_event_id"].clone();
    file.write_with(&[("x", &x), ("hidden", &y)], settings.clone());
    reload(&gateway).await;
    file.write_with(&[("hidden", &y)], settings);
    reload(&gateway).await;
    let wait = json!({"last_event_id": place, "timeout_ms": 1000});
    let reloads = |heard: &Value| -> Vec<Value> {
        let events = heard["events"].as_array().expect("a list").iter();
        events
            .filter(|event| event["type"] == "config_reloaded")
            .map(|event| event["data"].clone())
            .collect()
    };
    let heard = says(&part, "await_activity", wait.clone()).await;
    assert!(!heard.to_string().contains("hidden"), "{heard}");
    let gone = json!({"added": [], "removed": ["x"], "changed": []});
    assert_eq!(reloads(&heard), std::slice::from_ref(&gone), "{heard}");
    let heard = says(&all, "await_activity", wait).await;
    let come = json!({"added": ["hidden"], "removed": [], "changed": []});
    assert_eq!(reloads(&heard), [come, gone], "{heard}");
}

/// Z2: what servers offer, for clients that know tools only.
#[tokio::test]
async fn lists_are_read_page_by_page() {
    let many = Backend::start(Kind::Http, &["--tools", "150"]).await;
    let (other, line) = (Backend::stdio().await, "a line of its log");
    let gateway = gateway(&[("many", &many), ("other", &other)], &["activity"]).await;
    let client = gateway.client().await;
    let mut names = Vec::new();
    let mut page = json!({"server": "many"});
    loop {
        let said = says(&client, "list_tools", page.clone()).await;
        for tool in said["tools"].as_array().expect("a list") {
            assert!(
                tool["server"] == "many" && tool.get("inputSchema").is_none(),
                "{tool}"
            );
            names.push(tool["name"].to_string());
        }
        let Some(cursor) = said["next_cursor"].as_str() else {
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
        let said = says(&client, tool, json!({"server": "other"})).await;
        assert!(said[member][0][key].is_string(), "{said}");
        assert_eq!(said[member][0]["server"], "other", "{said}");
    }
    let read = json!({"server": "other", "uri": "fake://text"});
    let said = says(&client, "read_resource", read).await;
    assert_eq!(said["contents"][0]["text"], "the text of the fake");
    for name in [
        json!({"name": "other/greet"}),
        json!({"server": "other", "name": "greet"}),
    ] {
        let mut get = name.clone();
        get["arguments"] = json!({"name": "Ada"});
        let said = says(&client, "get_prompt", get).await;
        assert_eq!(
            said["messages"][0]["content"]["text"], "Please greet Ada.",
            "{name}"
        );
    }
    client.call("other__stderr", json!({"text": line})).await;
    let logged = async {
        loop {
            let said = says(&client, "get_logs", json!({"server": "other"})).await;
            if said.to_string().contains(line) {
                return said;
            }
        }
    };
    soon("the line", logged).await;
    for (tool, arguments, kind) in [
        ("list_tools", json!({"cursor": "9999"}), "invalid_request"),
        (
            "get_prompt",
            json!({"name": "other/nothing"}),
            "prompt_not_found",
        ),
        ("get_logs", json!({"server": "nosuch"}), "server_not_found"),
    ] {
        let said = fails(&client, tool, arguments).await;
        assert_eq!(said["error"], kind, "{tool}: {said}");
    }
}
