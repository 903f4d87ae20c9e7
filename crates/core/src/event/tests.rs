//! Tests of the events for sequences of statuses: the sequences of docs/dev/requirements.md,
//! "Events", and random ones.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    health::ProbeOutcome,
    lifecycle::{Effect, Event as Happening, Lifecycle, Loss, Policy, RestartMode, SessionReport},
};

/// A lifecycle of one server with an observer.
struct Server {
    life: Lifecycle,
    policy: Policy,
    observer: Observer,
    now: Instant,
    events: Vec<EventKind>,
}

impl Server {
    fn new(policy: Policy) -> Self {
        Self {
            life: Lifecycle::default(),
            policy,
            observer: Observer::default(),
            now: Instant::now(),
            events: Vec::new(),
        }
    }

    /// A server with preset `default`, without jitter.
    fn steady() -> Self {
        let mut policy = Policy::default();
        policy.reconnect.jitter = 0.0;
        policy.health.jitter = 0.0;
        Self::new(policy)
    }

    fn is(&mut self, event: Happening) -> Option<Effect> {
        let (life, effect) = self.life.clone().step(event, self.now, &self.policy);
        self.life = life;
        let status = self.life.status(&self.policy);
        let capabilities = || json!({"tools": {}});
        let events = self.observer.observe(&status, capabilities, self.now);
        self.events.extend(events);
        effect
    }

    fn reports(&mut self, report: SessionReport) -> Option<Effect> {
        self.is(Happening::Io(self.life.epoch(), report))
    }

    fn lose_session(&mut self, reason: &str) {
        self.reports(SessionReport::Ended(Loss::Disconnected(reason.to_owned())));
    }

    fn connected() -> Self {
        let mut server = Self::steady();
        server.is(Happening::Start);
        server.reports(SessionReport::Opened);
        assert_eq!(server.new_events(), ["server_connected {}"]);
        server
    }

    /// Advances the clock to the lifecycle's deadline, and steps.
    fn step_when_due(&mut self) -> Option<Effect> {
        self.now = self.life.deadline(&self.policy).expect("a deadline");
        self.is(Happening::Tick)
    }

    /// Returns the events since the last call, as lines.
    fn new_events(&mut self) -> Vec<String> {
        let events = std::mem::take(&mut self.events);
        events.iter().map(line).collect()
    }
}

fn line(kind: &EventKind) -> String {
    let json = serde_json::to_value(kind).expect("JSON");
    format!(
        "{} {}",
        json["type"].as_str().expect("a type"),
        json["data"]
    )
}

/// I1, I2, I3, G19: one loss with several triggers has one event.
#[test]
fn a_loss_its_attempts_and_its_end_are_announced_once() {
    let mut server = Server::connected();
    server.lose_session("gone");
    server.lose_session("broken pipe");
    assert_eq!(
        server.new_events(),
        [
            r#"server_disconnected {"wasIntentional":false,"reason":"disconnected: gone"}"#,
            r#"server_reconnecting {"attempt":1,"nextRetryMs":1000,"lastError":"disconnected: gone"}"#,
        ]
    );
    server.step_when_due();
    server.lose_session("still gone");
    assert_eq!(
        server.new_events(),
        [
            r#"server_reconnecting {"attempt":2,"nextRetryMs":2000,"lastError":"disconnected: still gone"}"#
        ]
    );
    server.step_when_due();
    server.reports(SessionReport::Opened);
    assert_eq!(
        server.new_events(),
        [r#"server_reconnected {"capabilities":{"tools":{}},"attemptsTaken":2}"#]
    );
}

/// An attempt is announced once, when it begins. During a long outage, most attempts are not
/// announced.
#[test]
fn the_beginning_of_an_attempt_is_announced_once() {
    const STARTING_EVENT: &str = "server_starting {}";
    let mut server = Server::steady();
    server.is(Happening::Start);
    assert_eq!(server.new_events(), [""; 0], "it waits for its turn");
    server.reports(SessionReport::Begun);
    server.reports(SessionReport::AtWork(server.now));
    assert_eq!(server.new_events(), [STARTING_EVENT]);
    server.reports(SessionReport::Opened);
    server.new_events();
    let mut attempts = Vec::new();
    server.lose_session("gone");
    for _ in 0..40 {
        server.step_when_due();
        server.reports(SessionReport::Begun);
        server.lose_session("still gone");
        attempts.extend(server.new_events());
    }
    let count = |kind: &str| {
        attempts
            .iter()
            .filter(|line| line.starts_with(kind))
            .count()
    };
    let failures = count("server_reconnecting");
    assert!(failures < 10, "{attempts:?}");
    assert!(
        (failures - 1..=failures).contains(&count(STARTING_EVENT)),
        "{attempts:?}"
    );
    // A start by the operator is always announced.
    server.is(Happening::Stop);
    server.reports(SessionReport::Ended(Loss::Disconnected(
        "stopped".to_owned(),
    )));
    server.new_events();
    server.is(Happening::Start);
    server.reports(SessionReport::Begun);
    assert_eq!(server.new_events(), [STARTING_EVENT]);
}

/// A server that was never up has no `disconnected` and no `reconnected` event.
#[test]
fn a_failed_first_attempt_is_no_loss() {
    let mut server = Server::steady();
    server.is(Happening::Start);
    server.lose_session("not there yet");
    server.step_when_due();
    server.reports(SessionReport::Opened);
    assert_eq!(
        server.new_events(),
        [
            r#"server_reconnecting {"attempt":1,"nextRetryMs":1000,"lastError":"disconnected: not there yet"}"#,
            "server_connected {}",
        ]
    );
}

/// I9: a stop of a connected server is intentional, and is announced once.
#[test]
fn a_stop_by_the_operator_is_intentional_and_announced_once() {
    let stop_events = [r#"server_disconnected {"wasIntentional":true}"#];
    let mut server = Server::connected();
    server.is(Happening::Stop);
    server.lose_session("closed");
    assert_eq!(server.new_events(), stop_events);
    server.is(Happening::Stop);
    assert_eq!(server.new_events(), [""; 0]);

    let mut server = Server::connected();
    server.lose_session("gone");
    server.new_events();
    server.is(Happening::Stop);
    assert_eq!(server.new_events(), stop_events);
    server.is(Happening::Start);
    server.reports(SessionReport::Opened);
    assert_eq!(server.new_events(), ["server_connected {}"]);
}

#[test]
fn a_forced_reconnect_is_an_intentional_disconnect_and_a_reconnect() {
    let mut server = Server::connected();
    assert!(matches!(
        server.is(Happening::Reconnect),
        Some(Effect::Close(_))
    ));
    server.lose_session("closed");
    server.reports(SessionReport::Opened);
    assert_eq!(
        server.new_events(),
        [
            r#"server_disconnected {"wasIntentional":true}"#,
            r#"server_reconnected {"capabilities":{"tools":{}},"attemptsTaken":1}"#,
        ]
    );
}

/// E11: the session expired and was reopened at once. The operator did not cause this.
#[test]
fn an_expired_session_is_a_loss() {
    let mut server = Server::connected();
    server.reports(SessionReport::Ended(Loss::SessionExpired));
    server.reports(SessionReport::Opened);
    assert_eq!(
        server.new_events(),
        [
            r#"server_disconnected {"wasIntentional":false,"reason":"the server ended the session"}"#,
            r#"server_reconnected {"capabilities":{"tools":{}},"attemptsTaken":1}"#,
        ]
    );
}

#[test]
fn a_server_without_further_attempts_has_failed() {
    let mut server = Server::steady();
    server.is(Happening::Start);
    server.reports(SessionReport::Ended(Loss::Unauthorized("401".to_owned())));
    assert_eq!(
        server.new_events(),
        [r#"server_failed {"status":"error","lastError":"unauthorized: 401"}"#]
    );

    let mut server = Server::connected();
    server.policy.restart.mode = RestartMode::Never;
    server.reports(SessionReport::Ended(Loss::Crashed {
        code: Some(3),
        signal: None,
    }));
    let reason = "process exited unexpectedly (code 3)";
    assert_eq!(
        server.new_events(),
        [
            format!(r#"server_disconnected {{"wasIntentional":false,"reason":"{reason}"}}"#),
            format!(r#"server_failed {{"status":"crashed","lastError":"{reason}"}}"#),
        ]
    );
}

/// I12: with 180 s between attempts, a day has 480 attempts.
#[test]
fn a_long_outage_is_announced_less_often() {
    let mut server = Server::connected();
    server.lose_session("gone");
    let start = server.now;
    let day = Duration::from_hours(24);
    while server.now < start + day {
        server.step_when_due();
        server.lose_session("gone");
    }
    let lines = server.new_events();
    // The disconnect, five attempts, and then at most one event per 10 minutes.
    assert!((140..=150).contains(&lines.len()), "{}", lines.len());
    for (attempt, line) in (1..=5).zip(&lines[1..]) {
        assert!(line.contains(&format!(r#""attempt":{attempt},"#)), "{line}");
    }
}

#[test]
fn changes_of_health_are_announced() {
    let mut server = Server::connected();
    for _ in 0..4 {
        server.step_when_due();
        server.now += server.policy.health.timeout;
        server.reports(SessionReport::Probe(ProbeOutcome::Failed("ill".to_owned())));
    }
    assert_eq!(
        server.new_events(),
        [r#"server_health_degraded {"consecutiveFailures":3,"lastError":"ill"}"#]
    );
    server.now += Duration::from_secs(1);
    server.reports(SessionReport::MessageReceived(server.now));
    server.reports(SessionReport::MessageReceived(server.now));
    assert_eq!(server.new_events(), ["server_health_restored {}"]);
}

#[test]
fn equal_lists_cause_no_event() {
    let tools_changed = |before: &[&str], after: &[&str]| {
        let (before, after) = (before.iter().copied(), after.iter().copied());
        EventKind::tools_changed(before, after).map(|kind| line(&kind))
    };
    assert_eq!(tools_changed(&["a", "b"], &["b", "a"]), None);
    assert_eq!(
        tools_changed(&["a", "b"], &["b", "c"]).as_deref(),
        Some(r#"tools_changed {"added":["c"],"removed":["a"],"count":2}"#)
    );
    let many_tools: Vec<String> = (0..1000).map(|n| format!("tool{n}")).collect();
    let many_tools: Vec<&str> = many_tools.iter().map(String::as_str).collect();
    let Some(EventKind::ToolsChanged { added, count, .. }) =
        EventKind::tools_changed([], many_tools.iter().copied())
    else {
        panic!("they changed");
    };
    assert_eq!((added.len(), count), (MAX_NAMES, 1000));
}

#[test]
fn ids_sort_as_text_and_always_grow() {
    let now = 1_764_074_096_789;
    let first_id = EventId::default().next(now);
    assert_eq!(first_id.to_string(), "17640740967890000");
    assert_eq!(first_id.unix_millis(), now);
    let mut last_id = first_id;
    for clock in [now, now - 5000, now, now + 1, now + 1, 4_000_000_000_000] {
        let next_id = last_id.next(clock);
        assert!(next_id > last_id && next_id.to_string() > last_id.to_string());
        assert_eq!(next_id.to_string().parse(), Ok(next_id));
        last_id = next_id;
    }
    for invalid_id in ["", "1", "17640740967890000x", "+7640740967890000"] {
        assert_eq!(
            invalid_id.parse::<EventId>(),
            Err(InvalidEventId),
            "{invalid_id}"
        );
    }
}

/// An event in JSON, with the server's name added, is parsed back unchanged.
#[test]
fn events_are_read_back_unchanged() {
    let kinds = [
        EventKind::ServerAdded {},
        EventKind::ServerDisconnected {
            was_intentional: true,
            reason: None,
        },
        EventKind::ServerFailed {
            status: SessionState::Failed,
            last_error: Some("x".to_owned()),
        },
    ];
    for kind in kinds {
        let mut json = serde_json::to_value(&kind).expect("JSON");
        json["data"]["name"] = "fs".into();
        assert_eq!(
            serde_json::from_value::<EventKind>(json).expect("read"),
            kind
        );
    }
}

#[derive(Clone, Debug)]
enum Act {
    Operator(Happening),
    Report(SessionReport),
    /// A tick, this long after the deadline.
    Due(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let operator = prop_oneof![
        Just(Happening::Start),
        Just(Happening::Stop),
        Just(Happening::Reconnect),
        Just(Happening::CallWaiting),
        Just(Happening::Resumed),
    ];
    let crash = Loss::Crashed {
        code: Some(3),
        signal: None,
    };
    let report = prop_oneof![
        3 => Just(SessionReport::Begun),
        3 => Just(SessionReport::Opened),
        1 => Just(SessionReport::Ended(crash)),
        1 => Just(SessionReport::Ended(Loss::SessionExpired)),
        1 => Just(SessionReport::Ended(Loss::Disconnected("x".to_owned()))),
        1 => Just(SessionReport::Ended(Loss::Unauthorized("x".to_owned()))),
        1 => Just(SessionReport::Probe(ProbeOutcome::Failed("ill".to_owned()))),
    ];
    prop_oneof![
        1 => operator.prop_map(Act::Operator),
        2 => report.prop_map(Act::Report),
        1 => (0..100_000u64).prop_map(Act::Due),
    ]
}

proptest! {
    /// The events alone tell if a server is up and healthy.
    #[test]
    fn events_tell_the_truth_over_any_history(
        acts in prop::collection::vec(act(), 1..120),
        mode in prop_oneof![Just(RestartMode::OnCrash), Just(RestartMode::Never)],
    ) {
        let mut server = Server::steady();
        server.policy.restart.mode = mode;
        let (mut is_up, mut is_ill, mut was_down) = (false, false, true);
        for act in acts {
            match act {
                Act::Operator(event) => server.is(event),
                Act::Report(report) => server.reports(report),
                Act::Due(delay) => match server.life.deadline(&server.policy) {
                    Some(deadline) => {
                        server.now = deadline.max(server.now) + Duration::from_millis(delay);
                        server.is(Happening::Tick)
                    }
                    None => None,
                },
            };
            let events = std::mem::take(&mut server.events);
            for (index, event) in events.iter().enumerate() {
                match event {
                    EventKind::ServerConnected {} | EventKind::ServerReconnected { .. } => {
                        prop_assert!(!is_up, "two connects without a disconnect");
                        is_up = true;
                    }
                    EventKind::ServerDisconnected { was_intentional, .. } => {
                        prop_assert!(is_up || *was_intentional, "lost what was not up");
                        (is_up, is_ill, was_down) = (false, false, *was_intentional);
                    }
                    EventKind::ServerReconnecting { .. } | EventKind::ServerFailed { .. } => {
                        prop_assert!(!is_up);
                        was_down = true;
                    }
                    EventKind::ServerStarting {} => prop_assert!(!is_up, "it is up already"),
                    EventKind::ServerHealthDegraded { .. } => {
                        prop_assert!(is_up && !is_ill);
                        is_ill = true;
                    }
                    EventKind::ServerHealthRestored {} => {
                        prop_assert!(is_up && is_ill);
                        is_ill = false;
                    }
                    other => prop_assert!(false, "{:?} is not the observer's", other),
                }
                prop_assert!(!events[..index].contains(event), "said twice: {:?}", event);
            }
            let status = server.life.status(&server.policy);
            prop_assert_eq!(is_up, status.state == SessionState::Connected);
            prop_assert_eq!(is_ill, status.is_degraded());
            // The event that follows a loss comes at the latest when the next attempt is planned.
            if status.next_retry.is_some() || status.state == SessionState::Failed {
                prop_assert!(was_down, "lost, and not a word of what follows");
            }
        }
    }
}

#[test]
fn capabilities_are_read_only_for_events_that_contain_them() {
    let mut server = Server::connected();
    let status = server.life.status(&server.policy);
    let unreachable_value = || -> Value { panic!("nothing is told") };
    assert_eq!(
        server
            .observer
            .observe(&status, unreachable_value, server.now),
        []
    );
}
