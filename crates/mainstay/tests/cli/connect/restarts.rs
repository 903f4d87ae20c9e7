//! The client's session outlives restarts of the daemon, and each call gets the truth.

use std::{collections::HashMap, fs, path::Path};

use mainstay_testkit::{Home, Serving, home, limits::PROGRAMS, soon, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{front::Front, through::modern};
use crate::fakes::fakes;

/// A configuration with one fake that notes what it runs, and the place of the notes.
pub fn counted(home: &Home) -> (String, std::path::PathBuf) {
    let counts = home.path().join("counts");
    let flags = ["--count-file", counts.to_str().expect("UTF-8")];
    (fakes(home, &[("fake", &flags)]), counts)
}

/// How often each key ran.
pub fn runs(counts: &Path) -> HashMap<String, usize> {
    let mut runs = HashMap::new();
    for line in fs::read_to_string(counts).unwrap_or_default().lines() {
        if let Some(key) = line.split(' ').nth(2) {
            *runs.entry(key.to_owned()).or_default() += 1;
        }
    }
    runs
}

/// Ends the daemon, by a signal to the daemon itself.
async fn end(daemon: Serving, signal: Signal) {
    let pid = Pid::from_raw(daemon.daemon_pid().cast_signed()).expect("a process id");
    kill_process(pid, signal).expect("it runs");
    daemon.ended().await;
}

pub async fn running(counts: &Path, key: &str) {
    until(PROGRAMS, "a call that runs", || {
        runs(counts).contains_key(key)
    })
    .await;
}

fn kind(answer: &Value) -> &Value {
    &answer["result"]["_meta"]["mainstay/error"]["kind"]
}

/// Four restarts under calls, SIGTERM and SIGKILL alternately. tests/outside has fifty, by the Python SDK.
#[tokio::test]
async fn calls_go_on_through_restarts() {
    let home = home!();
    let (config, counts) = counted(&home);
    let mut daemon = home.serve(&["--config", &config]).await;
    let mut front = Front::open(&home, &["connect"], "2025-06-18").await;
    let (mut keys, mut unknown) = (Vec::new(), 0);
    let mut waiting = Vec::new();
    for restart in 0..4 {
        let signal = [Signal::TERM, Signal::KILL][restart % 2];
        // These are answered while the daemon is up: none of them may fail.
        for number in 0..5 {
            let key = format!("up-{restart}-{number}");
            let said = front
                .call("fake__echo", json!({"text": key, "key": key}))
                .await;
            assert_eq!(said["result"]["content"][0]["text"], key.as_str(), "{said}");
            keys.push(key);
        }
        // These meet the end of the daemon, in whatever phase.
        for number in 0..20 {
            let key = format!("end-{restart}-{number}");
            let asked = front
                .begin("fake__echo", json!({"text": key, "key": key}))
                .await;
            waiting.push((asked, key, signal));
        }
        let ((), next) = tokio::join!(end(daemon, signal), async {
            // These find no daemon, or one that stops.
            for number in 0..20 {
                let key = format!("away-{restart}-{number}");
                let asked = front
                    .begin("fake__echo", json!({"text": key, "key": key}))
                    .await;
                waiting.push((asked, key, signal));
            }
        });
        let () = next;
        daemon = home.serve(&["--config", &config]).await;
        for (asked, key, signal) in waiting.drain(..) {
            let said = front.answer(asked).await;
            if kind(&said) == "outcome_unknown" {
                assert_eq!(signal, Signal::KILL, "{key}: {said}");
                unknown += 1;
            } else {
                assert_eq!(said["result"]["content"][0]["text"], key.as_str(), "{said}");
                keys.push(key);
            }
        }
        assert!(!front.is_over().await);
    }
    assert!(unknown <= 40, "{unknown}");
    let runs = runs(&counts);
    assert!(runs.values().all(|runs| *runs == 1), "{runs:?}");
    for key in keys {
        assert!(runs.contains_key(&key), "{key} was answered and never ran");
    }
    let (code, stderr) = front.end().await;
    assert_eq!(code, Some(0), "{stderr}");
    daemon.stop().await;
}

/// A call that runs when the daemon is killed may or may not have run, and is not run again. One that runs
/// when the daemon is asked to stop has its time to end.
#[tokio::test]
async fn a_call_at_work_gets_the_truth() {
    let home = home!();
    let (config, counts) = counted(&home);
    let daemon = home.serve(&["--config", &config]).await;
    let mut front = Front::open(&home, &["connect"], "2025-11-25").await;

    let asked = front
        .begin("fake__sleep", json!({"ms": 600_000, "key": "killed"}))
        .await;
    running(&counts, "killed").await;
    // A call that takes longer is on record before its end.
    let recorded = async { while !home.run(&["records"]).await.stdout.contains("fake/sleep") {} };
    soon(PROGRAMS, "its record", recorded).await;
    end(daemon, Signal::KILL).await;
    let daemon = home.serve(&["--config", &config]).await;
    let said = front.answer(asked).await;
    assert_eq!(*kind(&said), "outcome_unknown", "{said}");
    // The record says the same as the front.
    let run = home.run(&["records", "--json"]).await;
    let record = &run.json()["calls"][0];
    assert_eq!(record["arguments"]["key"], "killed", "{run}");
    assert_eq!(record["status"], "unknown", "{run}");
    assert_eq!(record["error"]["kind"], "outcome_unknown", "{run}");

    let asked = front
        .begin("fake__sleep", json!({"ms": 700, "key": "asked"}))
        .await;
    running(&counts, "asked").await;
    end(daemon, Signal::TERM).await;
    let said = front.answer(asked).await;
    assert_eq!(
        said["result"]["content"][0]["text"], "slept 700 ms",
        "{said}"
    );

    // What only reads is simply done again.
    let asked = front.ask("tools/list", &json!({})).await;
    let daemon = home.serve(&["--config", &config]).await;
    let said = front.answer(asked).await;
    assert!(said["result"]["tools"].is_array(), "{said}");
    let runs = runs(&counts);
    assert_eq!((runs["killed"], runs["asked"]), (1, 1));
    front.end().await;
    daemon.stop().await;
}

/// Subscriptions and the log level are set again, and the client hears that its lists may have changed.
#[tokio::test]
async fn a_session_keeps_what_its_client_has_set() {
    for signal in [Signal::TERM, Signal::KILL] {
        for server in [None, Some("fake")] {
            let home = home!();
            let (config, _) = counted(&home);
            let daemon = home.serve(&["--config", &config]).await;
            let (arguments, prefix) = match server {
                None => (vec!["connect"], "fake__"),
                Some(server) => (vec!["connect", "--server", server], ""),
            };
            let mut front = Front::open(&home, &arguments, "2025-11-25").await;
            let uri = json!({"uri": "fake://text"});
            let asked = front.ask("resources/subscribe", &uri).await;
            let said = front.answer(asked).await;
            assert!(said["result"].is_object(), "{said}");
            let asked = front
                .ask("logging/setLevel", &json!({"level": "info"}))
                .await;
            front.answer(asked).await;

            end(daemon, signal).await;
            let daemon = home.serve(&["--config", &config]).await;
            front.hear("notifications/tools/list_changed").await;
            let touch = format!("{prefix}touch");
            front.call(&touch, uri).await;
            let heard = front.hear("notifications/resources/updated").await;
            assert_eq!(heard["params"]["uri"], "fake://text", "{heard}");
            front.call(&format!("{prefix}log"), json!({"n": 1})).await;
            front.hear("notifications/message").await;
            front.end().await;
            daemon.stop().await;
        }
    }
}

/// A question is taken back when nobody waits for its answer, and a late answer answers no other one.
#[tokio::test]
async fn a_question_ends_with_its_daemon() {
    let home = home!();
    let (config, _) = counted(&home);
    let daemon = home.serve(&["--config", &config]).await;
    let mut front = Front::open(&home, &["connect", "--server", "fake"], "2025-11-25").await;
    let ask = json!({"method": "roots/list"});
    let asked = front.begin("ask", ask.clone()).await;
    let first = front.hear("roots/list").await;
    end(daemon, Signal::KILL).await;
    let daemon = home.serve(&["--config", &config]).await;
    let said = front.answer(asked).await;
    assert_eq!(*kind(&said), "outcome_unknown", "{said}");
    let taken_back = front.hear("notifications/cancelled").await;
    assert_eq!(taken_back["params"]["requestId"], first["id"]);

    let asked = front.begin("ask", ask).await;
    let second = front.hear("roots/list").await;
    assert_ne!(first["id"], second["id"]);
    for (question, uri) in [(&first, "file:///late"), (&second, "file:///right")] {
        let answer =
            json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": [{"uri": uri}]}});
        front.say(&answer).await;
    }
    let said = front.answer(asked).await.to_string();
    assert!(
        said.contains("file:///right") && !said.contains("late"),
        "{said}"
    );
    front.end().await;
    daemon.stop().await;
}

/// The daemon is killed while it answers `initialize`.
#[tokio::test]
async fn initialize_is_answered_by_the_next_daemon() {
    let home = home!();
    let slow = fakes(&home, &[("fake", &["--hang-at-start"])]);
    let mut daemon = home.serve(&["--config", &slow]).await;
    let mut front = Front::start(&home, &["connect"]);
    let asked = front
        .ask("initialize", &super::front::initialize("2025-06-18"))
        .await;
    daemon.says("fake").await;
    end(daemon, Signal::KILL).await;
    let (config, _) = counted(&home);
    let daemon = home.serve(&["--config", &config]).await;
    let said = front.answer(asked).await;
    assert_eq!(said["result"]["protocolVersion"], "2025-06-18", "{said}");
    front.initialized().await;
    let said = front.call("fake__echo", json!({"text": "x"})).await;
    assert_eq!(said["result"]["content"][0]["text"], "x", "{said}");
    front.end().await;
    daemon.stop().await;
}

/// A daemon that does not know the session: it is opened anew, with what the client said of itself.
#[tokio::test]
async fn a_session_that_is_not_revived_is_opened_anew() {
    let home = home!();
    let (config, _) = counted(&home);
    let daemon = home.serve(&["--config", &config]).await;
    let mut front = Front::open(&home, &["connect", "--server", "fake"], "2025-06-18").await;
    let asked = front
        .ask("resources/subscribe", &json!({"uri": "fake://text"}))
        .await;
    front.answer(asked).await;
    end(daemon, Signal::TERM).await;
    fs::remove_file(home.state().join("session.key")).expect("a key");
    let daemon = home.serve(&["--config", &config]).await;
    front.hear("notifications/tools/list_changed").await;
    let said = front.call("subscriptions", json!({})).await;
    assert_eq!(
        said["result"]["structuredContent"]["fake://text"], 1,
        "{said}"
    );
    let said = front.call("client", json!({})).await;
    assert!(said.to_string().contains("sampling"), "{said}");
    front.end().await;
    daemon.stop().await;
}

/// A stream that listens goes on (2026-07-28).
#[tokio::test]
async fn a_stream_that_listens_goes_on() {
    let home = home!();
    let config = fakes(
        &home,
        &[("fake", &["--revisions", "2025-11-25,2026-07-28"])],
    );
    let mut daemon = home.serve(&["--config", &config]).await;
    let mut front = Front::start(&home, &["connect"]);
    let listen = modern(json!({"notifications": {"toolsListChanged": true}}));
    let listening = front.ask("subscriptions/listen", &listen).await;
    front.hear("notifications/subscriptions/acknowledged").await;
    for signal in [Signal::TERM, Signal::KILL] {
        end(daemon, signal).await;
        daemon = home.serve(&["--config", &config]).await;
        let heard = front.hear("notifications/tools/list_changed").await;
        let id = &heard["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
        assert_eq!(*id, listening, "{heard}");
    }
    let call = modern(json!({"name": "fake__echo", "arguments": {"text": "after"}}));
    let asked = front.ask("tools/call", &call).await;
    let said = front.answer(asked).await;
    assert_eq!(said["result"]["content"][0]["text"], "after", "{said}");
    let rest = front.rest().await;
    let again = rest
        .iter()
        .any(|message| message["method"] == "notifications/subscriptions/acknowledged");
    assert!(!again, "{rest:?}");
    front.end().await;
    daemon.stop().await;
}
