//! Group `control`: only for the operator's token, and never a command that no person has seen.

use serde_json::{Value, json};

use super::{fails, gateway, says};
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

fn named(entry: &Value, name: &str) -> Value {
    let mut entry = entry.clone();
    entry["name"] = name.into();
    entry
}

/// A client without the control token is told so, and nothing happens.
#[tokio::test]
async fn only_the_operator_is_obeyed() {
    let backend = Backend::http().await;
    let gateway = gateway(&[("x", &backend)], &["control"]).await;
    let client = gateway.client().await;
    for (tool, arguments) in [
        ("add_server", named(&backend.entry, "y")),
        ("remove_server", json!({"name": "x"})),
        ("enable_server", json!({"name": "x"})),
        ("disable_server", json!({"name": "x"})),
    ] {
        let said = fails(&client, tool, arguments).await;
        assert_eq!(said["error"], "forbidden", "{tool}: {said}");
    }
    let mut pipe = gateway.pipe().await;
    let said = pipe.call("remove_server", json!({"name": "x"})).await;
    assert!(super::said(&said).1, "stdio is no operator: {said}");
    let names: Vec<_> = gateway
        .registry()
        .servers()
        .iter()
        .map(|it| it.name.to_string())
        .collect();
    assert_eq!(names, ["x"]);
    client.hears("x__echo").await;
}

/// A33: servers come and go until the next restart.
#[tokio::test]
async fn servers_are_added_switched_and_removed() {
    let backend = Backend::http().await;
    let gateway = gateway(&[], &["control"]).await;
    let client = operator(&gateway).await;
    let added = says(&client, "add_server", named(&backend.entry, "y")).await;
    assert_eq!(
        added,
        json!({"success": true, "name": "y", "status": "connected"})
    );
    client.hears("y__echo").await;
    for (tool, arguments, kind) in [
        ("add_server", named(&backend.entry, "y"), "duplicate_name"),
        ("add_server", json!({"name": "z"}), "invalid_config"),
        (
            "add_server",
            json!({"url": "http://localhost"}),
            "invalid_request",
        ),
        ("remove_server", json!({"name": "z"}), "server_not_found"),
        ("enable_server", json!({"name": "z"}), "server_not_found"),
    ] {
        let said = fails(&client, tool, arguments.clone()).await;
        assert_eq!(said["error"], kind, "{arguments}: {said}");
    }
    let off = says(&client, "disable_server", json!({"name": "y"})).await;
    assert_eq!(off["status"], "disconnected", "{off}");
    assert!(!client.tools().await.contains(&"y__echo".to_owned()), "Y16");
    let on = says(&client, "enable_server", json!({"name": "y"})).await;
    assert_eq!(on["status"], "connected", "{on}");
    client.hears("y__echo").await;
    says(&client, "remove_server", json!({"name": "y"})).await;
    assert!(gateway.registry().servers().is_empty());
}

/// What would run a command, or sends what a reference names, waits for a person; REST is outside of MCP.
#[tokio::test]
async fn a_command_waits_until_a_person_has_seen_it() {
    let (backend, remote) = (Backend::stdio().await, Backend::http().await);
    let gateway = gateway(&[], &["control", "meta"]).await;
    let client = operator(&gateway).await;
    let added = says(&client, "add_server", named(&backend.entry, "y")).await;
    assert_eq!(added["status"], "pending", "{added}");
    let shown = &added["pending"]["command"];
    assert_eq!(shown[0], backend.entry["command"], "{added}");
    assert_eq!(shown[1], "stdio", "with its arguments: {added}");
    // Nothing that a client can do starts it.
    for (tool, arguments) in [
        ("enable_server", json!({"name": "y"})),
        ("reconnect_server", json!({"name": "y"})),
        ("execute_tool", json!({"name": "y__echo"})),
    ] {
        client.call(tool, arguments).await;
    }
    let servers = says(&client, "list_servers", json!({})).await;
    assert_eq!(
        (&servers[0]["name"], &servers[0]["status"]),
        (&json!("y"), &json!("pending")),
        "{servers}"
    );
    assert!(backend.received().is_empty(), "it was never started");

    let mut entry = named(&remote.entry, "z");
    entry["headers"] = json!({"x-secret": "${file:/etc/hostname}"});
    let sent = says(&client, "add_server", entry).await;
    assert_eq!(sent["status"], "pending", "{sent}");
    assert!(remote.received().is_empty());

    let told = gateway.rest().server("y").await["pending"].clone();
    let by = json!({"client": "tests", "door": "mcp_http", "principal": "operator"});
    assert_eq!(told["requestedBy"], by, "{told}");
    let now = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .expect("after 1970");
    let at = told["requestedAt"].as_u64().expect("a time");
    let age = now.as_millis() - u128::from(at);
    assert!(age < 60_000, "{told}");
    assert_eq!(told["requestedAt"], added["pending"]["requestedAt"]);
    let seen = &servers[0]["pending"];
    assert!(
        seen.get("requestedBy").is_some(),
        "the operator's client: {servers}"
    );

    let digest = &added["pending"]["digest"];
    let approve = async |body: Value| gateway.rest().post("/api/servers/y/approve", body).await;
    let (status, approved) = approve(json!({})).await;
    assert_eq!(
        (status.as_u16(), &approved["error"]),
        (409, &json!("not_as_shown"))
    );
    // An entry that was put in its place since it was shown is not what was approved.
    says(&client, "remove_server", json!({"name": "y"})).await;
    let mut entry = named(&backend.entry, "y");
    entry["env"] = json!({"NODE_OPTIONS": "--require /tmp/x.js"});
    let other = says(&client, "add_server", entry.clone()).await;
    assert_eq!(other["pending"]["env"], entry["env"], "{other}");
    let (status, approved) = approve(json!({"digest": digest})).await;
    assert_eq!(
        (status.as_u16(), &approved["error"]),
        (409, &json!("not_as_shown"))
    );
    assert!(backend.received().is_empty(), "it was never started");
    says(&client, "remove_server", json!({"name": "y"})).await;
    says(&client, "add_server", named(&backend.entry, "y")).await;
    let (status, approved) = approve(json!({"digest": digest})).await;
    assert_eq!(status, 200, "{approved}");
    client.hears("y__echo").await;
}

/// Only a client that may approve a command sees all of it: its arguments may be secret, and values of
/// references are shown to none.
#[tokio::test]
async fn others_see_the_program_alone() {
    let gateway = gateway(&[], &["control", "meta"]).await;
    let (operator, client) = (operator(&gateway).await, gateway.client().await);
    let command = json!({"name": "y", "command": "npx", "args": ["s3cret"], "env": {"A": "s3cret"}, "cwd": "/s3cret"});
    // This variable is set wherever tests run.
    let home = std::env::var("PATH").expect("it is set");
    let remote = json!({"name": "z", "url": "http://127.0.0.1:1/${PATH}?key=s3cret"});
    for entry in [command, remote] {
        let added = says(&operator, "add_server", entry).await;
        assert_eq!(added["status"], "pending", "{added}");
        assert!(added.to_string().contains("s3cret"), "{added}");
        assert!(!added.to_string().contains(&home), "{added}");
    }
    let seen = says(&client, "list_servers", json!({})).await;
    assert_eq!(seen[0]["pending"], json!({"command": ["npx"]}), "{seen}");
    assert_eq!(
        seen[1]["pending"],
        json!({"url": "http://127.0.0.1:1/${PATH}"}),
        "{seen}"
    );
    for hidden in ["s3cret", &home] {
        assert!(!seen.to_string().contains(hidden), "{seen}");
    }
    let seen = says(&operator, "list_servers", json!({})).await;
    assert_eq!(
        seen[0]["pending"]["entry"]["args"],
        json!(["s3cret"]),
        "{seen}"
    );
}

/// A mistyped key is told, whether the server waits or is there at once.
#[tokio::test]
async fn what_is_odd_about_an_entry_is_told() {
    let (command, remote) = (Backend::stdio().await, Backend::http().await);
    let gateway = gateway(&[], &["control"]).await;
    let client = operator(&gateway).await;
    for (name, backend) in [("y", &command), ("z", &remote)] {
        let mut entry = named(&backend.entry, name);
        entry["timeuot"] = 5000.into();
        let added = says(&client, "add_server", entry).await;
        assert!(
            added["warnings"][0].to_string().contains("timeuot"),
            "{added}"
        );
    }
}
