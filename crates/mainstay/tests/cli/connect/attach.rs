//! A front finds its daemon, or reports that there is none.

use mainstay_testkit::home;
use serde_json::json;

use super::front::{Front, INITIALIZE};
use crate::fakes::fakes;

#[tokio::test]
async fn without_a_daemon_the_client_and_the_operator_are_told() {
    let home = home!();
    let mut front = Front::start(&home, &["connect", "--wait", "1"]);
    let id = front.ask("initialize", &INITIALIZE).await;
    let answer = front.answer(id).await;
    assert_eq!(answer["error"]["data"]["kind"], "daemon_unreachable");
    let (code, stderr) = front.ended().await;
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.contains("error: no daemon is running"), "{stderr}");
    assert!(stderr.contains("hint: start a daemon"), "{stderr}");
}

/// A client may close stdin right after its request, as in `mainstay connect < requests`.
#[tokio::test]
async fn a_closed_stdin_changes_nothing_where_there_is_no_daemon() {
    let home = home!();
    for wait in ["1", "3600"] {
        let mut front = Front::start(&home, &["connect", "--wait", wait]);
        let id = front.ask("initialize", &INITIALIZE).await;
        front.close();
        let answer = front.answer(id).await;
        assert_eq!(answer["error"]["data"]["kind"], "daemon_unreachable");
        let (code, stderr) = front.ended().await;
        assert_eq!(code, Some(3), "{stderr}");
        assert!(stderr.contains("error: no daemon is running"), "{stderr}");
        assert!(stderr.contains("hint: start a daemon"), "{stderr}");
    }
}

#[tokio::test]
async fn a_server_that_there_is_not_is_not_found() {
    let home = home!();
    let config = fakes(&home, &[("fake", &[])]);
    let daemon = home.serve(&["--config", &config]).await;
    // The daemon answers that the server is unknown, so the front does not wait for a daemon.
    let mut front = Front::start(&home, &["connect", "--server", "fakee", "--wait", "3600"]);
    let id = front.ask("initialize", &INITIALIZE).await;
    let answer = front.answer(id).await;
    let error = &answer["error"];
    assert_eq!(error["data"]["kind"], "server_not_found", "{answer}");
    let text = error["message"].as_str().expect("a message");
    assert!(
        text.starts_with("server fakee not found; did you mean fake? "),
        "{text}"
    );
    let (code, stderr) = front.ended().await;
    assert_eq!(code, Some(4), "{stderr}");
    assert!(stderr.contains("error: server fakee not found"), "{stderr}");
    assert!(stderr.contains("hint: did you mean fake?"), "{stderr}");
    // The result is the same if stdin is closed.
    let mut front = Front::start(&home, &["connect", "--server", "fakee"]);
    let id = front.ask("initialize", &INITIALIZE).await;
    front.close();
    front.answer(id).await;
    let (code, stderr) = front.ended().await;
    assert_eq!(code, Some(4), "{stderr}");
    let run = home.run(&["connect", "--server", "no/body"]).await;
    assert_eq!(run.code, Some(2), "{run}");
    let front = Front::start(&home, &["connect", "--profile", "metaa"]);
    let (code, stderr) = front.ended().await;
    assert_eq!(code, Some(4), "{stderr}");
    assert!(
        stderr.contains("error: profile metaa not found"),
        "{stderr}"
    );
    assert!(stderr.contains("hint: did you mean meta?"), "{stderr}");
    let run = home
        .run(&["mcp", "--config", &config, "--profile", "metaa"])
        .await;
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("hint: did you mean meta?"), "{run}");
    daemon.stop().await;
}

/// A front waits for a daemon that starts later.
#[tokio::test]
async fn a_daemon_that_comes_later_is_waited_for() {
    let home = home!();
    let config = fakes(&home, &[("fake", &[])]);
    let mut front = Front::start(&home, &["connect", "--wait", "60"]);
    let id = front.ask("initialize", &INITIALIZE).await;
    let daemon = home.serve(&["--config", &config]).await;
    let answer = front.answer(id).await;
    assert_eq!(
        answer["result"]["serverInfo"]["name"], "mainstay",
        "{answer}"
    );
    front.initialized().await;
    let answer = front.call("fake__echo", json!({"text": "hello"})).await;
    assert_eq!(answer["result"]["content"][0]["text"], "hello", "{answer}");
    let (code, stderr) = front.end().await;
    assert_eq!(code, Some(0), "{stderr}");
    assert!(
        stderr.contains("attached to the daemon at http://127.0.0.1:"),
        "{stderr}"
    );
    daemon.stop().await;
}
