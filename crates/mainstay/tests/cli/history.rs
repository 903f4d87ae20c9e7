//! `mainstay history`: outages with their reason and duration.

use mainstay_testkit::{Home, home, within};
use serde_json::json;

/// Waits until the output contains these texts in order.
async fn until_history(home: &Home, arguments: &[&str], texts: &[&str]) -> String {
    let all_arguments = [&["history"], arguments].concat();
    within(async {
        loop {
            let run = home.run(&all_arguments).await;
            let mut places = texts.iter().map(|text| run.stdout.find(text));
            if places.all(|place| place.is_some()) {
                return run.stdout;
            }
        }
    })
    .await
}

#[tokio::test]
async fn an_outage_is_told_with_its_reason_and_its_length() {
    let home = home!();
    let program = fake_server::binary();
    let servers = json!({
        "db": {"command": program, "args": ["--stderr", "fatal: database is locked"],
            "reconnect": {"initialDelayMs": 100}},
        "other": {"command": program, "args": ["--initialize-error"], "preset": "manual"},
    });
    let config = home.file("servers.json", &json!({"mcpServers": servers}).to_string());
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 1 of 2").await;
    home.run(&["call", "db/crash"]).await;
    daemon.wait_for_stderr("db     connected").await;

    let reason = "process exited unexpectedly (code 3): fatal: database is locked";
    let text = until_history(&home, &["db"], &[reason, "was down for "]).await;
    assert!(!text.contains("other"), "{text}");
    let lost_offset = text.find(reason);
    assert!(lost_offset < text.find("was down for "), "{text}");

    let matching_output = home.run(&["history", "db", "--json"]).await.json();
    let changes = matching_output["changes"].as_array().expect("changes");
    let db_changes = changes.iter().filter(|change| change["server"] == "db");
    let words: Vec<_> = db_changes.clone().map(|change| &change["status"]).collect();
    assert_eq!(
        words,
        ["connecting", "connected", "reconnecting", "connected"]
    );
    let crash = db_changes.clone().nth(2).expect("a crash");
    assert_eq!(crash["exitCode"], 3, "{crash}");
    assert!(crash.get("downMs").is_none(), "{crash}");
    let return_mark = db_changes.clone().nth(3).expect("it came back");
    assert!(return_mark["downMs"].is_u64(), "{return_mark}");
    // An outage that continues has its duration until now.
    let all_text = until_history(&home, &["--since", "2h"], &["other", "down for "]).await;
    assert!(all_text.contains("Mainstay itself"), "{all_text}");

    // `events` refers to `history` for older events.
    let events = home.run(&["events", "--server", "db"]).await;
    assert_eq!(
        events.stderr, "`mainstay history db` shows the last 30 days\n",
        "{events}"
    );
    for command in [
        &["history", "dx"][..],
        &["events", "--server", "dx"],
        &["events", "--follow", "--server", "dx"],
        &["records", "--server", "dx"],
    ] {
        let unknown_run = home.run(command).await;
        assert_eq!(unknown_run.code, Some(4), "{unknown_run}");
        assert!(
            unknown_run.stderr.contains("did you mean db"),
            "{unknown_run}"
        );
    }
    let uncalled_run = home.run(&["records", "--server", "other"]).await;
    assert_eq!(uncalled_run.code, Some(0), "{uncalled_run}");
    daemon.stop().await;

    // Without a daemon the history is read from the journal.
    let text = until_history(&home, &["db"], &[reason, "stopped"]).await;
    assert!(text.contains("was down for "), "{text}");
    let unknown_run = home.run(&["history", "dx"]).await;
    assert_eq!(unknown_run.code, Some(4), "{unknown_run}");
}

#[tokio::test]
async fn a_time_without_a_unit_is_refused() {
    let home = home!();
    for command in ["history", "records", "stats"] {
        let refused_run = home.run(&[command, "--since", "5"]).await;
        assert_eq!(refused_run.code, Some(2), "{refused_run}");
        let expected_error = "5 has no unit; write 5s, 5m, 5h or 5d (ago)";
        assert!(refused_run.stderr.contains(expected_error), "{refused_run}");
        let ends = ["--since", "2026-11-28", "--until", "2026-11-27 23:00"];
        let refused_run = home.run(&[&[command], &ends[..]].concat()).await;
        assert_eq!(refused_run.code, Some(2), "{refused_run}");
        assert!(
            refused_run.stderr.contains("is before --since"),
            "{refused_run}"
        );
    }
}

/// With `--json`, notes and errors on stderr are JSON. Usage errors have the same form.
#[tokio::test]
async fn stderr_is_json_or_in_one_form() {
    let home = home!();
    let token_run = home
        .run(&["add", "x", "http://127.0.0.1:1/mcp", "--json"])
        .await;
    assert_eq!(token_run.code, Some(1), "{token_run}");
    let lines = token_run.stderr.lines();
    let lines: Vec<serde_json::Value> = lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{token_run}")))
        .collect();
    assert_eq!(lines[0], json!({"note": "x would be:"}), "{token_run}");
    let error = lines.last().expect("an error");
    assert!(error["error"].is_string(), "{token_run}");

    let wrong_run = home.run(&["list", "--wacth"]).await;
    assert_eq!(
        wrong_run.stderr,
        "error: unexpected argument '--wacth' found\n  hint: a similar argument exists: '--watch'\n",
        "{wrong_run}"
    );
    let wrong_run = home.run(&["get"]).await;
    assert!(
        wrong_run.stderr.contains("\n  hint: usage: mainstay get "),
        "{wrong_run}"
    );
}
