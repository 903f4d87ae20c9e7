//! The target of a known name changes only after a person's approval, even if the operator's client
//! asks for it.

use mainstay_gateway::GatewayOptions;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{call_failing, call_ok, control::operator};
use crate::{
    backend::Backend,
    client::Http,
    gateway::{Gateway, until},
    world::{TestConfig, ok},
};

/// A configuration with these servers, and with own tools of the group `control`.
fn file(servers: &[(&str, &Value)]) -> Value {
    let entries = servers
        .iter()
        .map(|(name, entry)| ((*name).to_owned(), (*entry).clone()));
    json!({
        "mcpServers": entries.collect::<serde_json::Map<_, _>>(),
        "ownTools": ["control", "meta"],
    })
}

fn renamed_entry(entry: &Value, name: &str) -> Value {
    let mut entry = entry.clone();
    entry["name"] = name.into();
    entry
}

/// Adds a server and asserts that it waits for approval. Returns its pending entry.
async fn add_pending(client: &Http, entry: Value) -> Value {
    let added_server = call_ok(client, "add_server", entry.clone()).await;
    assert_eq!(added_server["status"], "pending", "{entry}: {added_server}");
    added_server["pending"].clone()
}

/// Tries to start a pending server with every tool. None of them is an approval.
async fn try_to_start(client: &Http, name: &str) {
    for (tool, arguments) in [
        ("enable_server", json!({"name": name})),
        ("disable_server", json!({"name": name})),
        ("enable_server", json!({"name": name})),
        ("reconnect_server", json!({"name": name})),
        ("execute_tool", json!({"name": format!("{name}__echo")})),
    ] {
        client.call(tool, arguments).await;
    }
}

async fn remove(client: &Http, name: &str) {
    call_ok(client, "remove_server", json!({"name": name})).await;
}

/// The client removes a configured server. Then it adds the name again with another target: in
/// other spellings, and with other variables and headers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_server_gets_no_other_target() {
    let (victim_backend, evil_backend) = (Backend::http().await, Backend::http().await);
    let mut entry = victim_backend.entry.clone();
    entry["headers"] = json!({"x-key": "s3cret"});
    let world = TestConfig::new_json(&file(&[("the-victim", &entry)]));
    let gateway = world.run().await;
    let client = operator(&gateway).await;
    client.assert_echo("the-victim__echo").await;
    // While the server exists, its name is taken. Other spellings of the name wait for approval.
    let failure = call_failing(
        &client,
        "add_server",
        renamed_entry(&evil_backend.entry, "the-victim"),
    )
    .await;
    assert_eq!(failure["error"], "duplicate_name", "{failure}");
    add_pending(&client, renamed_entry(&evil_backend.entry, "The_Victim")).await;
    remove(&client, "The_Victim").await;

    remove(&client, "the-victim").await;
    let sessions = victim_backend.count("initialize");
    for name in ["the-victim", "The-Victim", "the_victim", "THEVICTIM"] {
        let pending_entry = add_pending(&client, renamed_entry(&evil_backend.entry, name)).await;
        let url = victim_backend.entry["url"].as_str();
        assert_eq!(
            pending_entry["formerly"]["url"].as_str(),
            url,
            "{pending_entry}"
        );
        assert_eq!(
            pending_entry["formerly"]["headers"],
            json!(["x-key"]),
            "{pending_entry}"
        );
        assert!(
            !pending_entry["formerly"].to_string().contains("s3cret"),
            "{pending_entry}"
        );
        try_to_start(&client, name).await;
        remove(&client, name).await;
    }
    let entry_with = |key: &str, value: Value| {
        let mut entry = renamed_entry(&entry, "the-victim");
        entry[key] = value;
        entry
    };
    for entry in [
        entry_with("headers", json!({"x-key": "another"})),
        entry_with("headers", json!(null)),
        entry_with("bearerToken", json!("t")),
        entry_with("healthCheckUrl", evil_backend.entry["url"].clone()),
        entry_with("enabled", json!(false)),
    ] {
        let is_same = entry["enabled"] == false;
        let added_server = call_ok(&client, "add_server", entry.clone()).await;
        assert_eq!(
            added_server["status"] == "pending",
            !is_same,
            "{entry}: {added_server}"
        );
        remove(&client, "the-victim").await;
    }
    assert_eq!(victim_backend.count("initialize"), sessions);
    // The same name with the same target needs no approval.
    let added_server = call_ok(&client, "add_server", renamed_entry(&entry, "the-victim")).await;
    assert_eq!(added_server["status"], "connected", "{added_server}");
    remove(&client, "the-victim").await;

    // After an approval, the new target is the known one.
    let pending_entry =
        add_pending(&client, renamed_entry(&evil_backend.entry, "the-victim")).await;
    assert!(evil_backend.received().is_empty(), "nothing was connected");
    let approval = json!({"digest": pending_entry["digest"]});
    let rest = gateway.rest();
    ok(rest.post("/api/servers/the-victim/approve", approval).await);
    rest.until_status("the-victim", "connected").await;
    remove(&client, "the-victim").await;
    let added_server = call_ok(
        &client,
        "add_server",
        renamed_entry(&evil_backend.entry, "the-victim"),
    )
    .await;
    assert_eq!(added_server["status"], "connected", "{added_server}");
    remove(&client, "the-victim").await;
    add_pending(&client, renamed_entry(&entry, "the-victim")).await;
    // The operator changes the target over REST, which needs no approval.
    remove(&client, "the-victim").await;
    let answer = ok(rest
        .post(
            "/api/servers",
            renamed_entry(&victim_backend.entry, "the-victim"),
        )
        .await);
    assert_eq!(answer["status"], "connected", "{answer}");
}

/// The name of a removed server stays known, even if a client had added that server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_known_when_its_entry_has_gone() {
    let (victim_backend, evil_backend) = (Backend::http().await, Backend::http().await);
    let world = TestConfig::new_json(&file(&[("victim", &victim_backend.entry)]));
    let gateway = world.run().await;
    let (client, rest) = (operator(&gateway).await, gateway.rest());
    client.assert_echo("victim__echo").await;
    world.write(&file(&[]));
    ok(rest.post("/api/reload", json!({})).await);
    add_pending(&client, renamed_entry(&evil_backend.entry, "victim")).await;

    let added_server = call_ok(
        &client,
        "add_server",
        renamed_entry(&victim_backend.entry, "own"),
    )
    .await;
    assert_eq!(
        added_server["status"], "connected",
        "a new name: {added_server}"
    );
    remove(&client, "own").await;
    add_pending(&client, renamed_entry(&evil_backend.entry, "own")).await;

    // Names are also known of a server that the operator added, and of a server with an invalid
    // entry.
    ok(rest
        .post(
            "/api/servers",
            renamed_entry(&victim_backend.entry, "added"),
        )
        .await);
    ok(rest.delete("/api/servers/added").await);
    add_pending(&client, renamed_entry(&evil_backend.entry, "added")).await;
    world.write(&file(&[("wrong", &json!({"url": "nowhere"}))]));
    ok(rest.post("/api/reload", json!({})).await);
    remove(&client, "wrong").await;
    add_pending(&client, renamed_entry(&evil_backend.entry, "wrong")).await;
    // The target of a pending server does not become known. Another entry may replace it, and also
    // waits for approval.
    let command = json!({"name": "command", "command": "npx"});
    assert_eq!(add_pending(&client, command).await["formerly"], Value::Null);
    remove(&client, "command").await;
    assert!(evil_backend.received().is_empty(), "nothing was connected");
    let added_server = call_ok(
        &client,
        "add_server",
        renamed_entry(&evil_backend.entry, "command"),
    )
    .await;
    assert_eq!(added_server["status"], "connected", "{added_server}");
}

async fn run(world: &TestConfig, folder: &TempDir) -> (Gateway, Http) {
    let options = GatewayOptions {
        catalogs: Some(folder.path().to_owned()),
        ..GatewayOptions::default()
    };
    let gateway = world.run_with(options).await;
    let client = operator(&gateway).await;
    (gateway, client)
}

/// A name is still known after a restart, even if its server never connected or only its catalog
/// remains.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_known_after_a_restart() {
    let (victim_backend, evil_backend) = (Backend::http().await, Backend::http().await);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let unstarted_entry =
        json!({"command": "never-started", "args": ["--token", "s3cret"], "enabled": false});
    let world = TestConfig::new_json(&file(&[
        ("victim", &victim_backend.entry),
        ("never", &unstarted_entry),
    ]));
    let (gateway, client) = run(&world, &folder).await;
    client.assert_echo("victim__echo").await;
    let catalog = folder.path().join("victim.json");
    until("its catalog to be kept", || catalog.exists()).await;
    gateway.stop().await;
    world.write(&file(&[]));

    let (gateway, client) = run(&world, &folder).await;
    let pending_entry = add_pending(&client, renamed_entry(&evil_backend.entry, "victim")).await;
    assert_eq!(
        pending_entry["formerly"]["url"], victim_backend.entry["url"],
        "{pending_entry}"
    );
    let pending_entry = add_pending(&client, renamed_entry(&evil_backend.entry, "Never")).await;
    let redacted_command = json!(["never-started", "--token", "***"]);
    assert_eq!(
        pending_entry["formerly"]["command"], redacted_command,
        "{pending_entry}"
    );
    remove(&client, "victim").await;
    let added_server = call_ok(
        &client,
        "add_server",
        renamed_entry(&victim_backend.entry, "victim"),
    )
    .await;
    assert_eq!(
        added_server["status"], "connected",
        "its own target: {added_server}"
    );
    let added_server = call_ok(
        &client,
        "add_server",
        renamed_entry(&victim_backend.entry, "new"),
    )
    .await;
    assert_eq!(
        added_server["status"], "connected",
        "nobody's name: {added_server}"
    );
    gateway.stop().await;

    // Imitate the state directory of an older version, which stored no targets.
    let targets = folder.path().join(".targets.json");
    assert!(
        !std::fs::read_to_string(&targets)
            .expect("there")
            .contains("s3cret")
    );
    std::fs::remove_file(&targets).expect("removed");
    let (gateway, client) = run(&world, &folder).await;
    let pending_entry = add_pending(&client, renamed_entry(&evil_backend.entry, "victim")).await;
    assert_eq!(
        pending_entry["formerly"],
        json!({}),
        "it is not known: {pending_entry}"
    );
    gateway.stop().await;

    // If the file cannot be read, every name needs approval.
    std::fs::write(&targets, "[").expect("written");
    let (gateway, client) = run(&world, &folder).await;
    add_pending(&client, renamed_entry(&evil_backend.entry, "whatever")).await;
    gateway.stop().await;
    assert!(evil_backend.received().is_empty(), "nothing was connected");
}
