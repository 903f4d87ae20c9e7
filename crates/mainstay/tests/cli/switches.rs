//! `mainstay switches` (A36), and profiles on stdio.

use std::process::Stdio;

use insta::assert_snapshot;
use mainstay_testkit::{home, within};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use crate::fakes::fakes;

#[tokio::test]
async fn a_person_switches_for_a_client() {
    let home = home!();
    let config = fakes(&home, &[("one", &[]), ("two", &[])]);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 2 of 2").await;
    assert_snapshot!(
        home.transcript(&[
            &["switches"],
            &["switches", "off", "a / client", "one"],
            &["switches", "off", "claude-code", "two/echo", "--json"],
            &["switches", "off", "claude-code", "two/ecko"],
            &["switches", "off", "claude-code", "three"],
            &["switches", "list"],
            &["switches", "--json"],
            &["switches", "on", "claude-code", "two/echo"],
            &["switches", "clear", "a / client"],
            &["switches", "clear"],
            &["switches", "clear", "--all"],
            &["switches", "--json"],
        ])
        .await
    );
    daemon.stop().await;
}

/// Over stdio, a client gets its profile and its stored switches (issue 5, "Profiles").
#[tokio::test]
async fn one_client_on_stdio_has_its_profile() {
    let home = home!();
    let fake = fake_server::binary();
    let config = serde_json::json!({
        "mcpServers": {"one": {"command": fake}, "two": {"command": fake}},
        "profiles": {"few": {"servers": ["two"], "tools": {"deny": ["*/hang"]}, "naming": "none"}},
    });
    let config = home.file("c.json", &config.to_string());
    let run = home
        .run(&["mcp", "--config", &config, "--profile", "gew"])
        .await;
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("did you mean few?"), "{run}");
    let run = home
        .run(&["mcp", "--config", &config, "--profile", "another"])
        .await;
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("default, meta, few"), "{run}");

    std::fs::create_dir_all(home.state()).expect("a folder");
    let switches = r#"{"tests": {"tools": {"two": ["count"]}}}"#;
    std::fs::write(home.state().join("switches.json"), switches).expect("written");
    let mut child = home
        .command(&["mcp", "--config", &config, "--profile", "few"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut input = child.stdin.take().expect("a pipe");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut ask = async |message: &str| {
        let line = format!("{message}\n");
        input.write_all(line.as_bytes()).await.expect("it reads");
        let answer = within(output.next_line()).await.expect("UTF-8");
        answer.expect("an answer")
    };
    ask(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"tests","version":"1"}}}"#,
    )
    .await;
    let tools = ask(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#).await;
    assert!(tools.contains(r#""name":"echo""#), "{tools}");
    for hidden_name in [
        "one__echo",
        "two__echo",
        r#""name":"hang""#,
        r#""name":"count""#,
    ] {
        assert!(!tools.contains(hidden_name), "{hidden_name}: {tools}");
    }
    drop(input);
    assert!(within(child.wait()).await.expect("it ends").success());
}
