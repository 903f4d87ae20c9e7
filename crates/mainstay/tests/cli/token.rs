//! `mainstay token` with and without a daemon, and the addresses that accept tokens (Q7).

use std::{fs, os::unix::fs::PermissionsExt as _};

use insta::assert_snapshot;
use mainstay_testkit::{Run, home, within};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// The token that the command printed. Asserts that stdout contains nothing else.
fn printed_token(run: &Run) -> String {
    assert_eq!(run.code, Some(0), "{run}");
    let token = run.stdout.trim_end();
    assert!(token.bytes().all(|byte| byte.is_ascii_graphic()), "{run}");
    assert!(!run.stderr.contains(token), "{run}");
    token.to_owned()
}

/// The HTTP status of a ping at `/mcp` with this token.
async fn status(url: &str, token: &str) -> String {
    let address = url.trim_start_matches("http://");
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
        connection: close\r\nauthorization: Bearer {token}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut answer = String::new();
    within(async {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.write_all(request.as_bytes()).await.expect("written");
        stream.read_to_string(&mut answer).await.expect("answered");
    })
    .await;
    answer.split(' ').nth(1).expect("a status").to_owned()
}

/// Tokens from before the daemon's start are valid. Changes through the daemon are stored.
#[tokio::test]
async fn tokens_are_made_and_removed_with_a_daemon_and_without() {
    let home = home!();
    let list = home.run(&["token", "list"]).await;
    assert!(list.stderr.starts_with("no client has a token"), "{list}");
    assert!(!home.state().exists(), "asking makes nothing");

    let early_run = home
        .run(&["token", "add", "early", "--expires", "90d"])
        .await;
    let early_run = printed_token(&early_run);
    assert!(
        early_run.starts_with("mst_") && early_run.len() == 68,
        "{early_run}"
    );
    let path = home.state().join("tokens.json");
    let mode = fs::metadata(&path).expect("kept").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(
        !fs::read_to_string(&path)
            .expect("UTF-8")
            .contains(&early_run[4..])
    );

    let daemon = home.serve(&["--demo"]).await;
    let late_run = printed_token(&home.run(&["token", "add", "late"]).await);
    // The token is accepted. The request then fails with 400, because it has no session.
    for (token, expected) in [
        (&*early_run, "400"),
        (&late_run, "400"),
        ("mst_x", "401"),
        ("", "401"),
    ] {
        assert_eq!(status(&daemon.url, token).await, expected);
    }
    let list = home.run(&["token", "list", "--json"]).await.json();
    let tokens = &list["tokens"];
    assert_eq!(
        (&tokens[0]["name"], &tokens[1]["name"]),
        (&"early".into(), &"late".into())
    );
    assert!(tokens[0]["expiresAt"].is_string() && tokens[1].get("expiresAt").is_none());

    let removed_run = home.run(&["token", "remove", "early"]).await;
    assert_eq!(removed_run.code, Some(0), "{removed_run}");
    assert_eq!(status(&daemon.url, &early_run).await, "401");
    daemon.stop().await;

    let second_removal = home.run(&["token", "remove", "late", "--json"]).await;
    assert_eq!(second_removal.json()["name"], "late");
    assert_eq!(
        home.run(&["token", "list", "--json"]).await.json()["tokens"],
        serde_json::json!([])
    );
}

/// The daemon refuses the old token at once. Commands read the new token.
#[tokio::test]
async fn a_rotated_control_token_is_the_one_in_the_state_directory() {
    let home = home!();
    let daemon = home.serve(&["--demo"]).await;
    let path = home.state().join("token");
    let old_text = fs::read_to_string(&path).expect("a token");
    let new_run = printed_token(&home.run(&["token", "rotate"]).await);
    assert_ne!(new_run, old_text);
    assert_eq!(fs::read_to_string(&path).expect("a token"), new_run);
    assert_eq!(
        fs::metadata(&path).expect("kept").permissions().mode() & 0o777,
        0o600
    );

    assert_eq!(home.run(&["list"]).await.code, Some(0));
    let mut list_command = home.command(&["list"]);
    let output = within(list_command.env("MAINSTAY_TOKEN", &old_text).output())
        .await
        .expect("it starts");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    daemon.stop().await;

    let newest_run = printed_token(&home.run(&["token", "rotate"]).await);
    assert_eq!(fs::read_to_string(&path).expect("a token"), newest_run);
}

#[tokio::test]
async fn an_invalid_token_is_reported() {
    let home = home!();
    printed_token(&home.run(&["token", "add", "laptop"]).await);
    assert_snapshot!(
        home.transcript(&[
            &["token", "add", "laptop"],
            &["token", "add", "my laptop"],
            &["token", "add", "x", "--expires", "9999d"],
            &["token", "add", "x", "--expires", "soon"],
            &["token", "remove", "nobody"],
            &["token", "remove", "nobody", "--json"],
            &["token", "list", "--url", "http://127.0.0.1:1"],
        ])
        .await
    );
}

/// If a client token exists, an address beyond loopback is allowed, unless the configuration makes
/// tokens optional.
#[tokio::test]
async fn an_address_that_others_can_reach_takes_tokens() {
    let home = home!();
    let open_file = home.file(
        "open.json",
        r#"{"mcpServers": {}, "http": {"requireToken": false}}"#,
    );
    printed_token(&home.run(&["token", "add", "laptop"]).await);
    let beyond = ["serve", "--listen", "192.0.2.1:7420"];
    let run = home.run(&beyond).await;
    assert_eq!(run.code, Some(1), "{run}");
    assert!(
        run.stderr.contains("cannot listen on 192.0.2.1:7420"),
        "{run}"
    );
    let run = home
        .run(&[&beyond[..], &["--config", &open_file]].concat())
        .await;
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("http.requireToken"), "{run}");

    // A token file that cannot be read is an error.
    fs::write(home.state().join("tokens.json"), "{}").expect("written");
    for arguments in [
        &["serve", "--demo"][..],
        &["token", "add", "x"],
        &["token", "list"],
    ] {
        let run = home.run(arguments).await;
        assert_eq!(run.code, Some(1), "{run}");
        assert!(run.stderr.contains("tokens.json"), "{run}");
    }
}
