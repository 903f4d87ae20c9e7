//! `mainstay logs`, with and without a daemon.

use insta::assert_snapshot;
use mainstay_testkit::{Run, home, within};
use mainstay_transport::logs::Line;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::fakes::fakes;

const CHATTY_FLAGS: &[&str] = &["--noise", "--stderr", "hello, Authorization: Bearer abc"];

/// The lines without their timestamps. A timestamp is like `08:30:12.345`, with an optional date.
fn messages_of(run: &Run) -> Vec<String> {
    let messages = run.stdout.lines().map(|line| {
        let (mut time, mut rest) = line.split_once(' ').expect("a time");
        if time.contains('-') {
            (time, rest) = rest.split_once(' ').expect("a time after its day");
        }
        let is_time = time.len() == 12 && time.bytes().filter(|byte| *byte == b':').count() == 2;
        assert!(is_time, "{line}");
        rest.to_owned()
    });
    messages.collect()
}

/// The log omits protocol messages, and redacts secrets (S11).
#[tokio::test]
async fn output_outside_the_protocol_is_shown() {
    let home = home!();
    let config = fakes(&home, &[("fake", CHATTY_FLAGS), ("silent", &[])]);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 2 of 2").await;
    let all_run = home.run(&["logs", "fake", "--tail", "1000"]).await;
    let lines = messages_of(&all_run);
    assert!(lines[0].starts_with("mainstay started pid "), "{all_run}");
    for line in [
        "stderr   hello, Authorization: Bearer [redacted]",
        "stdout   Server ready on stdio!",
        "stdout   {\"a\":1}",
        "mainstay connected",
    ] {
        assert!(
            lines.iter().any(|message| message == line),
            "{line}: {all_run}"
        );
    }
    assert!(!all_run.stdout.contains("jsonrpc"), "{all_run}");

    let last_run = home.run(&["logs", "fake", "-n", "2", "--json"]).await;
    let last_run = last_run.json()["lines"].clone();
    let [.., line_before, end] = all_run.stdout.lines().collect::<Vec<_>>()[..] else {
        panic!("{all_run}")
    };
    for (line, printed_line) in [(&last_run[0], line_before), (&last_run[1], end)] {
        let text = line["text"].as_str().expect("a text");
        assert!(printed_line.ends_with(text), "{last_run}: {all_run}");
    }
    assert!(last_run.get(2).is_none(), "{last_run}");
    daemon.stop().await;
}

/// Messages have the limit of document 003, 1 MiB. Half of it causes a warning.
#[tokio::test]
async fn long_messages_are_told() {
    let home = home!();
    let entry = json!({"command": fake_server::binary(), "maxMessageBytes": 1 << 20});
    let config = json!({"mcpServers": {"fake": entry}}).to_string();
    let config = home.file("servers.json", &config);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 1 of 1").await;
    for (bytes, code) in [
        ("bytes=500000", 0),
        ("bytes=600000", 0),
        ("bytes=1100000", 1),
    ] {
        let run = home.run(&["call", "fake/big", bytes]).await;
        assert_eq!(run.code, Some(code), "{}", run.stderr);
    }
    let all_run = home.run(&["logs", "fake", "--tail", "1000"]).await;
    let count = |text: &str| {
        messages_of(&all_run)
            .iter()
            .filter(|line| line.contains(text))
            .count()
    };
    let half_text = "more than half of maxMessageBytes (1048576)";
    assert_eq!(count(half_text), 1, "{all_run}");
    assert_eq!(
        count("exceeds 1048576 bytes (maxMessageBytes); "),
        1,
        "{all_run}"
    );
    assert_eq!(
        count(" messages were read before it, 0 lines were none"),
        1,
        "{all_run}"
    );
    daemon.stop().await;
}

#[tokio::test]
async fn a_log_is_followed_until_the_daemon_stops() {
    let home = home!();
    let config = fakes(&home, &[("fake", CHATTY_FLAGS)]);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 1 of 1").await;
    let mut follower = home
        .command(&["logs", "fake", "--follow", "--json", "--tail", "1"])
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(follower.stdout.take().expect("a pipe")).lines();
    let mut next_entry = async || -> Option<serde_json::Value> {
        let line = within(lines.next_line()).await.expect("UTF-8")?;
        Some(serde_json::from_str(&line).expect("JSON"))
    };
    let first = next_entry().await.expect("a line");
    // Lines of other output surround each message.
    home.run(&["call", "fake/echo", "text=x"]).await;
    let mut texts = vec![first["text"].clone()];
    while texts
        .last()
        .is_none_or(|text| *text != "Server ready on stdio!")
        || texts.len() < 2
    {
        texts.push(next_entry().await.expect("a line")["text"].clone());
    }
    daemon.stop().await;
    while next_entry().await.is_some() {}
    let status = within(follower.wait()).await.expect("waited for");
    assert_eq!(status.code(), Some(0));
}

/// All lines remain after the daemon has ended (S5).
#[tokio::test]
async fn without_a_daemon_its_files_are_read() {
    let home = home!();
    let config = fakes(
        &home,
        &[("fake", CHATTY_FLAGS), ("dead", &["--crash-at-start", "7"])],
    );
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 1 of 2").await;
    daemon.stop().await;
    let run = home.run(&["logs", "fake"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(
        messages_of(&run).last().map(String::as_str),
        Some("mainstay disconnected: stopped")
    );
    let run = home.run(&["logs", "dead", "--json"]).await;
    let lines = run.json()["lines"].to_string();
    assert!(
        lines.contains("the fake crashes at start with code 7"),
        "{lines}"
    );
    // Without a daemon, `--follow` fails.
    let run = home.run(&["logs", "fake", "--follow", "--tail", "1"]).await;
    assert_eq!(
        (run.code, run.stdout.lines().count()),
        (Some(3), 1),
        "{run}"
    );

    let errors = home.state().join("logs/mcp-errors.log");
    let errors = std::fs::read_to_string(errors).expect("read");
    assert!(
        errors.contains(" dead process exited unexpectedly (code 7)"),
        "{errors}"
    );
    assert!(
        errors.contains(" fake failed to parse JSON-RPC message from stdout"),
        "{errors}"
    );
    let fake = home.state().join("logs/mcp-fake.log");
    let fake = std::fs::read_to_string(fake).expect("read");
    assert!(
        fake.lines().all(|line| Line::parse(line).is_some()),
        "{fake}"
    );
}

#[tokio::test]
async fn a_server_that_nobody_knows_has_no_log() {
    let home = home!();
    let mut transcript = home
        .transcript(&[&["logs", "nobody"], &["logs", "../token", "--json"]])
        .await;
    assert!(!home.state().exists());
    let config = fakes(&home, &[("fake", &[])]);
    let daemon = home.serve(&["--config", &config]).await;
    transcript += &home
        .transcript(&[
            &["logs", "nobody"],
            &["logs", "nobody", "--follow", "--json"],
            &["logs", "a?b"],
        ])
        .await;
    assert_snapshot!(transcript);
    daemon.stop().await;
}

/// A command that starts servers itself shows the last lines of their stderr.
#[tokio::test]
async fn servers_of_one_command_have_their_stderr() {
    let home = home!();
    let config = fakes(&home, &[("fake", CHATTY_FLAGS)]);
    let run = home.run(&["logs", "fake", "--config", &config]).await;
    assert_eq!(
        messages_of(&run),
        ["stderr   hello, Authorization: Bearer [redacted]"]
    );
    assert!(!home.state().exists());
}
