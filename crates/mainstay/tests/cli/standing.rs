//! Servers that never start because they are pending, disabled, or have an invalid entry. Every
//! command prints the next step.

use mainstay_testkit::{Run, home};
use serde_json::json;

use crate::{control::add_from_inside, fakes::fakes, records::until_recorded};

const APPROVE: &str = "waiting for approval; approve it by \"mainstay approve newone\"";
const ENABLE_HINT: &str = "disabled; enable it by \"mainstay enable off\"";

fn assert_printed(run: &Run, code: i32, texts: &[&str]) {
    assert_eq!(run.code, Some(code), "{run}");
    for texts in texts {
        let is_printed = run.stdout.contains(texts) || run.stderr.contains(texts);
        assert!(is_printed, "{texts}: {run}");
    }
}

#[tokio::test]
async fn every_command_shows_pending_servers() {
    let home = home!();
    let program = fake_server::binary();
    let config = r#"{"mcpServers": {}, "ownTools": ["control"]}"#;
    let config = home.file("servers.json", config);
    let mut daemon = home.serve(&["--config", &config]).await;
    let entry = json!({"name": "newone", "command": program});
    add_from_inside(&home, &daemon.url, &entry).await;
    let line = daemon.wait_for_stderr("newone").await;
    assert!(line.contains("pending"), "{line}");
    assert!(line.contains("mainstay approve newone"), "{line}");
    assert_printed(&home.run(&["call", "newone/echo"]).await, 1, &[APPROVE]);
    let json = home.run(&["call", "newone/echo", "--json"]).await;
    assert_printed(&json, 1, &[r#""status":"pending""#]);
    assert_printed(&home.run(&["health", "newone"]).await, 1, &[APPROVE]);
    for command in ["enable", "start", "restart", "reconnect"] {
        assert_printed(&home.run(&[command, "newone"]).await, 1, &[APPROVE]);
    }
    let repeated_run = home.run(&["enable", "--ephemeral", "newone"]).await;
    assert_printed(&repeated_run, 1, &[APPROVE]);
    // A pending server still needs approval after it was disabled.
    home.run(&["disable", "--ephemeral", "newone"]).await;
    assert_printed(&home.run(&["call", "newone/echo"]).await, 1, &[APPROVE]);
    let approved_run = home.run(&["approve", "newone", "--yes"]).await;
    assert_eq!(approved_run.code, Some(0), "{approved_run}");
    assert!(
        !daemon.stderr_text.contains("nobody has approved"),
        "{}",
        daemon.stderr_text
    );
    daemon.stop().await;
}

#[tokio::test]
async fn a_disabled_server_cannot_be_started() {
    let home = home!();
    let program = fake_server::binary();
    let config = json!({"mcpServers": {
        "on": {"command": program},
        "off": {"command": program, "disabled": true},
    }});
    let config = home.file("servers.json", &config.to_string());
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 1 of 1").await;
    for command in ["start", "restart", "reconnect"] {
        assert_printed(&home.run(&[command, "off"]).await, 1, &[ENABLE_HINT]);
        let json = home.run(&[command, "off", "--json"]).await;
        assert_printed(
            &json,
            1,
            &["server_not_connected", r#""status":"disabled""#],
        );
        let all_run = home.run(&[command, "--all"]).await;
        assert_printed(&all_run, 0, &["on is connected"]);
        assert!(!all_run.stdout.contains("off"), "{all_run}");
    }
    let all_run = home.run(&["start", "--all"]).await;
    assert_printed(&all_run, 0, &["off was skipped: it is disabled"]);
    assert_printed(&home.run(&["call", "off/echo"]).await, 1, &[ENABLE_HINT]);
    let list = home.run(&["list"]).await;
    assert_printed(&list, 0, &["enable it by \"mainstay enable off\""]);
    let enabled_run = home.run(&["enable", "--ephemeral", "off"]).await;
    assert_printed(&enabled_run, 0, &["off is connected"]);
    daemon.stop().await;
}

/// For an invalid entry, the next step is to correct the entry.
#[tokio::test]
async fn a_wrong_entry_is_to_be_corrected() {
    let home = home!();
    let program = fake_server::binary();
    let config = json!({"mcpServers": {
        "badport": {"type": "http", "url": "http://localhost:99999/mcp"},
        "unset": {"command": program, "env": {"KEY": "${NOT_SET_ANYWHERE}"}},
        "nothing": 5,
    }});
    let path = home.file("servers.json", &config.to_string());
    let mut daemon = home.serve(&["--config", &path]).await;
    daemon.wait_for_stderr("ready: 0 of 3").await;
    let step = format!("correct its entry in {path}; the file is read again at once");
    let list = home.run(&["list"]).await;
    assert!(!list.stdout.contains("mainstay start"), "{list}");
    assert_eq!(list.stdout.matches(&step).count(), 3, "{list}");
    let transports: Vec<&str> = list.rows()[1..].iter().map(|row| row[2]).collect();
    assert_eq!(transports, ["http", "stdio", "unknown"], "{list}");
    for arguments in [["call", "badport/x"], ["health", "unset"]] {
        assert_printed(&home.run(&arguments).await, 1, &[&step]);
    }
    // The finding has a position, and is printed once.
    assert_eq!(
        daemon.stderr_text.matches("the URL's port").count(),
        1,
        "{}",
        daemon.stderr_text
    );
    assert_eq!(
        daemon.stderr_text.matches(&step).count(),
        3,
        "{}",
        daemon.stderr_text
    );
    daemon.stop().await;
    // A command that starts servers itself also prints the problem.
    let list = home.run(&["list", "--config", &path]).await;
    assert_printed(&list, 0, &["correct its entry in the configuration\n"]);
}

#[tokio::test]
async fn a_stopped_server_has_a_next_step() {
    let home = home!();
    let config = fakes(&home, &[("one", &[])]);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 1 of 1").await;
    home.run(&["stop", "one"]).await;
    let expected_text = "disconnected: it is stopped; start it by \"mainstay start one\"";
    assert_printed(&home.run(&["health", "one"]).await, 1, &[expected_text]);
    daemon.stop().await;
}

/// A refused call is recorded with the tool's original name.
#[tokio::test]
async fn a_refused_call_is_recorded_under_one_name() {
    let home = home!();
    let config = fakes(
        &home,
        &[("brave-search", &[]), ("down", &["--crash-at-start", "7"])],
    );
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 1 of 2").await;
    for name in [
        "down/echo",
        "down__echo",
        "mcp__down__echo",
        "brave-search/x",
        "brave-search__x",
        "down/down/echo",
    ] {
        home.run(&["call", name]).await;
    }
    let records_output = until_recorded(&home, 6, &[]).await;
    let calls = records_output["calls"]
        .as_array()
        .expect("calls")
        .iter()
        .rev();
    let names: Vec<String> = calls
        .map(|call| format!("{} {}", call["server"], call["tool"]).replace('"', ""))
        .collect();
    assert_eq!(
        names,
        [
            "down echo",
            "down echo",
            "down echo",
            "brave-search x",
            "brave-search x",
            "down down/echo"
        ],
        "{records_output}"
    );
    daemon.stop().await;
}

/// If the server's start hangs, the error of a call describes the start.
#[tokio::test]
async fn a_call_to_a_hanging_start_says_so() {
    let home = home!();
    let config = json!({"mcpServers": {"hangs": {
        "command": "sleep", "args": ["600"], "timeout": 1000,
    }}});
    let config = home.file("servers.json", &config.to_string());
    let daemon = home.serve(&["--config", &config]).await;
    let call = home.run(&["call", "hangs/echo"]).await;
    assert_printed(
        &call,
        5,
        &["the server is not up yet", "mainstay logs hangs"],
    );
    assert!(!call.stderr.contains("gives its calls more time"), "{call}");
    assert!(!call.stderr.contains("at work"), "{call}");
    daemon.stop().await;
}
