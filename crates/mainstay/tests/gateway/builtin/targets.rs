//! A name that was known gets another target only when a person has approved it, whatever a client of the
//! operator does with the tools of group `control`.

use mainstay_gateway::GatewayOptions;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{control::operator, fails, says};
use crate::{
    backend::Backend,
    client::Http,
    gateway::{Gateway, until},
    world::{World, ok},
};

/// The servers of a file beside the tools of group `control`.
fn file(servers: &[(&str, &Value)]) -> Value {
    let servers = servers.iter();
    let servers = servers.map(|(name, entry)| ((*name).to_owned(), (*entry).clone()));
    json!({
        "mcpServers": servers.collect::<serde_json::Map<_, _>>(),
        "ownTools": ["control", "meta"],
    })
}

fn named(entry: &Value, name: &str) -> Value {
    let mut entry = entry.clone();
    entry["name"] = name.into();
    entry
}

/// Adds a server, which must wait for approval; returns what is shown of it.
async fn waits(client: &Http, entry: Value) -> Value {
    let added = says(client, "add_server", entry.clone()).await;
    assert_eq!(added["status"], "pending", "{entry}: {added}");
    added["pending"].clone()
}

/// Tries to have a pending server started by anything but an approval.
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
    says(client, "remove_server", json!({"name": name})).await;
}

/// A server of the file, removed by the client, in any spelling of its name; and with anything else sent
/// along than what the operator has chosen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_server_gets_no_other_target() {
    let (victim, evil) = (Backend::http().await, Backend::http().await);
    let mut entry = victim.entry.clone();
    entry["headers"] = json!({"x-key": "s3cret"});
    let world = World::of(&file(&[("the-victim", &entry)]));
    let gateway = world.run().await;
    let client = operator(&gateway).await;
    client.hears("the-victim__echo").await;
    // While it is there its name is taken, and its other spellings wait.
    let said = fails(&client, "add_server", named(&evil.entry, "the-victim")).await;
    assert_eq!(said["error"], "duplicate_name", "{said}");
    waits(&client, named(&evil.entry, "The_Victim")).await;
    remove(&client, "The_Victim").await;

    remove(&client, "the-victim").await;
    let begun = victim.count("initialize");
    for name in ["the-victim", "The-Victim", "the_victim", "THEVICTIM"] {
        let shown = waits(&client, named(&evil.entry, name)).await;
        let url = victim.entry["url"].as_str();
        assert_eq!(shown["formerly"]["url"].as_str(), url, "{shown}");
        assert_eq!(shown["formerly"]["headers"], json!(["x-key"]), "{shown}");
        assert!(!shown["formerly"].to_string().contains("s3cret"), "{shown}");
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
        let added = says(&client, "add_server", entry.clone()).await;
        assert_eq!(added["status"] == "pending", !is_same, "{entry}: {added}");
        remove(&client, "the-victim").await;
    }
    assert_eq!(victim.count("initialize"), begun);
    // The same target under the same name is nothing new.
    let added = says(&client, "add_server", named(&entry, "the-victim")).await;
    assert_eq!(added["status"], "connected", "{added}");
    remove(&client, "the-victim").await;

    // What a person approves is the target from then on.
    let shown = waits(&client, named(&evil.entry, "the-victim")).await;
    assert!(evil.received().is_empty(), "nothing was connected");
    let approval = json!({"digest": shown["digest"]});
    let rest = gateway.rest();
    ok(rest.post("/api/servers/the-victim/approve", approval).await);
    rest.until_status("the-victim", "connected").await;
    remove(&client, "the-victim").await;
    let added = says(&client, "add_server", named(&evil.entry, "the-victim")).await;
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

/// A name that is no longer in the file, or was the client's own, is known all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_known_when_its_entry_has_gone() {
    let (victim, evil) = (Backend::http().await, Backend::http().await);
    let world = World::of(&file(&[("victim", &victim.entry)]));
    let gateway = world.run().await;
    let (client, rest) = (operator(&gateway).await, gateway.rest());
    client.hears("victim__echo").await;
    world.write(&file(&[]));
    ok(rest.post("/api/reload", json!({})).await);
    waits(&client, named(&evil.entry, "victim")).await;

    let added = says(&client, "add_server", named(&victim.entry, "own")).await;
    assert_eq!(added["status"], "connected", "a new name: {added}");
    remove(&client, "own").await;
    waits(&client, named(&evil.entry, "own")).await;

    // One that the operator added, and one whose entry was wrong.
    ok(rest
        .post("/api/servers", named(&victim.entry, "added"))
        .await);
    ok(rest.delete("/api/servers/added").await);
    waits(&client, named(&evil.entry, "added")).await;
    world.write(&file(&[("wrong", &json!({"url": "nowhere"}))]));
    ok(rest.post("/api/reload", json!({})).await);
    remove(&client, "wrong").await;
    waits(&client, named(&evil.entry, "wrong")).await;
    // One that waits was never there: another may be put in its place, and waits as it would anyway.
    let command = json!({"name": "command", "command": "npx"});
    assert_eq!(waits(&client, command).await["formerly"], Value::Null);
    remove(&client, "command").await;
    assert!(evil.received().is_empty(), "nothing was connected");
    let added = says(&client, "add_server", named(&evil.entry, "command")).await;
    assert_eq!(added["status"], "connected", "{added}");
}

async fn run(world: &World, folder: &TempDir) -> (Gateway, Http) {
    let options = GatewayOptions {
        catalogs: Some(folder.path().to_owned()),
        ..GatewayOptions::default()
    };
    let gateway = world.run_with(options).await;
    let client = operator(&gateway).await;
    (gateway, client)
}

/// After a restart, too: whether or not it was ever connected, and with only its catalog left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_known_after_a_restart() {
    let (victim, evil) = (Backend::http().await, Backend::http().await);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let never =
        json!({"command": "never-started", "args": ["--token", "s3cret"], "enabled": false});
    let world = World::of(&file(&[("victim", &victim.entry), ("never", &never)]));
    let (gateway, client) = run(&world, &folder).await;
    client.hears("victim__echo").await;
    let catalog = folder.path().join("victim.json");
    until("its catalog to be kept", || catalog.exists()).await;
    gateway.stop().await;
    world.write(&file(&[]));

    let (gateway, client) = run(&world, &folder).await;
    let shown = waits(&client, named(&evil.entry, "victim")).await;
    assert_eq!(shown["formerly"]["url"], victim.entry["url"], "{shown}");
    let shown = waits(&client, named(&evil.entry, "Never")).await;
    let words = json!(["never-started", "--token", "***"]);
    assert_eq!(shown["formerly"]["command"], words, "{shown}");
    remove(&client, "victim").await;
    let added = says(&client, "add_server", named(&victim.entry, "victim")).await;
    assert_eq!(added["status"], "connected", "its own target: {added}");
    let added = says(&client, "add_server", named(&victim.entry, "new")).await;
    assert_eq!(added["status"], "connected", "nobody's name: {added}");
    gateway.stop().await;

    // Kept by a Mainstay that kept no targets.
    let targets = folder.path().join(".targets.json");
    assert!(
        !std::fs::read_to_string(&targets)
            .expect("there")
            .contains("s3cret")
    );
    std::fs::remove_file(&targets).expect("removed");
    let (gateway, client) = run(&world, &folder).await;
    let shown = waits(&client, named(&evil.entry, "victim")).await;
    assert_eq!(shown["formerly"], json!({}), "it is not known: {shown}");
    gateway.stop().await;

    // What cannot be read says of no name that it is free.
    std::fs::write(&targets, "[").expect("written");
    let (gateway, client) = run(&world, &folder).await;
    waits(&client, named(&evil.entry, "whatever")).await;
    gateway.stop().await;
    assert!(evil.received().is_empty(), "nothing was connected");
}
