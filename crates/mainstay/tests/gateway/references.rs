//! References to files and variables: they are bounded, and none can hold Mainstay up.

use std::{
    os::unix::{fs::symlink, net::UnixListener},
    path::{Path, PathBuf},
};

use http::StatusCode;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use crate::{
    backend::Backend,
    builtin::{control::operator, fails, says},
    gateway::{soon, until},
    world::{World, ok, refused},
};

const MIB: usize = 1024 * 1024;

fn fifo(path: &Path) {
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, path, FileType::Fifo, mode, 0).expect("a FIFO can be made");
}

/// Paths that no reference may read, and a part of what is said of each.
fn unreadable(folder: &Path) -> Vec<(PathBuf, &'static str)> {
    let path = |name: &str| folder.join(name);
    fifo(&path("fifo"));
    symlink(path("fifo"), path("link")).expect("linked");
    // The name stays when the listener has gone.
    drop(UnixListener::bind(path("socket")).expect("bound"));
    std::fs::write(path("large"), vec![b'x'; MIB + 1]).expect("written");
    std::fs::write(path("binary"), b"\xff\xfe").expect("written");
    vec![
        (path("fifo"), "it is a FIFO, not a regular file"),
        (path("link"), "it is a FIFO, not a regular file"),
        (path("socket"), "it is a socket, not a regular file"),
        ("/dev/ptmx".into(), "it is a device, not a regular file"),
        ("/dev/zero".into(), "it is a device, not a regular file"),
        (folder.to_owned(), "it is a folder, not a regular file"),
        (path("large"), "it has more than 1 MiB"),
        (path("binary"), "it is not UTF-8 text"),
        (path("absent"), "there is no such file"),
    ]
}

/// The entry of a server that is sent what a reference yields.
fn sent(url: &Value, value: &str) -> Value {
    json!({"url": url, "headers": {"x-value": value}})
}

fn file(path: &Path) -> String {
    format!("${{file:{}}}", path.display())
}

/// What cannot be read fails its server, by a reload as by an addition, and nothing else waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_fails_its_server_alone() {
    let (backend, other) = (Backend::http().await, Backend::http().await);
    let world = World::of(&json!({"mcpServers": {"calm": backend.entry}}));
    let gateway = world.run().await;
    let (rest, client) = (gateway.rest(), gateway.client().await);
    for (path, why) in unreadable(world.folder.path()) {
        let bad = sent(&other.entry["url"], &file(&path));
        world.write(&json!({"mcpServers": {"calm": backend.entry, "bad": bad}}));
        ok(soon("the reload", rest.post("/api/reload", json!({}))).await);
        let what = format!("refused for {}: {why}", path.display());
        rest.until("bad", &what, |found| {
            let error = found["lastError"].as_str().unwrap_or_default();
            error.contains(why) && error.contains("headers.x-value")
        })
        .await;
        client.hears("calm__echo").await;

        let mut added = bad.clone();
        added["name"] = "added".into();
        let answer = soon("the addition", rest.post("/api/servers", added)).await;
        let answer = refused(StatusCode::BAD_REQUEST, "invalid_config", answer);
        let message = answer["message"].as_str().expect("words");
        assert!(message.contains(why), "{}: {message}", path.display());
    }
    assert!(other.received().is_empty(), "nothing of them was reached");
}

/// Lines that double what stands above them end at the bound of an entry, all its texts together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_expands_to_a_mebibyte_at_most() {
    let (backend, other) = (Backend::http().await, Backend::http().await);
    let url = &other.entry["url"];
    let world = World::of(&json!({"mcpServers": {"calm": backend.entry}}));
    let gateway = world.run().await;
    let (rest, client) = (gateway.rest(), gateway.client().await);
    let mut env = serde_json::Map::from_iter([("A0".to_owned(), "x".repeat(16).into())]);
    for line in 1..=12 {
        let above = format!("${{A{}}}", line - 1);
        env.insert(format!("A{line}"), above.repeat(16).into());
    }
    let secret = world.folder.path().join("secret");
    std::fs::write(&secret, "x".repeat(MIB * 3 / 4)).expect("written");
    for entry in [
        json!({"url": url, "env": env}),
        json!({"url": url, "headers": {"a": file(&secret), "b": file(&secret)}}),
        json!({"url": url, "inputParams": {"p": "x".repeat(MIB / 4)}, "headers": {"a": "${p}".repeat(5)}}),
        json!({"url": url, "headers": {"a": format!("${{NONE:-{}}}", "x".repeat(MIB + 1))}}),
        json!({"url": url, "headers": {"a": "${file:none:-}".repeat(MIB / 10)}}),
    ] {
        world.write(&json!({"mcpServers": {"calm": backend.entry, "bad": entry}}));
        ok(soon("the reload", rest.post("/api/reload", json!({}))).await);
        rest.until("bad", "refused", |found| {
            let error = found["lastError"].as_str().unwrap_or_default();
            error.contains("more than 1 MiB")
        })
        .await;
        client.hears("calm__echo").await;
    }
    assert!(other.received().is_empty());
}

/// Until a server is approved nothing that its entry names is read. Then it is, and what cannot be read
/// is reported to the person who approves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_what_waits_for_approval_is_read() {
    let backend = Backend::http().await;
    let world = World::of(&json!({"mcpServers": {}, "ownTools": ["control"]}));
    let secret = world.folder.path().join("secret");
    fifo(&secret);
    let gateway = world.run().await;
    let (rest, client) = (gateway.rest(), operator(&gateway).await);
    let mut entry = sent(&backend.entry["url"], &file(&secret));
    entry["name"] = "new".into();
    entry["env"] = json!({"A": "${NOT_SET_ANYWHERE:-}${A_VARIABLE_THAT_IS_NOT_SET:-x}"});
    let added = soon("the addition", says(&client, "add_server", entry.clone())).await;
    assert_eq!(added["status"], "pending", "{added}");
    let approval = json!({"digest": added["pending"]["digest"]});
    let answer = soon(
        "the approval",
        rest.post("/api/servers/new/approve", approval.clone()),
    )
    .await;
    let answer = refused(StatusCode::BAD_REQUEST, "invalid_config", answer);
    let message = answer["message"].as_str().expect("words");
    assert!(message.contains("it is a FIFO"), "{message}");
    assert_eq!(rest.server("new").await["status"], "pending");
    assert!(backend.received().is_empty());

    std::fs::remove_file(&secret).expect("removed");
    std::fs::write(&secret, "from the file\n").expect("written");
    ok(rest.post("/api/servers/new/approve", approval).await);
    rest.until_status("new", "connected").await;
    until("the header", || {
        let received = backend.fake().received();
        let header = |it: &fake_server::Received| it.headers.get("x-value").cloned();
        received
            .iter()
            .filter_map(header)
            .any(|it| it == "from the file")
    })
    .await;

    // What is wrong whatever the references stand for is refused at once.
    for reference in ["${", "${vault:x}", "${keyring:x}", "${A:-${B}}"] {
        let mut entry = sent(&backend.entry["url"], reference);
        entry["name"] = "wrong".into();
        let said = fails(&client, "add_server", entry).await;
        assert_eq!(said["error"], "invalid_config", "{reference}: {said}");
    }
}

/// A configuration that is no regular file, or has more than a file may have, changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_that_is_no_file_changes_nothing() {
    let backend = Backend::http().await;
    let world = World::of(&json!({"mcpServers": {"calm": backend.entry}}));
    let gateway = world.run().await;
    let (rest, client) = (gateway.rest(), gateway.client().await);
    let path = world.file();
    std::fs::remove_file(&path).expect("removed");
    fifo(&path);
    let reload = async || {
        let answer = soon("the reload", rest.post("/api/reload", json!({}))).await;
        let answer = refused(StatusCode::BAD_REQUEST, "invalid_config", answer);
        answer["message"].as_str().expect("words").to_owned()
    };
    let said = reload().await;
    assert!(said.contains("it is a FIFO, not a regular file"), "{said}");
    let mut entry = backend.entry.clone();
    entry["name"] = "more".into();
    entry["persist"] = true.into();
    let (status, answer) = soon("the addition", rest.post("/api/servers", entry)).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");

    std::fs::remove_file(&path).expect("removed");
    std::fs::write(&path, " ".repeat(16 * MIB + 1)).expect("written");
    let said = reload().await;
    assert!(said.contains("it has more than 16 MiB"), "{said}");
    client.hears("calm__echo").await;
}
