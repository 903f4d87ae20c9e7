//! Error texts say what failed and what to do next.

use insta::assert_snapshot;
use mainstay_testkit::home;
use serde_json::Value;

use crate::fakes::fakes;

/// Commands that fail in different ways.
const FAILING_COMMANDS: &[&[&str]] = &[
    &["lsit"],
    &["records", "exprot"],
    &["list", "--jsn"],
    &["get", "alpa"],
    &["get", "nobody"],
    &["health", "alpa"],
    &["restart", "alpa"],
    &["logs", "alpa"],
    &["call", "alpha/ecoh", "text=x"],
    &["call", "alpha/echo", "text"],
    &["call", "alpha/rpc_error"],
    &["tools", "get", "alpha/ecoh"],
    &["tools", "alpha/echo"],
    &["prompts", "get", "alpha/gret"],
    &["read", "fake://nothing"],
    &["records", "999999"],
    &["records", "--status", "fine"],
    &["records", "--since", "soon"],
    &["object", "nonsense"],
    &["requests", "answer", "7", "{}"],
    &["requests", "answer", "7", "{"],
    &["approve", "alpha"],
    &["remove", "alpa"],
    &["token", "add", "client"],
    &["token", "add", "not a name"],
    &["token", "add", "other", "--expires", "99999d"],
    &["token", "remove", "cleint"],
    &["switches", "off", "client", "alpa"],
    &["connect", "--server", "not a name", "--wait", "0"],
    &["add", "not a name", "--", "x"],
    &["validate", "nowhere.json"],
    &["export", "--for", "cursr"],
    &["import", "--from", "cursr"],
    &["setup", "--client", "cursr", "--dry-run"],
    &["add", "--from", "cursr", "files"],
    &["resolve", "no-such-program"],
    &["list", "--url", "ftp://x"],
    &["list", "--url", "http://127.0.0.1:1"],
];

#[tokio::test]
async fn every_error_says_what_to_do_next() {
    let home = home!();
    let config = fakes(&home, &[("alpha", &[]), ("beta", &[])]);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 2 of 2").await;
    assert_eq!(home.run(&["token", "add", "client"]).await.code, Some(0));
    let mut errors_text = String::new();
    for arguments in FAILING_COMMANDS {
        let plain_run = home.run(arguments).await;
        assert_ne!(plain_run.code, Some(0), "{plain_run}");
        errors_text += &plain_run.to_string();
        // Errors of clap end with the usage instead of a hint.
        let has_next = ["hint: "];
        assert!(
            has_next
                .iter()
                .any(|phrase| plain_run.stderr.contains(phrase)),
            "{plain_run}"
        );

        let as_json = [arguments, ["--json"].as_slice()].concat();
        let as_json = match arguments[0] {
            // `connect` has no JSON errors, because its stdout is for MCP messages.
            "connect" => continue,
            "add" if arguments.contains(&"--") => {
                ["add", "--json", "not a name", "--", "x"].to_vec()
            }
            _ => as_json,
        };
        let run = home.run(&as_json).await;
        assert_eq!((run.code, &*run.stdout), (plain_run.code, ""), "{run}");
        let last_line = run.stderr.lines().last().unwrap_or_default();
        let body: Value =
            serde_json::from_str(last_line).unwrap_or_else(|error| panic!("{error}: {run}"));
        assert!(
            body["error"].is_string() && body["message"].is_string(),
            "{run}"
        );
        assert!(body["hint"].is_string(), "{run}");
        errors_text.extend([last_line, "\n\n"]);
    }
    let redacted_text = home.redacted(&errors_text);
    assert_snapshot!(redacted_text);
    daemon.stop().await;
}
