//! A known name gets another target only with the approval of a person, whatever an operator's client does with
//! the tools of group `control`.

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

/// A file with these servers and the tools of group `control`.
fn file(servers: &[(&str, &Value)]) -> Value {
    let entries = servers
        .iter()
        .map(|(name, entry)| ((*name).to_owned(), (*entry).clone()));
    json!({
        "mcpServers": entries.collect::<serde_json::Map<_, _>>(),
        "ownTools": ["control", "meta"],
    })
}

fn named(entry: &Value, name: &str) -> Value {
    let mut entry = entry.clone();
    entry["name"] = name.into();
    entry
}

/// Adds a server, which must wait for approval. Returns its pending entry.
async fn waits(client: &Http, entry: Value) -> Value {
    let added = call_ok(client, "add_server", entry.clone()).await;
    assert_eq!(added["status"], "pending", "{entry}: {added}");
    added["pending"].clone()
}

/// Tries everything but an approval to start a pending server.
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

/// The client removes a server of the file, and adds it with another target: in any spelling of its name, and
/// with other variables and headers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_server_gets_no_other_target() {
    let (victim, evil) = (Backend::http().await, Backend::http().await);
    let mut entry = victim.entry.clone();
    entry["headers"] = json!({"x-key": "s3cret"});
    let world = TestConfig::new_json(&file(&[("the-victim", &entry)]));
    let gateway = world.run().await;
    let client = operator(&gateway).await;
    client.assert_echo("the-victim__echo").await;
    // Until it is removed, its name is taken, and other spellings wait for approval.
    let failure = call_failing(&client, "add_server", named(&evil.entry, "the-victim")).await;
    assert_eq!(failure["error"], "duplicate_name", "{failure}");
    waits(&client, named(&evil.entry, "The_Victim")).await;
    remove(&client, "The_Victim").await;

    remove(&client, "the-victim").await;
    let sessions = victim.count("initialize");
    for name in ["the-victim", "The-Victim", "the_victim", "THEVICTIM"] {
        let pending = waits(&client, named(&evil.entry, name)).await;
        let url = victim.entry["url"].as_str();
        assert_eq!(pending["formerly"]["url"].as_str(), url, "{pending}");
        assert_eq!(
            pending["formerly"]["headers"],
            json!(["x-key"]),
            "{pending}"
        );
        assert!(
            !pending["formerly"].to_string().contains("s3cret"),
            "{pending}"
        );
        try_to_start(&client, name).await;
        remove(&client, name).await;
    }
    let with = |key: &str, value: Value| {
        let mut entry = named(&entry, "the-victim");
        entry[key] = value;
        entry
    };
    for entry in [
        with("headers", json!({"x-key": "another"})),
        with("headers", json!(null)),
        with("bearerToken", json!("t")),
        with("healthCheckUrl", evil.entry["url"].clone()),
        with("enabled", json!(false)),
    ] {
        let is_same = entry["enabled"] == false;
        let added = call_ok(&client, "add_server", entry.clone()).await;
        assert_eq!(added["status"] == "pending", !is_same, "{entry}: {added}");
        remove(&client, "the-victim").await;
    }
    assert_eq!(victim.count("initialize"), sessions);
    // The same target under the same name needs no approval.
    let added = call_ok(&client, "add_server", named(&entry, "the-victim")).await;
    assert_eq!(added["status"], "connected", "{added}");
    remove(&client, "the-victim").await;

    // An approved target is the known target from then on.
    let pending = waits(&client, named(&evil.entry, "the-victim")).await;
    assert!(evil.received().is_empty(), "nothing was connected");
    let approval = json!({"digest": pending["digest"]});
    let rest = gateway.rest();
    ok(rest.post("/api/servers/the-victim/approve", approval).await);
    rest.until_status("the-victim", "connected").await;
    remove(&client, "the-victim").await;
    let added = call_ok(&client, "add_server", named(&evil.entry, "the-victim")).await;
    assert_eq!(added["status"], "connected", "{added}");
    remove(&client, "the-victim").await;
    waits(&client, named(&entry, "the-victim")).await;
    // The operator's own changes need no approval.
    remove(&client, "the-victim").await;
    let answer = ok(rest
        .post("/api/servers", named(&victim.entry, "the-victim"))
        .await);
    assert_eq!(answer["status"], "connected", "{answer}");
}

/// A name stays known after its entry is gone, even if the client itself had added it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_known_when_its_entry_has_gone() {
    let (victim, evil) = (Backend::http().await, Backend::http().await);
    let world = TestConfig::new_json(&file(&[("victim", &victim.entry)]));
    let gateway = world.run().await;
    let (client, rest) = (operator(&gateway).await, gateway.rest());
    client.assert_echo("victim__echo").await;
    world.write(&file(&[]));
    ok(rest.post("/api/reload", json!({})).await);
    waits(&client, named(&evil.entry, "victim")).await;

    let added = call_ok(&client, "add_server", named(&victim.entry, "own")).await;
    assert_eq!(added["status"], "connected", "a new name: {added}");
    remove(&client, "own").await;
    waits(&client, named(&evil.entry, "own")).await;

    // A server that the operator added, and one with a wrong entry.
    ok(rest
        .post("/api/servers", named(&victim.entry, "added"))
        .await);
    ok(rest.delete("/api/servers/added").await);
    waits(&client, named(&evil.entry, "added")).await;
    world.write(&file(&[("wrong", &json!({"url": "nowhere"}))]));
    ok(rest.post("/api/reload", json!({})).await);
    remove(&client, "wrong").await;
    waits(&client, named(&evil.entry, "wrong")).await;
    // A pending server was never there. Another entry may replace it, and waits, too.
    let command = json!({"name": "command", "command": "npx"});
    assert_eq!(waits(&client, command).await["formerly"], Value::Null);
    remove(&client, "command").await;
    assert!(evil.received().is_empty(), "nothing was connected");
    let added = call_ok(&client, "add_server", named(&evil.entry, "command")).await;
    assert_eq!(added["status"], "connected", "{added}");
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

/// A name is known after a restart, even if it was never connected, and even if only its catalog is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_known_after_a_restart() {
    let (victim, evil) = (Backend::http().await, Backend::http().await);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let never =
        json!({"command": "never-started", "args": ["--token", "s3cret"], "enabled": false});
    let world = TestConfig::new_json(&file(&[("victim", &victim.entry), ("never", &never)]));
    let (gateway, client) = run(&world, &folder).await;
    client.assert_echo("victim__echo").await;
    let catalog = folder.path().join("victim.json");
    until("its catalog to be kept", || catalog.exists()).await;
    gateway.stop().await;
    world.write(&file(&[]));

    let (gateway, client) = run(&world, &folder).await;
    let pending = waits(&client, named(&evil.entry, "victim")).await;
    assert_eq!(pending["formerly"]["url"], victim.entry["url"], "{pending}");
    let pending = waits(&client, named(&evil.entry, "Never")).await;
    let words = json!(["never-started", "--token", "***"]);
    assert_eq!(pending["formerly"]["command"], words, "{pending}");
    remove(&client, "victim").await;
    let added = call_ok(&client, "add_server", named(&victim.entry, "victim")).await;
    assert_eq!(added["status"], "connected", "its own target: {added}");
    let added = call_ok(&client, "add_server", named(&victim.entry, "new")).await;
    assert_eq!(added["status"], "connected", "nobody's name: {added}");
    gateway.stop().await;

    // Written by a Mainstay that stored no targets.
    let targets = folder.path().join(".targets.json");
    assert!(
        !std::fs::read_to_string(&targets)
            .expect("there")
            .contains("s3cret")
    );
    std::fs::remove_file(&targets).expect("removed");
    let (gateway, client) = run(&world, &folder).await;
    let pending = waits(&client, named(&evil.entry, "victim")).await;
    assert_eq!(pending["formerly"], json!({}), "it is not known: {pending}");
    gateway.stop().await;

    // An unreadable file leaves no name free.
    std::fs::write(&targets, "[").expect("written");
    let (gateway, client) = run(&world, &folder).await;
    waits(&client, named(&evil.entry, "whatever")).await;
    gateway.stop().await;
    assert!(evil.received().is_empty(), "nothing was connected");
}
