//! `mainstay serve` takes over the state directory of a running `mainstay mcp`.

use std::{cell::Cell, path::Path};

use mainstay_testkit::{Home, Serving, home};
use serde_json::{Value, json};

use super::{
    front::Front,
    restarts::{counting_config, runs, until_running},
    shared::{listed_server, pid},
    through::modern,
};
use crate::fakes::fakes;

/// A client, and the keys of the calls that it has made.
struct Caller {
    front: Front,
    name: &'static str,
    keys: Vec<String>,
}

impl Caller {
    async fn open(home: &Home, arguments: &[&str], name: &'static str) -> Self {
        Self {
            front: Front::open(home, arguments, "2025-11-25").await,
            name,
            keys: Vec::new(),
        }
    }

    /// Makes concurrent calls. Each of them must be answered.
    async fn call(&mut self) {
        let mut calls = Vec::new();
        for _ in 0..3 {
            let key = format!("{}-{}", self.name, self.keys.len());
            let arguments = json!({"text": key, "key": key});
            calls.push((self.front.begin("fake__echo", arguments).await, key.clone()));
            self.keys.push(key);
        }
        for (id, key) in calls {
            let answer = self.front.answer(id).await;
            assert_eq!(
                answer["result"]["content"][0]["text"],
                key.as_str(),
                "{answer}"
            );
        }
    }

    /// Makes calls until a daemon runs, and then a few more.
    async fn call_until(&mut self, has_daemon: &Cell<bool>) {
        while !has_daemon.get() {
            self.call().await;
        }
        self.call().await;
    }

    async fn sleep(&mut self, counts: &Path) -> u64 {
        let key = format!("{}-asleep", self.name);
        let arguments = json!({"ms": 700, "key": key});
        let id = self.front.begin("fake__sleep", arguments).await;
        until_running(counts, &key).await;
        self.keys.push(key);
        id
    }

    async fn slept_count(&mut self, id: u64) {
        let answer = self.front.answer(id).await;
        let text = &answer["result"]["content"][0]["text"];
        assert_eq!(text, "slept 700 ms", "{answer}");
    }
}

async fn set(front: &mut Front, method: &str, params: &Value) {
    let id = front.ask(method, params).await;
    let answer = front.answer(id).await;
    assert!(answer["result"].is_object(), "{answer}");
}

async fn serve_until_ready(home: &Home, config: &str, has_daemon: &Cell<bool>) -> Serving {
    let daemon = home.serve(&["--config", config]).await;
    has_daemon.set(true);
    daemon
}

/// The sessions of two clients continue. One client's process owns the servers, and the other uses
/// them. Each call runs once, and calls in flight finish.
#[tokio::test]
async fn a_daemon_takes_over_under_calls() {
    let home = home!();
    let (config, counts) = counting_config(&home);
    let arguments = ["mcp", "--config", &config];
    let mut owner = Caller::open(&home, &arguments, "owner").await;
    let previous_pid = pid(&mut owner.front).await;
    let uri = json!({"uri": "fake://text"});
    set(&mut owner.front, "resources/subscribe", &uri).await;
    set(
        &mut owner.front,
        "logging/setLevel",
        &json!({"level": "info"}),
    )
    .await;
    let mut guest_caller = Caller::open(&home, &arguments, "guest").await;
    let sleeping_calls = (
        owner.sleep(&counts).await,
        guest_caller.sleep(&counts).await,
    );

    let has_daemon = Cell::new(false);
    let (daemon, (), ()) = tokio::join!(
        serve_until_ready(&home, &config, &has_daemon),
        owner.call_until(&has_daemon),
        guest_caller.call_until(&has_daemon),
    );
    owner.slept_count(sleeping_calls.0).await;
    guest_caller.slept_count(sleeping_calls.1).await;
    let process = pid(&mut owner.front).await;
    assert_ne!(process, previous_pid);
    assert_eq!(pid(&mut guest_caller.front).await, process);
    assert_eq!(listed_server(&home).await["pid"].to_string(), process);

    owner
        .front
        .next_with_method("notifications/tools/list_changed")
        .await;
    owner.front.call("fake__touch", uri).await;
    let message = owner
        .front
        .next_with_method("notifications/resources/updated")
        .await;
    assert_eq!(message["params"]["uri"], "fake://text", "{message}");
    owner.front.call("fake__log", json!({"n": 1})).await;
    owner.front.next_with_method("notifications/message").await;

    let runs = runs(&counts);
    assert!(runs.values().all(|runs| *runs == 1), "{runs:?}");
    for key in owner.keys.iter().chain(&guest_caller.keys) {
        assert!(runs.contains_key(key), "{key} was answered and never ran");
    }
    let (code, stderr) = owner.front.end().await;
    assert_eq!(code, Some(0), "{stderr}");
    assert!(
        stderr.contains("handing the client and the servers over"),
        "{stderr}"
    );
    assert!(stderr.contains("attached to the daemon at"), "{stderr}");
    let (code, stderr) = guest_caller.front.end().await;
    assert_eq!(code, Some(0), "{stderr}");
    daemon.stop().await;
}

/// A client that has not sent anything yet is also handed over.
#[tokio::test]
async fn a_silent_client_is_handed_over() {
    let home = home!();
    let config = fakes(&home, &[("fake", &["--stderr", "up"])]);
    let mut silent_front = Front::start(&home, &["mcp", "--config", &config]);
    mainstay_testkit::until(mainstay_testkit::limits::PROGRAMS, "its state", || {
        home.state().join("daemon.json").exists()
    })
    .await;
    let daemon = home.serve(&["--config", &config]).await;
    let initialize = super::front::initialize("2025-11-25");
    let id = silent_front.ask("initialize", &initialize).await;
    let answer = silent_front.answer(id).await;
    assert_eq!(
        answer["result"]["protocolVersion"], "2025-11-25",
        "{answer}"
    );
    silent_front.initialized().await;
    let process = pid(&mut silent_front).await;
    assert_eq!(listed_server(&home).await["pid"].to_string(), process);
    let (code, stderr) = silent_front.end().await;
    assert_eq!(code, Some(0), "{stderr}");
    daemon.stop().await;
}

/// A listen stream (2026-07-28) ends with a result. A new stream reports changes of the daemon's
/// servers.
#[tokio::test]
async fn a_stream_that_listens_is_ended_at_a_hand_over() {
    let home = home!();
    let revisions = ["--revisions", "2025-11-25,2026-07-28"];
    let config = fakes(&home, &[("fake", &revisions)]);
    let mut client = Front::start(&home, &["mcp", "--config", &config]);
    let listen = modern(json!({"notifications": {"toolsListChanged": true}}));
    let listening_response = client.ask("subscriptions/listen", &listen).await;
    let acknowledged_text = "notifications/subscriptions/acknowledged";
    client.next_with_method(acknowledged_text).await;
    let call = async |client: &mut Front, text: &str| {
        let call = modern(json!({"name": "fake__echo", "arguments": {"text": text}}));
        let id = client.ask("tools/call", &call).await;
        let answer = client.answer(id).await;
        assert_eq!(answer["result"]["content"][0]["text"], text, "{answer}");
    };
    call(&mut client, "before").await;

    let daemon = home.serve(&["--config", &config]).await;
    let end_response = client.answer(listening_response).await;
    assert!(end_response["result"].is_object(), "{end_response}");
    call(&mut client, "after").await;
    let listening_response = client.ask("subscriptions/listen", &listen).await;
    client.next_with_method(acknowledged_text).await;
    let run = home.run(&["restart", "fake"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    let run = home.run(&["disable", "fake"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    // Skip a first notification, which may come from the end of the servers.
    loop {
        let message = client
            .next_with_method("notifications/tools/list_changed")
            .await;
        let id = &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
        if *id == listening_response {
            break;
        }
    }
    let (code, stderr) = client.end().await;
    assert_eq!(code, Some(0), "{stderr}");
    assert!(
        stderr.contains("handing the client and the servers over"),
        "{stderr}"
    );
    daemon.stop().await;
}

/// A daemon with another configuration gets the state directory. The client keeps its own servers.
#[tokio::test]
async fn a_client_keeps_servers_that_the_daemon_does_not_have() {
    for standalone in [true, false] {
        let home = home!();
        let config = fakes(&home, &[("fake", &[])]);
        let mut arguments = vec!["mcp", "--config", &config];
        if standalone {
            arguments.push("--standalone");
        }
        let mut client = Front::open(&home, &arguments, "2025-11-25").await;
        let process = pid(&mut client).await;
        let client_text = if standalone {
            config.clone()
        } else {
            let text = std::fs::read_to_string(&config).expect("a file");
            home.file("other.json", &text)
        };
        let daemon = home.serve(&["--config", &client_text]).await;
        assert_eq!(pid(&mut client).await, process);
        assert_ne!(listed_server(&home).await["pid"].to_string(), process);
        let (code, stderr) = client.end().await;
        assert_eq!(code, Some(0), "{stderr}");
        assert!(
            stderr.contains("another Mainstay takes the state directory"),
            "{stderr}"
        );
        daemon.stop().await;
    }
}

/// A daemon that a front has started hands over to another daemon.
#[tokio::test]
async fn a_daemon_takes_over_from_one_that_a_front_has_started() {
    let home = home!();
    let (config, counts) = counting_config(&home);
    let arguments = ["mcp", "--config", &config];
    let first = Front::open(&home, &arguments, "2025-11-25").await;
    let mut second_caller = Caller::open(&home, &arguments, "second").await;
    first.end().await;
    // The daemon that answers was started by the second front.
    let previous_pid = pid(&mut second_caller.front).await;
    let has_daemon = Cell::new(false);
    let (daemon, ()) = tokio::join!(
        serve_until_ready(&home, &config, &has_daemon),
        second_caller.call_until(&has_daemon),
    );
    let process = pid(&mut second_caller.front).await;
    assert_ne!(process, previous_pid);
    assert_eq!(listed_server(&home).await["pid"].to_string(), process);
    let runs = runs(&counts);
    assert!(runs.values().all(|runs| *runs == 1), "{runs:?}");
    let (code, stderr) = second_caller.front.end().await;
    assert_eq!(code, Some(0), "{stderr}");
    daemon.stop().await;
}
