//! `mainstay events`: servers that are lost and return cause events.

use std::time::Duration;

use insta::assert_snapshot;
use mainstay_testkit::{found, home, limits::PROGRAMS, within};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::fakes::fakes;

/// Length of the timestamp.
const CLOCK: usize = "2026-11-21 08:30:12".len();

/// The text output of events (I1–I3, I6).
#[tokio::test]
async fn server_events_are_printed_in_order() {
    let home = home!();
    let program = fake_server::binary();
    let servers = json!({
        "good": {"command": program},
        // Without retries, this server has no further events.
        "other": {"command": program, "args": ["--initialize-error"], "preset": "manual"},
    });
    let config = home.file("servers.json", &json!({"mcpServers": servers}).to_string());
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 1 of 2").await;
    home.run(&["call", "good/crash"]).await;
    daemon.wait_for_stderr("reconnecting").await;
    daemon.wait_for_stderr("good   connected").await;

    let run = home.run(&["events", "--server", "good"]).await;
    let lines = run.stdout.lines().map(|line| {
        let (clock, rest) = line.split_at(CLOCK);
        assert!(
            chrono::NaiveDateTime::parse_from_str(clock, "%Y-%m-%d %H:%M:%S").is_ok(),
            "{line}"
        );
        // Remove the number of tools, which changes when the fake changes.
        rest.split("; new: add, ")
            .next()
            .unwrap_or_default()
            .to_owned()
    });
    let lines: Vec<String> = lines.collect();
    let count = fake_tools(&lines[2]);
    let text = lines.join("\n").replace(&count, "[COUNT]");
    assert_snapshot!(home.redacted(&text), @r"
  good          starting
  good          connected
  good          tools         [COUNT]
  good          lost          process exited unexpectedly (code 3)
  good          reconnecting  process exited unexpectedly (code 3); attempt 1 in [TIME]
  good          starting
  good          reconnected   after 1 attempt
");

    let all_run = home.run(&["events", "--json"]).await;
    let events: Vec<Value> = all_run
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let other_events = events.iter().filter(|event| event["server"] == "other");
    let other_events: Vec<&Value> = other_events.map(|event| &event["type"]).collect();
    assert_eq!(other_events, ["server_starting", "server_failed"]);
    let place = events[events.len() - 2]["id"].as_str().expect("an id");
    let last_run = home.run(&["events", "--json", "--after", place]).await;
    assert_eq!(last_run.json(), events[events.len() - 1]);

    let wrong_run = home.run(&["events", "--after", "yesterday"]).await;
    assert_eq!(wrong_run.code, Some(2), "{wrong_run}");
    daemon.stop().await;
}

/// The number in a row such as `good tools 35`.
fn fake_tools(line: &str) -> String {
    let count = line.rsplit(' ').next().unwrap_or_default();
    assert!(count.parse::<u32>().is_ok_and(|count| count > 20), "{line}");
    count.to_owned()
}

/// `--follow` prints the current status and then events. It continues after a restart of the
/// daemon.
#[tokio::test]
async fn following_goes_on_with_a_daemon_that_was_started_anew() {
    let home = home!();
    let config = fakes(&home, &[("good", &[])]);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 1 of 1").await;
    let mut follower = home
        .command(&["events", "--follow", "--json"])
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(follower.stdout.take().expect("a pipe")).lines();
    let mut until_event = async |kind: &str| loop {
        let line = within(lines.next_line())
            .await
            .expect("UTF-8")
            .expect("a line");
        let event: Value = serde_json::from_str(&line).expect("JSON");
        if event["type"] == kind {
            return event;
        }
    };
    let snapshot = until_event("snapshot").await;
    assert_eq!(snapshot["servers"][0]["status"], "connected");
    home.run(&["call", "good/crash"]).await;
    let lost_event = until_event("server_disconnected").await;
    assert_eq!(lost_event["data"]["wasIntentional"], false);
    assert_eq!(lost_event["data"]["name"], "good");
    until_event("server_reconnected").await;

    daemon.stop().await;
    let mut daemon = home.serve(&["--config", &config]).await;
    until_event("snapshot").await;
    daemon.wait_for_stderr("good  connected").await;
    home.run(&["call", "good/crash"]).await;
    until_event("server_disconnected").await;
    daemon.stop().await;
    follower.kill().await.expect("it can be ended");
    let output = within(follower.wait_with_output())
        .await
        .expect("its output");
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(
        text.contains("the daemon is gone; waiting for it"),
        "{text}"
    );
}

/// `--follow` fails at once if no daemon runs.
#[tokio::test]
async fn a_daemon_that_never_was_is_not_waited_for() {
    let home = home!();
    let follow = home.command(&["events", "--follow"]).output();
    let output = tokio::time::timeout(Duration::from_secs(20), follow).await;
    let output = output.expect("in time").expect("it starts");
    assert_eq!(output.status.code(), Some(3));
}

/// The command of an alert runs when an outage begins and when it ends.
#[tokio::test]
async fn an_outage_is_told_to_the_command_of_an_alert() {
    let home = home!();
    let path = home.path().join("told");
    let script = format!("cat >> {0}; echo >> {0}", path.display());
    let config = serde_json::json!({
        "mcpServers": {"good": {"command": fake_server::binary()}},
        "alerts": [{"command": ["sh", "-c", script], "afterMs": 0}],
    });
    let config = home.file("alerts.json", &config.to_string());
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 1 of 1").await;
    home.run(&["call", "good/crash"]).await;
    let lines = found(PROGRAMS, "two alerts", async || {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        (text.lines().count() >= 2 && text.ends_with('\n')).then_some(text)
    })
    .await;
    let alerts: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(alerts[0]["alert"], "server_down");
    assert_eq!(alerts[1]["alert"], "recovered");
    assert_eq!(alerts[1]["server"], "good");
    daemon.stop().await;
}

/// A reload causes an event, and so does a failed reload (I6).
#[tokio::test]
async fn a_reload_is_told_and_so_is_one_that_is_refused() {
    let home = home!();
    let config = fakes(&home, &[("stays", &[]), ("goes", &[])]);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 2 of 2").await;
    let recent_run = home.run(&["events", "--json"]).await;
    let last_line = recent_run.stdout.lines().last().expect("an event");
    let place: Value = serde_json::from_str(last_line).expect("JSON");
    let place = place["id"].as_str().expect("an id");

    home.file("servers.json", "nonsense");
    assert_eq!(home.run(&["reload"]).await.code, Some(2));
    fakes(&home, &[("stays", &[]), ("comes", &[])]);
    assert_eq!(home.run(&["reload"]).await.code, Some(0));
    let run = home.run(&["events", "--json", "--after", place]).await;
    let events: Vec<Value> = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let data = |kind: &str| -> Vec<&Value> {
        let matching_events = events.iter().filter(|event| event["type"] == kind);
        matching_events.map(|event| &event["data"]).collect()
    };
    let reason = data("config_rejected")[0]["reason"]
        .as_str()
        .expect("a reason");
    assert!(reason.contains("servers.json:1:1"), "{reason}");
    assert_eq!(data("server_added")[0]["name"], "comes");
    assert_eq!(data("server_removed")[0]["name"], "goes");
    assert_eq!(data("server_disconnected")[0]["wasIntentional"], true);
    assert_eq!(
        *data("config_reloaded")[0],
        serde_json::json!({"added": ["comes"], "removed": ["goes"], "changed": []})
    );
    daemon.stop().await;
}
