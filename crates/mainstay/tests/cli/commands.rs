//! The commands against a running daemon.

use std::collections::BTreeSet;

use clap::CommandFactory as _;
use insta::assert_snapshot;
use mainstay::cli::Cli;
use mainstay_testkit::home;

use crate::fakes::fakes;

/// The README must list all commands, and docs/cli.md must describe each of them.
#[test]
fn the_readme_and_the_docs_have_every_command() {
    let program = Cli::command();
    let commands = program
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    let commands: BTreeSet<&str> = commands.map(clap::Command::get_name).collect();
    let readme = include_str!("../../../../README.md");
    let named_commands = readme
        .split_once("The commands are ")
        .and_then(|(_, rest)| rest.split_once(". "))
        .map(|(named_commands, _)| named_commands.split('`').skip(1).step_by(2));
    let named_commands: BTreeSet<&str> = named_commands.expect("a list of commands").collect();
    assert_eq!(named_commands, commands);
    let docs = include_str!("../../../../docs/cli.md");
    for command in commands {
        let usage = format!("    mainstay {command}");
        let is_described = docs.lines().any(|line| {
            let rest = line.strip_prefix(&*usage);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        });
        assert!(is_described, "docs/cli.md does not describe {command}");
    }
}

#[tokio::test]
async fn the_tools_of_demo_servers_are_listed() {
    let home = home!();
    let daemon = home.serve(&["--demo"]).await;
    assert_snapshot!(
        home.transcript(&[
            &["tools"],
            &["tools", "get", "alpha/add"],
            &["tools", "get", "beta__time"],
            &["tools", "get", "gamma/echo", "--json"],
            &["resources"],
            &["prompts", "list"],
            &["prompts", "get", "alpha/greeting", "name=Zoë"],
            &["prompts", "get", "alpha/greeting", "name=Zoë", "--json"],
        ])
        .await
    );
    daemon.stop().await;
}

#[tokio::test]
async fn the_list_says_how_the_servers_are() {
    let home = home!();
    let config = fakes(&home, &[("good", &[]), ("bad", &["--crash-at-start", "7"])]);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 1 of 2").await;

    let list = home.run(&["list", "--json"]).await;
    let servers = list.json()["servers"].clone();
    assert_eq!(servers[0]["name"], "good");
    assert_eq!(servers[0]["connected"], true);
    assert_eq!(
        servers[1]["stderr"][0],
        "the fake crashes at start with code 7"
    );
    assert_eq!(servers[1]["connected"], false);
    let reason = servers[1]["lastError"].as_str().expect("a reason");
    assert_eq!(reason, "process exited unexpectedly (code 7)");

    let list = home.run(&["list"]).await;
    let rows = list.rows();
    assert_eq!(
        rows[0],
        ["NAME", "STATUS", "TRANSPORT", "TOOLS", "PID", "DETAIL"]
    );
    assert_eq!(rows[1][..3], ["good", "connected", "stdio"], "{list}");
    assert_eq!(rows[1][4], servers[0]["pid"].to_string(), "{list}");
    assert_eq!(rows[2][0], "bad", "{list}");
    assert!(list.stdout.contains(reason), "{list}");
    daemon.stop().await;
}

#[tokio::test]
async fn calls_take_pairs_json_and_files() {
    let home = home!();
    let config = fakes(&home, &[("fake", &[])]);
    let daemon = home.serve(&["--config", &config]).await;
    let file = home.file("arguments.json", r#"{"text": "from a file"}"#);
    assert_snapshot!(
        home.transcript(&[
            &["call", "fake/echo", "text=Grüße 🦀"],
            &["call", "fake/echo", "text=5", "--json"],
            &[
                "call",
                "fake/echo",
                "more=[1, 2.50]",
                "big=12345678901234567890123",
                "--json"
            ],
            &["call", "fake/add", "a=2", "b=0.5"],
            &[
                "call",
                "fake__echo",
                "--args",
                r#"{"text":"other spelling"}"#
            ],
            &["call", "fake/echo", "--args", &format!("@{file}")],
            &["call", "fake/pid", "--args", "[]"],
            &["call", "fake/pid", "--args", "{"],
            &["call", "fake/echo", "--args", "@nowhere.json"],
            &["call", "fake/echo", "text"],
            &["call", "fake/echo", "text=a", "text=b"],
            &["call", "fake/error"],
            &["call", "fake/error", "--json"],
            &["call", "fake/rpc_error", "--json"],
        ])
        .await
    );
    daemon.stop().await;
}

/// `--json` prints the server's own bytes (invariant 5).
#[tokio::test]
async fn a_raw_result_keeps_its_bytes() {
    let home = home!();
    let config = fakes(&home, &[("fake", &[])]);
    let daemon = home.serve(&["--config", &config]).await;
    let result = home.run(&["call", "fake/weird", "--json"]).await;
    assert_eq!(result.stdout.trim_end(), fake_server::WEIRD_RESULT);
    let tool = home.run(&["tools", "get", "fake/weird", "--json"]).await;
    let schema = r#""input_schema":{"type":"object","properties":{"\u0061":{"type":"integer","maximum":12345678901234567890123}},"$defs":{}}"#;
    assert!(tool.stdout.contains(schema), "{tool}");
    daemon.stop().await;
}

#[tokio::test]
async fn resources_are_read_from_whoever_has_them() {
    let home = home!();
    let config = fakes(&home, &[("one", &[]), ("two", &[])]);
    let daemon = home.serve(&["--config", &config]).await;
    assert_snapshot!(
        home.transcript(&[
            &["resources"],
            &["read", "fake://text"],
            &["read", "two", "fake://text", "--json"],
            &["read", "mainstay+two:fake://text"],
            &["read", "fake://item/7"],
            &["read", "fake://blob"],
            &["read", "one", "fake://nothing"],
            &["read", "fake://nothing"],
            &["read", "three", "fake://text"],
        ])
        .await
    );
    daemon.stop().await;
}

#[tokio::test]
async fn unknown_names_are_reported() {
    let home = home!();
    let config = fakes(&home, &[("fake", &[]), ("down", &["--initialize-error"])]);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 1 of 2").await;
    assert_snapshot!(
        home.transcript(&[
            &["call", "fake/nothing"],
            &["call", "nobody/echo"],
            &["call", "nothing"],
            &["call", "nothing", "--json"],
            &["tools", "get", "nothing"],
            &["prompts", "get", "fake/nothing"],
            &["prompts", "get", "fake/greet"],
            &["call", "down/echo", "text=x"],
        ])
        .await
    );
    daemon.stop().await;
}

#[tokio::test]
async fn a_call_out_of_time_says_so_by_its_exit_code() {
    let home = home!();
    let program = fake_server::binary();
    let config = serde_json::json!({"mcpServers": {"fake": {"command": program, "timeout": 1000}}});
    let config = home.file("slow.json", &config.to_string());
    let daemon = home.serve(&["--config", &config]).await;
    let run = home.run(&["call", "fake/hang", "--json"]).await;
    assert_eq!(run.code, Some(5), "{run}");
    let error: serde_json::Value = serde_json::from_str(&run.stderr).expect("JSON");
    assert_eq!(error["error"], "call_failed");
    assert_eq!(error["code"], "call_timeout");
    daemon.stop().await;
}
