//! `mainstay mcp` uses the servers of a daemon or of another `mainstay mcp` with the same
//! configuration.

use mainstay_testkit::{Home, home, within};
use serde_json::{Value, json};

use super::{
    front::Front,
    restarts::{counting_config, until_running},
};
use crate::fakes::fakes;

pub async fn pid(front: &mut Front) -> String {
    let answer = front.call("fake__pid", json!({})).await;
    let text = answer["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("no process: {answer}"))
        .to_owned()
}

pub async fn listed_server(home: &Home) -> Value {
    let run = home.run(&["list", "--json"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    run.json()["servers"][0].clone()
}

#[tokio::test]
async fn mcp_uses_the_servers_of_a_daemon_with_the_same_configuration() {
    let home = home!();
    let config = fakes(&home, &[("fake", &[])]);
    let daemon = home.serve(&["--config", &config]).await;
    let arguments = ["mcp", "--config", &config];
    let mut shared_front = Front::open(&home, &arguments, "2025-11-25").await;
    let first_pid = pid(&mut shared_front).await;
    assert_eq!(listed_server(&home).await["pid"].to_string(), first_pid);
    let standalone = [&arguments[..], &["--standalone"]].concat();
    let mut standalone_client = Front::open(&home, &standalone, "2025-11-25").await;
    assert_ne!(pid(&mut standalone_client).await, first_pid);
    let other_text = home.file(
        "other.json",
        &std::fs::read_to_string(&config).expect("a file"),
    );
    let mut other_text = Front::open(&home, &["mcp", "--config", &other_text], "2025-11-25").await;
    assert_ne!(pid(&mut other_text).await, first_pid);
    let (code, stderr) = shared_front.end().await;
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("attached to the daemon at"), "{stderr}");
    for client in [standalone_client, other_text] {
        let (code, stderr) = client.end().await;
        assert_eq!(code, Some(0), "{stderr}");
        assert!(
            stderr.contains("the other commands do not see these servers"),
            "{stderr}"
        );
    }
    daemon.stop().await;
}

async fn answer_roots(client: &mut Front, uri: &str) {
    let question = client.next_with_method("roots/list").await;
    let roots = json!({"roots": [{"uri": uri}]});
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": roots});
    client.send(&answer).await;
}

/// If either client may have caused a server's question, the client whose process runs the servers gets it.
/// Later calls of the other client use an isolated session.
#[tokio::test]
async fn each_client_is_asked_for_its_own_roots() {
    let home = home!();
    let (config, counts) = counting_config(&home);
    let arguments = ["mcp", "--config", &config];
    let mut owner = Front::open(&home, &arguments, "2025-11-25").await;
    let mut guest_front = Front::open(&home, &arguments, "2025-11-25").await;
    let process = pid(&mut owner).await;
    assert_eq!(pid(&mut guest_front).await, process);
    let busy_arguments = json!({"ms": 600_000, "key": "busy"});
    let running_call = owner.begin("fake__sleep", busy_arguments).await;
    until_running(&counts, "busy").await;
    let ask = json!({"method": "roots/list"});
    let id = guest_front.begin("fake__ask", ask.clone()).await;
    answer_roots(&mut owner, "file:///owner").await;
    guest_front.answer(id).await;

    let id = guest_front.begin("fake__ask", ask.clone()).await;
    answer_roots(&mut guest_front, "file:///guest").await;
    let answer = guest_front.answer(id).await.to_string();
    assert!(answer.contains("file:///guest"), "{answer}");
    assert_ne!(pid(&mut guest_front).await, process);
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": running_call}});
    owner.send(&cancel).await;
    let id = owner.begin("fake__ask", ask).await;
    answer_roots(&mut owner, "file:///owner").await;
    let answer = owner.answer(id).await.to_string();
    assert!(answer.contains("file:///owner"), "{answer}");
    assert_eq!(pid(&mut owner).await, process);
    guest_front.end().await;
    let (code, stderr) = owner.end().await;
    assert_eq!(code, Some(0), "{stderr}");
}

/// Commands use the servers of a running `mainstay mcp`. A second `mainstay mcp` shares these servers. It
/// starts its own servers when the first one exits.
#[tokio::test]
async fn servers_of_mcp_are_shared_and_outlive_its_client() {
    let home = home!();
    let config = fakes(&home, &[("fake", &["--stderr", "a line of the log"])]);
    let arguments = ["mcp", "--config", &config];
    let mut first = Front::open(&home, &arguments, "2025-11-25").await;
    let process = pid(&mut first).await;
    assert_eq!(listed_server(&home).await["pid"].to_string(), process);
    let logs = home.run(&["logs", "fake"]).await;
    assert!(logs.stdout.contains("a line of the log"), "{logs}");
    let reload = home.run(&["reload"]).await;
    assert_eq!(reload.code, Some(0), "{reload}");
    let records = home.run(&["records", "--json"]).await;
    assert!(records.stdout.contains("pid"), "{records}");

    let mut second_front = Front::open(&home, &arguments, "2025-11-25").await;
    assert_eq!(pid(&mut second_front).await, process);
    // The first client gets the question, because its process owns the servers.
    let id = first
        .begin("fake__ask", json!({"method": "roots/list"}))
        .await;
    let question = first.next_with_method("roots/list").await;
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}});
    first.send(&answer).await;
    first.answer(id).await;

    let (code, stderr) = first.end().await;
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("started the servers here"), "{stderr}");
    let second_pid = pid(&mut second_front).await;
    assert_ne!(second_pid, process);
    assert_eq!(listed_server(&home).await["pid"].to_string(), second_pid);
    let (code, stderr) = second_front.end().await;
    assert_eq!(code, Some(0), "{stderr}");
    let run = home.run(&["list"]).await;
    assert_eq!(run.code, Some(3), "{run}");
}

/// If commands use another daemon, a line on stderr names that daemon.
#[tokio::test]
async fn mcp_names_the_daemon_that_the_commands_ask() {
    let home = home!();
    let config = fakes(&home, &[("fake", &[])]);
    let mut command = home.command(&["mcp", "--config", &config]);
    command
        .env("MAINSTAY_URL", "http://127.0.0.1:9")
        .stdin(std::process::Stdio::null());
    let output = within(command.output()).await.expect("it starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let end = "; other commands ask http://127.0.0.1:9, as MAINSTAY_URL says";
    let line = stderr
        .lines()
        .find(|line| line.contains("started the servers here"));
    assert!(line.is_some_and(|line| line.ends_with(end)), "{stderr}");
}
