//! `GET /api/servers`: the next step as a text and as a code, and other facts.

use std::{pin::pin, time::SystemTime};

use mainstay_core::event::EventKind;
use mainstay_testkit::{found, limits::PROGRAMS};
use serde_json::{Value, json};

use crate::world::{RestDaemon, fake, fake_entry};

/// The list shows since when a call waits, unless the call was cancelled.
#[tokio::test]
async fn a_server_that_owes_an_answer_says_since_when() {
    let world = RestDaemon::with_servers(json!({"one": fake_entry(&[])})).await;
    let server = async || world.get("/api/servers/one").await["server"].clone();
    assert!(server().await.get("askedAt").is_none());
    let body = json!({"arguments": {}});
    let now_millis = || {
        SystemTime::UNIX_EPOCH
            .elapsed()
            .expect("after 1970")
            .as_millis()
    };
    let started_at = now_millis();
    {
        let path = "/api/servers/one/tools/hang/call";
        let mut call = pin!(world.post(path, &body));
        let question_wait = found(PROGRAMS, "a question", async || {
            server().await["askedAt"].as_u64()
        });
        let question_time = tokio::select! {
            answer = &mut call => panic!("{answer:?}"),
            time = question_wait => u128::from(time),
        };
        // The two clocks may differ slightly.
        assert!(
            (started_at.saturating_sub(5)..=now_millis() + 5).contains(&question_time),
            "{started_at} {question_time}"
        );
    }
    world.post("/api/servers/one/restart", &json!({})).await;
    assert!(server().await.get("askedAt").is_none());
    world.end().await;
}

#[tokio::test]
async fn failed_attempts_do_not_change_the_time_of_the_outage() {
    let world = RestDaemon::with_servers(json!({
        "up": fake_entry(&[]),
        "closed": {
            "url": "http://127.0.0.1:9/mcp",
            "reconnect": {"initialDelayMs": 100, "maxDelayMs": 100},
        },
    }))
    .await;
    let server_after = |name: &'static str, attempts: u64| {
        let world = &world;
        async move {
            found(PROGRAMS, name, async || {
                let server = world.get(&format!("/api/servers/{name}")).await["server"].take();
                let attempt = server["reconnectAttempt"].as_u64().unwrap_or_default();
                (attempt >= attempts).then_some(server)
            })
            .await
        }
    };
    let early_view = server_after("closed", 1).await;
    let late_view = server_after("closed", 3).await;
    assert!(early_view["downSince"].is_string(), "{early_view}");
    assert_eq!(early_view["downSince"], late_view["downSince"]);

    let running_view = found(PROGRAMS, "up", async || {
        let running_view = server_after("up", 0).await;
        (running_view["connected"] == true).then_some(running_view)
    })
    .await;
    assert!(running_view.get("downSince").is_none(), "{running_view}");
    world.post("/api/servers/up/stop", &json!({})).await;
    let stopped_view = server_after("up", 0).await;
    let (stopped_since, late_since) = (
        stopped_view["downSince"].as_str(),
        late_view["downSince"].as_str(),
    );
    assert!(
        stopped_since > late_since && late_since.is_some(),
        "{stopped_view}"
    );
    world.end().await;
}

/// The code and the text of the next step.
fn step(server: &Value) -> (&str, &str) {
    let text = |key: &str| server[key].as_str().unwrap_or_default();
    (text("nextAction"), text("nextStep"))
}

#[tokio::test]
async fn the_next_step_is_told_in_words_and_as_a_code() {
    let mut disabled_entry = fake_entry(&[]);
    disabled_entry["enabled"] = json!(false);
    let world = RestDaemon::with_servers(json!({
        "up": fake_entry(&[]),
        "stopped": fake_entry(&[]),
        "off": disabled_entry,
        "wrong": {"command": fake(), "args": 5},
        "closed": {"url": "http://127.0.0.1:9/mcp"},
        "speaks": {"command": "sh", "args": ["-c", "echo no licence >&2; exit 7"], "restart": {"mode": "never"}},
        "coming": {
            "command": "sh",
            "args": ["-c", "echo no licence >&2; exit 7"],
            "reconnect": {"initialDelayMs": 600_000, "maxDelayMs": 600_000},
        },
    }))
    .await;
    world.post("/api/servers/stopped/stop", &json!({})).await;
    for (name, status, code, expected_text) in [
        ("up", "connected", "", ""),
        (
            "stopped",
            "disconnected",
            "start",
            "start it by \"mainstay start stopped\"",
        ),
        (
            "off",
            "disconnected",
            "enable",
            "enable it by \"mainstay enable off\"",
        ),
        ("wrong", "error", "correct_entry", "correct its entry in "),
        ("closed", "reconnecting", "wait", ""),
        (
            "speaks",
            "error",
            "see_log_and_start",
            "see \"mainstay logs speaks\", then ",
        ),
        (
            "coming",
            "reconnecting",
            "see_log",
            "see \"mainstay logs coming\"",
        ),
    ] {
        let path = format!("/api/servers/{name}");
        let answer = found(PROGRAMS, name, async || {
            let answer = world.get(&path).await;
            (answer["server"]["status"] == status).then_some(answer)
        })
        .await;
        let (action, text) = step(&answer["server"]);
        assert_eq!(action, code, "{name}: {answer}");
        assert!(text.starts_with(expected_text), "{name}: {answer}");
        assert_eq!(
            text.is_empty(),
            expected_text.is_empty(),
            "{name}: {answer}"
        );
        let is_retried = ["wait", "see_log"].contains(&code);
        assert_eq!(answer["server"]["retried"], is_retried, "{name}: {answer}");
    }
    world.end().await;
}

/// The number of events that are kept grows with the number of servers. A client that reads late
/// gets all events, or a mark of a gap.
#[tokio::test]
async fn events_are_kept_for_as_many_servers_as_there_are() {
    let mut disabled_entry = fake_entry(&[]);
    disabled_entry["enabled"] = json!(false);
    let servers = (0..300).map(|number| (format!("s{number}"), disabled_entry.clone()));
    let world = RestDaemon::with_servers(Value::Object(servers.collect())).await;
    let events = world.daemon.gateway.registry.events().clone();
    let publish = |count: usize| {
        for _ in 0..count {
            events.publish(None, EventKind::ServerAdded {});
        }
    };
    publish(1);
    let first = world.get("/api/events/recent").await["last"].clone();
    let path = format!(
        "/api/events/recent?after={}",
        first.as_str().expect("an id")
    );
    publish(4000);
    let recent_response = world.get(&path).await;
    let count = |answer: &Value| answer["events"].as_array().expect("a list").len();
    assert_eq!(
        (count(&recent_response), &recent_response["missed"]),
        (4000, &json!(false))
    );
    publish(1000);
    let recent_response = world.get(&path).await;
    assert_eq!(
        (count(&recent_response), &recent_response["missed"]),
        (4400, &json!(true))
    );
    world.end().await;
}
