//! `mainstay records export` and `records --follow`.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Stdio};

use insta::assert_snapshot;
use mainstay_testkit::{Home, Serving, found, home, limits::PROGRAMS, within};
use rusqlite::Connection;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use crate::fakes::fakes;

async fn serve(home: &Home) -> Serving {
    let config = fakes(home, &[("one", &[]), ("two", &[])]);
    let mut daemon = home.serve(&["--config", &config]).await;
    // Wait until the tools are known.
    daemon.wait_for_stderr("ready:").await;
    daemon
}

/// Runs a command line several times in one shell.
async fn call(home: &Home, line: &str, times: usize) {
    let mut command = home.command(&["shell"]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let text = format!("{line}\n").repeat(times);
    let write_task = tokio::spawn(async move { stdin.write_all(text.as_bytes()).await });
    let output = within(child.wait_with_output()).await.expect("it ends");
    write_task.await.expect("joined").expect("written");
    assert!(output.status.code().is_some());
}

/// The rows of a query. Each row has a text and a number.
fn rows(file: &Path, query: &str) -> Vec<(String, i64)> {
    let file = Connection::open(file).expect("a database");
    let mut query = file.prepare(query).expect("a query");
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    rows.expect("rows").map(|row| row.expect("a row")).collect()
}

/// Exports more than one page, to a file and to a pipe, with and without a daemon.
#[tokio::test]
async fn all_calls_become_a_table() {
    let home = home!();
    let daemon = serve(&home).await;
    call(&home, "/call one/echo text=\"a, b\"", 1003).await;
    call(&home, "/call two/error", 2).await;
    let export = async |arguments: &[&str]| {
        let all_arguments = [&["records", "export", "--format"], arguments].concat();
        home.run(&all_arguments).await
    };
    let database = home.path().join("calls.sqlite");
    let exported_count = found(PROGRAMS, "all records", async || {
        let _ = fs::remove_file(&database);
        let exported_count = export(&["sqlite", "--output", "calls.sqlite"]).await;
        exported_count
            .stderr
            .contains("1005 calls written to calls.sqlite")
            .then_some(exported_count)
    })
    .await;
    assert_eq!(
        (exported_count.code, &*exported_count.stdout),
        (Some(0), ""),
        "{exported_count}"
    );
    let mode = fs::metadata(&database)
        .expect("a file")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600, "others may not read what was called");
    let status_query = "SELECT name || ' ' || status, count(*) FROM calls GROUP BY 1 ORDER BY 1";
    let expected = [("one/echo ok", 1003), ("two/error error", 2)];
    assert_eq!(
        rows(&database, status_query),
        expected.map(|(name, count)| (name.to_owned(), count))
    );
    let times = "SELECT typeof(duration_ms) || ' ' || typeof(started_at_ms) || ' ' ||
        (abs(unixepoch(started_at) * 1000 - started_at_ms) < 1000), count(*) FROM calls GROUP BY 1";
    assert_eq!(
        rows(&database, times),
        [("real integer 1".to_owned(), 1005)]
    );
    let arguments =
        "SELECT arguments ->> 'text', count(*) FROM calls WHERE server = 'one' GROUP BY 1";
    assert_eq!(rows(&database, arguments), [("a, b".to_owned(), 1003)]);
    let schema = "SELECT sql, 0 FROM sqlite_master WHERE name = 'calls'";
    assert_snapshot!("schema", rows(&database, schema)[0].0.replace(", ", ",\n"));

    let lines = export(&["jsonl"]).await;
    assert_eq!((lines.code, &*lines.stderr), (Some(0), ""));
    let lines = lines.stdout.lines();
    let lines: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 1005);
    assert_eq!(lines[1004]["arguments"]["text"], "a, b");
    let csv = export(&["csv"]).await.stdout;
    let csv: Vec<&str> = csv.split("\r\n").collect();
    assert_eq!(csv.len(), 1 + 1005 + 1);
    let heads: Vec<&str> = csv[0].split(',').collect();
    let members: Vec<&String> = lines[0].as_object().expect("an object").keys().collect();
    assert_eq!(heads, members);
    assert!(
        csv[1005].contains(r#","{""text"":""a, b""}","#),
        "{}",
        csv[1005]
    );

    // Filters may stand before and after the subcommand.
    let few_run = home
        .run(&["records", "--server", "two", "export", "--format", "csv"])
        .await;
    assert_eq!(few_run.stdout.lines().count(), 3, "{few_run}");
    let few_run = export(&["jsonl", "--limit", "1001", "--tool", "echo"]).await;
    assert_eq!(few_run.stdout.lines().count(), 1001);
    daemon.stop().await;
    let jsonl_run = export(&["jsonl"]).await;
    assert_eq!(jsonl_run.stdout.lines().count(), 1005);
}

#[tokio::test]
async fn a_file_is_replaced_only_if_that_is_said() {
    let home = home!();
    let daemon = serve(&home).await;
    call(&home, "/call one/echo text=x", 1).await;
    home.file("there.csv", "mine");
    let transcript = home
        .transcript(&[
            &[
                "records",
                "export",
                "--format",
                "csv",
                "--output",
                "there.csv",
            ],
            &[
                "records",
                "export",
                "--format",
                "csv",
                "--output",
                "there.csv",
                "--json",
            ],
            &["records", "export", "--format", "sqlite"],
            &[
                "records",
                "export",
                "--format",
                "csv",
                "--output",
                "no/such/folder.csv",
            ],
            &["records", "export"],
            &["records", "7", "export", "--format", "csv"],
            &["records", "export", "--format", "csv", "--server", "nobody"],
        ])
        .await;
    assert_snapshot!(transcript);
    let existing_text = || fs::read_to_string(home.path().join("there.csv")).expect("there");
    assert_eq!(existing_text(), "mine");
    let forced_export = [
        "records",
        "export",
        "--format",
        "csv",
        "--output",
        "there.csv",
        "--force",
    ];
    assert_eq!(home.run(&forced_export).await.code, Some(0));
    assert!(
        existing_text().starts_with("id,started_at,started_at_ms,"),
        "{}",
        existing_text()
    );
    // No temporary file remains.
    let names = fs::read_dir(home.path()).expect("a folder");
    let names: Vec<_> = names
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert!(
        !names
            .iter()
            .any(|name| name.to_string_lossy().starts_with(".tmp")),
        "{names:?}"
    );
    daemon.stop().await;
}

/// `--follow` prints calls when they end, and with `--begun` when they begin. It continues after a
/// restart.
#[tokio::test]
async fn calls_are_followed() {
    let home = home!();
    let daemon = serve(&home).await;
    call(&home, "/call one/echo text=before", 1).await;
    let follow = |arguments: &[&str]| {
        let all_arguments = [&["records", "--follow"], arguments].concat();
        let mut child = home.command(&all_arguments).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        (child, lines)
    };
    let (mut plain_follower, mut lines) = follow(&["--server", "one", "--since", "1m"]);
    let (mut json, mut objects) = follow(&["--json", "--begun", "--since", "1m"]);
    let mut next_line = async || {
        within(lines.next_line())
            .await
            .expect("UTF-8")
            .expect("a line")
    };
    let mut next_object = async || {
        let line = within(objects.next_line())
            .await
            .expect("UTF-8")
            .expect("a line");
        let call: Value = serde_json::from_str(&line).expect("JSON");
        let text_member = |member: &str| call[member].as_str().expect(member).to_owned();
        format!("{} {}", text_member("name"), text_member("status"))
    };
    assert_eq!(next_object().await, "one/echo ok");
    assert!(next_line().await.contains("  one/echo  ok  "));
    call(&home, "/call one/add a=1 b=2", 1).await;
    let second_line = next_line().await;
    assert!(second_line.contains("  one/add  ok  "), "{second_line}");

    let slow_call = ["call", "two/sleep", "ms=600000"];
    let mut slow_call = home.command(&slow_call).spawn().expect("it starts");
    while next_object().await != "two/sleep open" {}
    slow_call.kill().await.expect("killed");
    assert_eq!(next_object().await, "two/sleep cancelled");

    // A call that begins before `--follow`.
    let early_call = ["call", "two/sleep", "ms=600001"];
    let mut early_call = home.command(&early_call).spawn().expect("it starts");
    let is_open = || home.run(&["records", "--status", "open"]);
    while !within(is_open()).await.stdout.contains("two/sleep") {}
    let (mut late_follower, mut endings) = follow(&["--server", "two"]);
    // A new call in the output shows that the open calls were read.
    let first = loop {
        tokio::select! {
            line = endings.next_line() => break line,
            () = call(&home, "/call two/echo text=now", 1) => {}
        }
    };
    assert!(first.expect("UTF-8").expect("a line").contains("two/echo"));
    early_call.kill().await.expect("killed");
    let ended_line = loop {
        let line = within(endings.next_line()).await.expect("UTF-8");
        let line = line.expect("a line");
        if !line.contains("two/echo") {
            break line;
        }
    };
    assert!(
        ended_line.contains("  two/sleep  cancelled"),
        "{ended_line}"
    );
    late_follower.kill().await.expect("killed");

    daemon.stop().await;
    let daemon = serve(&home).await;
    call(&home, "/call one/rpc_error", 1).await;
    let third_line = next_line().await;
    assert!(
        third_line.contains("  one/rpc_error  error  "),
        "{third_line}"
    );
    assert!(third_line.contains("the request failed"), "{third_line}");
    for child in [&mut plain_follower, &mut json] {
        child.kill().await.expect("killed");
    }
    let wrong_run = home
        .run(&["records", "--follow", "--status", "nonsense"])
        .await;
    assert_eq!(wrong_run.code, Some(2), "{wrong_run}");
    daemon.stop().await;
    let empty_run = home.run(&["records", "--follow"]).await;
    assert_eq!(empty_run.code, Some(3), "{empty_run}");
}

/// A call whose error matches the text is printed when it ends.
#[tokio::test]
async fn followed_calls_match_by_their_text() {
    let home = home!();
    let program = fake_server::binary();
    let servers = json!({
        "one": {"command": program},
        "two": {"command": program, "timeout": 3000},
    });
    let config = home.file("servers.json", &json!({"mcpServers": servers}).to_string());
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready:").await;
    call(&home, "/call one/echo text=other", 1).await;
    let follow = ["records", "--follow", "--json", "--begun", "--since", "1m"];
    let mut child = home
        .command(&[&follow[..], &["--text", "Call_Timeout"]].concat())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let slow_call = ["call", "two/sleep", "ms=600000"];
    let mut slow_call = home.command(&slow_call).spawn().expect("it starts");
    let is_open = || home.run(&["records", "--status", "open"]);
    while !within(is_open()).await.stdout.contains("two/sleep") {}
    call(&home, "/call one/echo text=call_timeout", 1).await;
    let mut printed_lines = Vec::new();
    let mut next_entry = async || {
        let line = within(lines.next_line()).await.expect("UTF-8");
        let line: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        let text_member = |member: &str| line[member].as_str().expect(member).to_owned();
        format!("{} {}", text_member("name"), text_member("status"))
    };
    for _ in 0..2 {
        printed_lines.push(next_entry().await);
    }
    within(slow_call.wait()).await.expect("it ends");
    printed_lines.sort();
    assert_eq!(printed_lines, ["one/echo ok", "two/sleep timeout"]);
    // Each matching call is printed once.
    call(&home, "/call one/echo text=more", 1).await;
    call(&home, "/call one/error call_timeout=1", 1).await;
    assert_eq!(next_entry().await, "one/error error");
    child.kill().await.expect("killed");
    daemon.stop().await;
}
