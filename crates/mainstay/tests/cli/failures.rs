//! Usage errors, invalid configurations, and commands without a daemon.

use insta::assert_snapshot;
use mainstay_testkit::home;

#[tokio::test]
async fn without_a_daemon_commands_say_how_to_get_one() {
    let home = home!();
    assert_snapshot!(
        home.transcript(&[
            &["list"],
            &["list", "--json"],
            &["call", "a/b", "x=1", "--url", "http://127.0.0.1:1"],
            &["tools", "--url", "https://example.com"],
            &["read", "x://y", "--url", "http://127.0.0.1:1", "--json"],
        ])
        .await
    );
    // A query creates no state directory.
    assert!(!home.state().exists());
}

#[tokio::test]
async fn an_address_that_others_can_reach_is_refused() {
    let home = home!();
    assert_snapshot!(
        home.transcript(&[
            &["serve", "--listen", "0.0.0.0:7420"],
            &["serve", "--listen", "[::]:7420", "--json"],
            &["serve", "--listen", "192.0.2.1:7420"],
            &["serve", "--listen", "7420"],
        ])
        .await
    );
    assert!(!home.state().exists());
}

#[tokio::test]
async fn wrong_usage_exits_with_2() {
    let home = home!();
    for arguments in [
        &["lst"][..],
        &[],
        &["call"],
        &["call", "a/b", "x=1", "--args", "{}"],
        &["read"],
        &["read", "a", "b", "c"],
        &["serve", "--demo", "--config", "x.json"],
        &["list", "--config", "x.json", "--url", "http://127.0.0.1:1"],
    ] {
        let run = home.run(arguments).await;
        assert_eq!(run.code, Some(2), "{run}");
        assert_eq!(run.stdout, "", "{run}");
    }
}

#[tokio::test]
async fn a_bad_configuration_is_named_by_line_and_column() {
    let home = home!();
    home.file("broken.json", "{\n  \"mcpServers\": {\n");
    home.file(
        "wrong.json",
        r#"{
  "mcpServers": {
    "a": {"command": ""},
    "b": {"url": "ftp://example.com"},
    "c": {"command": "x", "comand": "y"}
  }
}"#,
    );
    home.file(
        "odd.json",
        r#"{"mcpServers": {"c": {"command": "x", "comand": "y"}}}"#,
    );
    home.file(
        "good.json",
        r#"{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}"#,
    );
    assert_snapshot!(
        home.transcript(&[
            &["validate", "broken.json"],
            &["validate", "broken.json", "--json"],
            &["validate", "wrong.json"],
            &["validate", "wrong.json", "--json"],
            &["validate", "odd.json"],
            &["validate", "good.json"],
            &["validate", "good.json", "--json"],
            &["validate", "nowhere.json"],
            &["validate"],
            &["serve", "--config", "broken.json"],
            &["serve", "--config", "nowhere.json"],
            &["mcp", "--config", "broken.json"],
            &["tools", "--config", "broken.json", "--json"],
        ])
        .await
    );
    assert!(!home.state().exists());
}

#[tokio::test]
async fn the_usual_configuration_is_found_by_itself() {
    let home = home!();
    std::fs::create_dir(home.state()).expect("made");
    std::fs::write(
        home.state().join("config.json"),
        r#"{"mcpServers": {"a": {"command": "x"}}}"#,
    )
    .expect("written");
    let run = home.run(&["validate"]).await;
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (Some(0), "ok: 1 server\n"),
        "{run}"
    );
}

/// Commands are looked up in the same way as a server's program (D1, D4, D6).
#[tokio::test]
async fn commands_are_resolved_as_a_server_would_be() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = home!();
    let folder = home.path().join(".nvm/versions/node/v22.17.0/bin");
    std::fs::create_dir_all(&folder).expect("made");
    let tool = folder.join("mainstay-test-tool");
    std::fs::write(&tool, "#!/bin/sh\n").expect("written");
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755))
        .expect("made executable");
    let absolute_path = tool.to_str().expect("UTF-8");
    assert_snapshot!(
        home.transcript(&[
            &["resolve", "mainstay-test-tool"],
            &["resolve", "mainstay-test-tool", "--json"],
            &["resolve", absolute_path],
            &["resolve", "no-such-tool-anywhere"],
            &["resolve", "no-such-tool-anywhere", "--json"],
            &["resolve", "/no/such/tool"],
        ])
        .await
    );
}

#[tokio::test]
async fn help_is_short_and_has_examples() {
    let home = home!();
    let mut help_text = String::new();
    for arguments in [
        &["--help"][..],
        &["serve", "--help"],
        &["call", "--help"],
        &["read", "--help"],
    ] {
        help_text += &home.run(arguments).await.to_string();
    }
    assert_snapshot!(help_text);
    let version = home.run(&["--version"]).await;
    assert_eq!(
        version.stdout,
        format!("mainstay {}\n", env!("CARGO_PKG_VERSION"))
    );
}
