//! A client's session continues across restarts of the daemon.

use std::{collections::HashMap, fs, path::Path};

use mainstay_testkit::{Home, Serving, home, limits::PROGRAMS, soon, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{front::Front, through::modern};
use crate::fakes::fakes;

/// A configuration with a fake that records each run, and the path of that record.
pub fn counting_config(home: &Home) -> (String, std::path::PathBuf) {
    let counts = home.path().join("counts");
    let flags = ["--count-file", counts.to_str().expect("UTF-8")];
    (fakes(home, &[("fake", &flags)]), counts)
}

/// The number of runs of each key.
pub fn runs(counts: &Path) -> HashMap<String, usize> {
    let mut runs = HashMap::new();
    for line in fs::read_to_string(counts).unwrap_or_default().lines() {
        if let Some(key) = line.split(' ').nth(2) {
            *runs.entry(key.to_owned()).or_default() += 1;
        }
    }
    runs
}

/// Sends a signal to the daemon process, and waits for its end.
async fn end(daemon: Serving, signal: Signal) {
    let pid = Pid::from_raw(daemon.daemon_pid().cast_signed()).expect("a process id");
    kill_process(pid, signal).expect("it runs");
    daemon.ended().await;
}

pub async fn until_running(counts: &Path, key: &str) {
    until(PROGRAMS, "a call that runs", || {
        runs(counts).contains_key(key)
    })
    .await;
}

fn kind(answer: &Value) -> &Value {
    &answer["result"]["_meta"]["mainstay/error"]["kind"]
}

/// Restarts four times during calls, alternately by SIGTERM and SIGKILL. `tests/outside` restarts
/// fifty times, with the Python SDK as client.
#[tokio::test]
async fn calls_go_on_through_restarts() {
    let home = home!();
    let (config, counts) = counting_config(&home);
    let mut daemon = home.serve(&["--config", &config]).await;
    let mut front = Front::open(&home, &["connect"], "2025-06-18").await;
    let (mut keys, mut unknown_count) = (Vec::new(), 0);
    let mut waiting_calls = Vec::new();
    for restart in 0..4 {
        let signal = [Signal::TERM, Signal::KILL][restart % 2];
        // All calls while the daemon runs must succeed.
        for number in 0..5 {
            let key = format!("up-{restart}-{number}");
            let answer = front
                .call("fake__echo", json!({"text": key, "key": key}))
                .await;
            assert_eq!(
                answer["result"]["content"][0]["text"],
                key.as_str(),
                "{answer}"
            );
            keys.push(key);
        }
        // Call while the daemon ends.
        for number in 0..20 {
            let key = format!("end-{restart}-{number}");
            let id = front
                .begin("fake__echo", json!({"text": key, "key": key}))
                .await;
            waiting_calls.push((id, key, signal));
        }
        let ((), next_daemon) = tokio::join!(end(daemon, signal), async {
            // Call while there is no daemon, or while it stops.
            for number in 0..20 {
                let key = format!("away-{restart}-{number}");
                let id = front
                    .begin("fake__echo", json!({"text": key, "key": key}))
                    .await;
                waiting_calls.push((id, key, signal));
            }
        });
        let () = next_daemon;
        daemon = home.serve(&["--config", &config]).await;
        for (id, key, signal) in waiting_calls.drain(..) {
            let answer = front.answer(id).await;
            if kind(&answer) == "outcome_unknown" {
                assert_eq!(signal, Signal::KILL, "{key}: {answer}");
                unknown_count += 1;
            } else {
                assert_eq!(
                    answer["result"]["content"][0]["text"],
                    key.as_str(),
                    "{answer}"
                );
                keys.push(key);
            }
        }
        assert!(!front.is_over().await);
    }
    assert!(unknown_count <= 40, "{unknown_count}");
    let runs = runs(&counts);
    assert!(runs.values().all(|runs| *runs == 1), "{runs:?}");
    for key in keys {
        assert!(runs.contains_key(&key), "{key} was answered and never ran");
    }
    let (code, stderr) = front.end().await;
    assert_eq!(code, Some(0), "{stderr}");
    daemon.stop().await;
}

/// After SIGKILL the outcome of a call in flight is unknown. After SIGTERM the call may finish.
#[tokio::test]
async fn a_call_at_work_gets_the_truth() {
    let home = home!();
    let (config, counts) = counting_config(&home);
    let daemon = home.serve(&["--config", &config]).await;
    let mut front = Front::open(&home, &["connect"], "2025-11-25").await;

    let id = front
        .begin("fake__sleep", json!({"ms": 600_000, "key": "killed"}))
        .await;
    until_running(&counts, "killed").await;
    // Wait until the journal has a record of the call's start.
    let recorded_run =
        async { while !home.run(&["records"]).await.stdout.contains("fake/sleep") {} };
    soon(PROGRAMS, "its record", recorded_run).await;
    end(daemon, Signal::KILL).await;
    let daemon = home.serve(&["--config", &config]).await;
    let answer = front.answer(id).await;
    assert_eq!(*kind(&answer), "outcome_unknown", "{answer}");
    // The record and the front report the same outcome.
    let run = home.run(&["records", "--json"]).await;
    let record = &run.json()["calls"][0];
    assert_eq!(record["arguments"]["key"], "killed", "{run}");
    assert_eq!(record["status"], "unknown", "{run}");
    assert_eq!(record["error"]["kind"], "outcome_unknown", "{run}");

    let id = front
        .begin("fake__sleep", json!({"ms": 700, "key": "asked"}))
        .await;
    until_running(&counts, "asked").await;
    end(daemon, Signal::TERM).await;
    let answer = front.answer(id).await;
    assert_eq!(
        answer["result"]["content"][0]["text"], "slept 700 ms",
        "{answer}"
    );

    // The front repeats a request that only reads.
    let id = front.ask("tools/list", &json!({})).await;
    let daemon = home.serve(&["--config", &config]).await;
    let answer = front.answer(id).await;
    assert!(answer["result"]["tools"].is_array(), "{answer}");
    let runs = runs(&counts);
    assert_eq!((runs["killed"], runs["asked"]), (1, 1));
    front.end().await;
    daemon.stop().await;
}

/// The front restores subscriptions and the log level, and announces list changes.
#[tokio::test]
async fn a_session_keeps_what_its_client_has_set() {
    for signal in [Signal::TERM, Signal::KILL] {
        for server in [None, Some("fake")] {
            let home = home!();
            let (config, _) = counting_config(&home);
            let daemon = home.serve(&["--config", &config]).await;
            let (arguments, prefix) = match server {
                None => (vec!["connect"], "fake__"),
                Some(server) => (vec!["connect", "--server", server], ""),
            };
            let mut front = Front::open(&home, &arguments, "2025-11-25").await;
            let uri = json!({"uri": "fake://text"});
            let id = front.ask("resources/subscribe", &uri).await;
            let answer = front.answer(id).await;
            assert!(answer["result"].is_object(), "{answer}");
            let id = front
                .ask("logging/setLevel", &json!({"level": "info"}))
                .await;
            front.answer(id).await;

            end(daemon, signal).await;
            let daemon = home.serve(&["--config", &config]).await;
            front
                .next_with_method("notifications/tools/list_changed")
                .await;
            let touch = format!("{prefix}touch");
            front.call(&touch, uri).await;
            let message = front
                .next_with_method("notifications/resources/updated")
                .await;
            assert_eq!(message["params"]["uri"], "fake://text", "{message}");
            front.call(&format!("{prefix}log"), json!({"n": 1})).await;
            front.next_with_method("notifications/message").await;
            front.end().await;
            daemon.stop().await;
        }
    }
}

/// A server's question is withdrawn when its daemon ends. A late answer to it is dropped.
#[tokio::test]
async fn a_question_ends_with_its_daemon() {
    let home = home!();
    let (config, _) = counting_config(&home);
    let daemon = home.serve(&["--config", &config]).await;
    let mut front = Front::open(&home, &["connect", "--server", "fake"], "2025-11-25").await;
    let ask = json!({"method": "roots/list"});
    let id = front.begin("ask", ask.clone()).await;
    let first = front.next_with_method("roots/list").await;
    end(daemon, Signal::KILL).await;
    let daemon = home.serve(&["--config", &config]).await;
    let answer = front.answer(id).await;
    assert_eq!(*kind(&answer), "outcome_unknown", "{answer}");
    let withdrawal = front.next_with_method("notifications/cancelled").await;
    assert_eq!(withdrawal["params"]["requestId"], first["id"]);

    let id = front.begin("ask", ask).await;
    let second_question = front.next_with_method("roots/list").await;
    assert_ne!(first["id"], second_question["id"]);
    for (question, uri) in [
        (&first, "file:///late"),
        (&second_question, "file:///right"),
    ] {
        let answer =
            json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": [{"uri": uri}]}});
        front.send(&answer).await;
    }
    let answer = front.answer(id).await.to_string();
    assert!(
        answer.contains("file:///right") && !answer.contains("late"),
        "{answer}"
    );
    front.end().await;
    daemon.stop().await;
}

/// A daemon is killed during `initialize`. The next daemon answers the request.
#[tokio::test]
async fn initialize_is_answered_by_the_next_daemon() {
    let home = home!();
    let slow_config = fakes(&home, &[("fake", &["--hang-at-start"])]);
    let mut daemon = home.serve(&["--config", &slow_config]).await;
    let mut front = Front::start(&home, &["connect"]);
    let id = front
        .ask("initialize", &super::front::initialize("2025-06-18"))
        .await;
    daemon.wait_for_stderr("fake").await;
    end(daemon, Signal::KILL).await;
    let (config, _) = counting_config(&home);
    let daemon = home.serve(&["--config", &config]).await;
    let answer = front.answer(id).await;
    assert_eq!(
        answer["result"]["protocolVersion"], "2025-06-18",
        "{answer}"
    );
    front.initialized().await;
    let answer = front.call("fake__echo", json!({"text": "x"})).await;
    assert_eq!(answer["result"]["content"][0]["text"], "x", "{answer}");
    front.end().await;
    daemon.stop().await;
}

/// If the daemon does not know the session, the front opens a new one with the client's data.
#[tokio::test]
async fn a_session_that_is_not_revived_is_opened_anew() {
    let home = home!();
    let (config, _) = counting_config(&home);
    let daemon = home.serve(&["--config", &config]).await;
    let mut front = Front::open(&home, &["connect", "--server", "fake"], "2025-06-18").await;
    let id = front
        .ask("resources/subscribe", &json!({"uri": "fake://text"}))
        .await;
    front.answer(id).await;
    end(daemon, Signal::TERM).await;
    fs::remove_file(home.state().join("session.key")).expect("a key");
    let daemon = home.serve(&["--config", &config]).await;
    front
        .next_with_method("notifications/tools/list_changed")
        .await;
    let answer = front.call("subscriptions", json!({})).await;
    assert_eq!(
        answer["result"]["structuredContent"]["fake://text"], 1,
        "{answer}"
    );
    let answer = front.call("client", json!({})).await;
    assert!(answer.to_string().contains("sampling"), "{answer}");
    front.end().await;
    daemon.stop().await;
}

/// A listen stream (2026-07-28) continues after a restart of the daemon.
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
    let listening_response = front.ask("subscriptions/listen", &listen).await;
    front
        .next_with_method("notifications/subscriptions/acknowledged")
        .await;
    for signal in [Signal::TERM, Signal::KILL] {
        end(daemon, signal).await;
        daemon = home.serve(&["--config", &config]).await;
        let message = front
            .next_with_method("notifications/tools/list_changed")
            .await;
        let id = &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
        assert_eq!(*id, listening_response, "{message}");
    }
    let call = modern(json!({"name": "fake__echo", "arguments": {"text": "after"}}));
    let id = front.ask("tools/call", &call).await;
    let answer = front.answer(id).await;
    assert_eq!(answer["result"]["content"][0]["text"], "after", "{answer}");
    let rest = front.rest().await;
    let has_second_notice = rest
        .iter()
        .any(|message| message["method"] == "notifications/subscriptions/acknowledged");
    assert!(!has_second_notice, "{rest:?}");
    front.end().await;
    daemon.stop().await;
}
