//! Own tools of the group `control`. They are only for the control token, and a command starts only
//! after approval.

use serde_json::{Value, json};

use super::{call_failing, call_ok, gateway};
use crate::{
    backend::Backend,
    client::{Http, LATEST},
    gateway::Gateway,
    rest_client::TOKEN,
};

pub async fn operator(gateway: &Gateway) -> Http {
    let mut client = gateway.stranger("/mcp");
    client.token = Some(TOKEN.to_owned());
    client.initialize(LATEST).await;
    client
}

fn find_named(entry: &Value, name: &str) -> Value {
    let mut entry = entry.clone();
    entry["name"] = name.into();
    entry
}

/// A call without the control token fails and changes nothing.
#[tokio::test]
async fn only_the_operator_is_obeyed() {
    let backend = Backend::http().await;
    let gateway = gateway(&[("x", &backend)], &["control"]).await;
    let client = gateway.client().await;
    for (tool, arguments) in [
        ("add_server", find_named(&backend.entry, "y")),
        ("remove_server", json!({"name": "x"})),
        ("enable_server", json!({"name": "x"})),
        ("disable_server", json!({"name": "x"})),
    ] {
        let failure = call_failing(&client, tool, arguments).await;
        assert_eq!(failure["error"], "forbidden", "{tool}: {failure}");
    }
    let mut pipe = gateway.pipe().await;
    let result = pipe.call("remove_server", json!({"name": "x"})).await;
    assert!(
        super::result_json(&result).1,
        "stdio is no operator: {result}"
    );
    let names: Vec<_> = gateway
        .registry()
        .servers()
        .iter()
        .map(|server| server.name.to_string())
        .collect();
    assert_eq!(names, ["x"]);
    client.assert_echo("x__echo").await;
}

/// Tools add, disable, enable and remove servers at run time (A33).
#[tokio::test]
async fn servers_are_added_switched_and_removed() {
    let backend = Backend::http().await;
    let gateway = gateway(&[], &["control"]).await;
    let client = operator(&gateway).await;
    let added_server = call_ok(&client, "add_server", find_named(&backend.entry, "y")).await;
    assert_eq!(
        added_server,
        json!({"success": true, "name": "y", "status": "connected"})
    );
    client.assert_echo("y__echo").await;
    for (tool, arguments, kind) in [
        (
            "add_server",
            find_named(&backend.entry, "y"),
            "duplicate_name",
        ),
        ("add_server", json!({"name": "z"}), "invalid_config"),
        (
            "add_server",
            json!({"url": "http://localhost"}),
            "invalid_request",
        ),
        ("remove_server", json!({"name": "z"}), "server_not_found"),
        ("enable_server", json!({"name": "z"}), "server_not_found"),
    ] {
        let failure = call_failing(&client, tool, arguments.clone()).await;
        assert_eq!(failure["error"], kind, "{arguments}: {failure}");
    }
    let disabled_result = call_ok(&client, "disable_server", json!({"name": "y"})).await;
    assert_eq!(
        disabled_result["status"], "disconnected",
        "{disabled_result}"
    );
    assert!(!client.tools().await.contains(&"y__echo".to_owned()), "Y16");
    let enabled_result = call_ok(&client, "enable_server", json!({"name": "y"})).await;
    assert_eq!(enabled_result["status"], "connected", "{enabled_result}");
    client.assert_echo("y__echo").await;
    call_ok(&client, "remove_server", json!({"name": "y"})).await;
    assert!(gateway.registry().servers().is_empty());
}

/// An entry with a command waits for approval over REST. So does an entry whose URL or headers have
/// references.
#[tokio::test]
async fn a_command_waits_until_a_person_has_seen_it() {
    let (backend, remote) = (Backend::stdio().await, Backend::http().await);
    let gateway = gateway(&[], &["control", "meta"]).await;
    let client = operator(&gateway).await;
    let added_server = call_ok(&client, "add_server", find_named(&backend.entry, "y")).await;
    assert_eq!(added_server["status"], "pending", "{added_server}");
    let command = &added_server["pending"]["command"];
    assert_eq!(command[0], backend.entry["command"], "{added_server}");
    assert_eq!(command[1], "stdio", "with its arguments: {added_server}");
    // No tool can start the pending server.
    for (tool, arguments) in [
        ("enable_server", json!({"name": "y"})),
        ("reconnect_server", json!({"name": "y"})),
        ("execute_tool", json!({"name": "y__echo"})),
    ] {
        client.call(tool, arguments).await;
    }
    let servers = call_ok(&client, "list_servers", json!({})).await;
    assert_eq!(
        (&servers[0]["name"], &servers[0]["status"]),
        (&json!("y"), &json!("pending")),
        "{servers}"
    );
    assert!(backend.received().is_empty(), "it was never started");

    let mut entry = find_named(&remote.entry, "z");
    entry["headers"] = json!({"x-secret": "${file:/etc/hostname}"});
    let sent_result = call_ok(&client, "add_server", entry).await;
    assert_eq!(sent_result["status"], "pending", "{sent_result}");
    assert!(remote.received().is_empty());

    let pending_entry = gateway.rest().server("y").await["pending"].clone();
    let requester = json!({"client": "tests", "door": "mcp_http", "principal": "operator"});
    assert_eq!(pending_entry["requestedBy"], requester, "{pending_entry}");
    let current_time = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .expect("after 1970");
    let requested_at = pending_entry["requestedAt"].as_u64().expect("a time");
    let age_ms = current_time.as_millis() - u128::from(requested_at);
    assert!(age_ms < 60_000, "{pending_entry}");
    assert_eq!(
        pending_entry["requestedAt"],
        added_server["pending"]["requestedAt"]
    );
    let listed_entry = &servers[0]["pending"];
    assert!(
        listed_entry.get("requestedBy").is_some(),
        "the operator's client: {servers}"
    );

    let digest = &added_server["pending"]["digest"];
    let approval = async |body: Value| gateway.rest().post("/api/servers/y/approve", body).await;
    let (status, approval_answer) = approval(json!({})).await;
    assert_eq!(
        (status.as_u16(), &approval_answer["error"]),
        (409, &json!("not_as_shown"))
    );
    // An approval of an entry that was replaced is refused.
    call_ok(&client, "remove_server", json!({"name": "y"})).await;
    let mut entry = find_named(&backend.entry, "y");
    entry["env"] = json!({"NODE_OPTIONS": "--require /tmp/x.js"});
    let other_entry = call_ok(&client, "add_server", entry.clone()).await;
    assert_eq!(other_entry["pending"]["env"], entry["env"], "{other_entry}");
    let (status, approval_answer) = approval(json!({"digest": digest})).await;
    assert_eq!(
        (status.as_u16(), &approval_answer["error"]),
        (409, &json!("not_as_shown"))
    );
    assert!(backend.received().is_empty(), "it was never started");
    call_ok(&client, "remove_server", json!({"name": "y"})).await;
    call_ok(&client, "add_server", find_named(&backend.entry, "y")).await;
    let (status, approval_answer) = approval(json!({"digest": digest})).await;
    assert_eq!(status, 200, "{approval_answer}");
    client.assert_echo("y__echo").await;
}

/// Only clients that may approve see the whole command, because arguments may be secret. No client
/// sees the values of references.
#[tokio::test]
async fn others_see_the_program_alone() {
    let gateway = gateway(&[], &["control", "meta"]).await;
    let (operator, client) = (operator(&gateway).await, gateway.client().await);
    let command = json!({"name": "y", "command": "npx", "args": ["s3cret"], "env": {"A": "s3cret"}, "cwd": "/s3cret"});
    // `PATH` is set in every environment, so this reference has a value.
    let home = std::env::var("PATH").expect("it is set");
    let remote = json!({"name": "z", "url": "http://127.0.0.1:1/${PATH}?key=s3cret"});
    for entry in [command, remote] {
        let added_server = call_ok(&operator, "add_server", entry).await;
        assert_eq!(added_server["status"], "pending", "{added_server}");
        assert!(
            added_server.to_string().contains("s3cret"),
            "{added_server}"
        );
        assert!(!added_server.to_string().contains(&home), "{added_server}");
    }
    let result = call_ok(&client, "list_servers", json!({})).await;
    assert_eq!(
        result[0]["pending"],
        json!({"command": ["npx"]}),
        "{result}"
    );
    assert_eq!(
        result[1]["pending"],
        json!({"url": "http://127.0.0.1:1/${PATH}"}),
        "{result}"
    );
    for secret_text in ["s3cret", &home] {
        assert!(!result.to_string().contains(secret_text), "{result}");
    }
    let result = call_ok(&operator, "list_servers", json!({})).await;
    assert_eq!(
        result[0]["pending"]["entry"]["args"],
        json!(["s3cret"]),
        "{result}"
    );
}

/// Unknown keys are reported for pending servers and for running servers.
#[tokio::test]
async fn unknown_keys_of_an_entry_are_reported() {
    let (command, remote) = (Backend::stdio().await, Backend::http().await);
    let gateway = gateway(&[], &["control"]).await;
    let client = operator(&gateway).await;
    for (name, backend) in [("y", &command), ("z", &remote)] {
        let mut entry = find_named(&backend.entry, name);
        entry["timeuot"] = 5000.into();
        let added_server = call_ok(&client, "add_server", entry).await;
        assert!(
            added_server["warnings"][0].to_string().contains("timeuot"),
            "{added_server}"
        );
    }
}
