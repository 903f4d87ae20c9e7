//! References to files and variables have size limits, and reading them never blocks.

use std::{
    os::unix::{fs::symlink, net::UnixListener},
    path::{Path, PathBuf},
};

use http::StatusCode;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use crate::{
    backend::Backend,
    builtin::{call_failing, call_ok, control::operator},
    gateway::{soon, until},
    world::{TestConfig, ok, refused},
};

const MIB: usize = 1024 * 1024;

fn fifo(path: &Path) {
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, path, FileType::Fifo, mode, 0).expect("a FIFO can be made");
}

/// Paths that cannot be read, each with a part of the error.
fn unreadable_paths(folder: &Path) -> Vec<(PathBuf, &'static str)> {
    let path = |name: &str| folder.join(name);
    fifo(&path("fifo"));
    symlink(path("fifo"), path("link")).expect("linked");
    // The file of a socket remains when the listener is dropped.
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

/// An entry that sends the reference's value to the server in a header.
fn sending_entry(url: &Value, value: &str) -> Value {
    json!({"url": url, "headers": {"x-value": value}})
}

fn file(path: &Path) -> String {
    format!("${{file:{}}}", path.display())
}

/// A reference that cannot be read fails only its own server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_reference_fails_only_its_server() {
    let (backend, other_backend) = (Backend::http().await, Backend::http().await);
    let world = TestConfig::new_json(&json!({"mcpServers": {"calm": backend.entry}}));
    let gateway = world.run().await;
    let (rest, client) = (gateway.rest(), gateway.client().await);
    for (path, reason) in unreadable_paths(world.folder.path()) {
        let bad_entry = sending_entry(&other_backend.entry["url"], &file(&path));
        world.write(&json!({"mcpServers": {"calm": backend.entry, "bad": bad_entry}}));
        ok(soon("the reload", rest.post("/api/reload", json!({}))).await);
        let description = format!("refused for {}: {reason}", path.display());
        rest.until("bad", &description, |server| {
            let error = server["lastError"].as_str().unwrap_or_default();
            error.contains(reason) && error.contains("headers.x-value")
        })
        .await;
        client.assert_echo("calm__echo").await;

        let mut added_entry = bad_entry.clone();
        added_entry["name"] = "added".into();
        let answer = soon("the addition", rest.post("/api/servers", added_entry)).await;
        let answer = refused(StatusCode::BAD_REQUEST, "invalid_config", answer);
        let message = answer["message"].as_str().expect("words");
        assert!(message.contains(reason), "{}: {message}", path.display());
    }
    assert!(
        other_backend.received().is_empty(),
        "nothing of them was reached"
    );
}

/// Each variable contains the one before it twice. The expansion stops at the size limit of an
/// entry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_expands_to_a_mebibyte_at_most() {
    let (backend, other_backend) = (Backend::http().await, Backend::http().await);
    let url = &other_backend.entry["url"];
    let world = TestConfig::new_json(&json!({"mcpServers": {"calm": backend.entry}}));
    let gateway = world.run().await;
    let (rest, client) = (gateway.rest(), gateway.client().await);
    let mut env = serde_json::Map::from_iter([("A0".to_owned(), "x".repeat(16).into())]);
    for line in 1..=12 {
        let above_text = format!("${{A{}}}", line - 1);
        env.insert(format!("A{line}"), above_text.repeat(16).into());
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
        rest.until("bad", "refused", |server| {
            let error = server["lastError"].as_str().unwrap_or_default();
            error.contains("more than 1 MiB")
        })
        .await;
        client.assert_echo("calm__echo").await;
    }
    assert!(other_backend.received().is_empty());
}

/// References of a pending entry are read only at the approval. If that fails, the approval reports
/// the error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn references_of_pending_servers_are_not_read() {
    let backend = Backend::http().await;
    let world = TestConfig::new_json(&json!({"mcpServers": {}, "ownTools": ["control"]}));
    let secret = world.folder.path().join("secret");
    fifo(&secret);
    let gateway = world.run().await;
    let (rest, client) = (gateway.rest(), operator(&gateway).await);
    let mut entry = sending_entry(&backend.entry["url"], &file(&secret));
    entry["name"] = "new".into();
    entry["env"] = json!({"A": "${NOT_SET_ANYWHERE:-}${A_VARIABLE_THAT_IS_NOT_SET:-x}"});
    let added_server = soon(
        "the addition",
        call_ok(&client, "add_server", entry.clone()),
    )
    .await;
    assert_eq!(added_server["status"], "pending", "{added_server}");
    let approval = json!({"digest": added_server["pending"]["digest"]});
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
        let received_requests = backend.fake().received();
        let header = |request: &fake_server::Received| request.headers.get("x-value").cloned();
        received_requests
            .iter()
            .filter_map(header)
            .any(|value| value == "from the file")
    })
    .await;

    // A malformed reference is refused at once.
    for reference in ["${", "${vault:x}", "${keyring:x y}", "${A:-${B}}"] {
        let mut entry = sending_entry(&backend.entry["url"], reference);
        entry["name"] = "wrong".into();
        let failure = call_failing(&client, "add_server", entry).await;
        assert_eq!(failure["error"], "invalid_config", "{reference}: {failure}");
    }
}

/// A configuration that is too large, or is not a regular file, is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_that_is_no_file_changes_nothing() {
    let backend = Backend::http().await;
    let world = TestConfig::new_json(&json!({"mcpServers": {"calm": backend.entry}}));
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
    let error = reload().await;
    assert!(
        error.contains("it is a FIFO, not a regular file"),
        "{error}"
    );
    let mut entry = backend.entry.clone();
    entry["name"] = "more".into();
    entry["persist"] = true.into();
    let (status, answer) = soon("the addition", rest.post("/api/servers", entry)).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");

    std::fs::remove_file(&path).expect("removed");
    std::fs::write(&path, " ".repeat(16 * MIB + 1)).expect("written");
    let error = reload().await;
    assert!(error.contains("it has more than 16 MiB"), "{error}");
    client.assert_echo("calm__echo").await;
}
