//! `mainstay start`, `stop`, `restart` and `reconnect` (B12, C13, O2).

use insta::assert_snapshot;
use mainstay_testkit::home;
use serde_json::json;

use crate::fakes::fakes;

#[tokio::test]
async fn an_operator_is_told_what_came_of_it() {
    let home = home!();
    let config = fakes(&home, &[("one", &[]), ("two", &[])]);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 2 of 2").await;
    assert_snapshot!(
        home.transcript(&[
            &["stop", "one"],
            &["stop", "one"],
            &["call", "one/echo", "text=x"],
            &["start", "one"],
            &["start", "one"],
            &["call", "one/echo", "text=x"],
            &["restart", "one"],
            &["reconnect", "one"],
            &["stop", "two"],
            &["reconnect", "--all"],
            &["reconnect", "nobody"],
            &["reconnect"],
        ])
        .await
    );
    daemon.stop().await;
}

/// `reconnect` restarts the process of the named server only (O2).
#[tokio::test]
async fn a_reconnect_is_a_new_process() {
    let home = home!();
    let config = fakes(&home, &[("one", &[]), ("two", &[])]);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 2 of 2").await;
    let pids = async || {
        let servers = home.run(&["list", "--json"]).await.json()["servers"].clone();
        (servers[0]["pid"].clone(), servers[1]["pid"].clone())
    };
    let previous_pids = pids().await;
    let run = home.run(&["reconnect", "one", "--json"]).await;
    assert_eq!(run.json()["success"], true, "{run}");
    assert_eq!(run.json()["status"], "connected", "{run}");
    let after = pids().await;
    assert!(
        after.0 != previous_pids.0 && after.1 == previous_pids.1,
        "{after:?}"
    );
    home.run(&["reconnect", "--all"]).await;
    let last_pids = pids().await;
    assert!(
        last_pids.0 != after.0 && last_pids.1 != after.1,
        "{last_pids:?}"
    );
    daemon.stop().await;
}

/// `reconnect` of all servers names those that failed.
#[tokio::test]
async fn a_reconnect_of_all_names_those_that_failed() {
    let home = home!();
    let program = fake_server::binary();
    let config = json!({"mcpServers": {
        "bad": {"command": program, "args": ["--stderr", "no licence", "--crash-at-start", "7"]},
        "good": {"command": program},
    }});
    let config = home.file("servers.json", &config.to_string());
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 1 of 2").await;
    let run = home.run(&["reconnect", "--all"]).await;
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stdout.starts_with("good is connected, "), "{run}");
    assert!(
        run.stderr.contains("bad: ") && run.stderr.contains("code 7"),
        "{run}"
    );
    assert!(run.stderr.contains("  | no licence\n"), "{run}");
    daemon.stop().await;
}

/// One command can operate on several servers. The error about an unknown name has a suggestion.
#[tokio::test]
async fn several_servers_are_operated_at_once() {
    let home = home!();
    let config = fakes(&home, &[("one", &[]), ("three", &[]), ("two", &[])]);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 3 of 3").await;
    assert_snapshot!(
        home.transcript(&[
            &["stop", "one", "two", "one"],
            &["restart", "--all"],
            &["start", "--all"],
            &["restart", "one", "twoo"],
            &["restart", "onee", "twoo"],
            &["restart", "onee", "twoo", "--json"],
            &["restart", "thre"],
            &["restart", "thre", "--json"],
            &["disable", "twoo"],
            &["tools", "tow"],
            &["call", "one/ehco", "text=x"],
            &["call", "ehco", "text=x"],
            &["tools", "get", "one/ehco"],
            &["restart", "--json"],
            &["restrat", "--json"],
            &["restart", "one", "--all", "--json"],
        ])
        .await
    );
    let listed_run = home.run(&["tools", "one"]).await;
    let count = listed_run.stdout.lines().count();
    let repeated_run = home.run(&["tools", "list", "one"]).await;
    assert_eq!(
        (&repeated_run.stdout, repeated_run.code),
        (&listed_run.stdout, Some(0))
    );
    assert!(
        count > 5 && !listed_run.stdout.contains("two/"),
        "{listed_run}"
    );
    daemon.stop().await;
}
