//! Tests of alarms for sequences of events.

use super::*;
use crate::config::{AlertCommand, Flapping, Glob, Receiver};

fn name(text: &str) -> ServerName {
    ServerName::new(text).expect("a name")
}

struct World {
    watch: AlertWatch,
    start: Instant,
    now: Instant,
    lines: Vec<String>,
}

impl World {
    /// An alert of all kinds: down after 60 s, flapping after 3 losses within 600 s.
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Alert)) -> Self {
        let mut alert = Alert {
            on: AlertKind::ALL.to_vec(),
            servers: Vec::new(),
            to: Receiver::Command(AlertCommand {
                program: "tell".to_owned(),
                args: Vec::new(),
            }),
            after: Duration::from_secs(60),
            flapping: Flapping {
                losses: 3,
                within: Duration::from_secs(600),
            },
            timeout: Duration::from_secs(10),
        };
        change(&mut alert);
        let start = Instant::now();
        Self {
            watch: AlertWatch::new(alert),
            start,
            now: start,
            lines: Vec::new(),
        }
    }

    /// Advances the clock to this second. Calls the watch at each deadline.
    fn advance_to(&mut self, second: u64) -> &mut Self {
        let target_time = self.start + Duration::from_secs(second);
        while let Some(due) = self.watch.deadline().filter(|due| *due <= target_time) {
            assert!(due >= self.now, "a deadline that has passed is never over");
            self.now = due;
            let alarms = self.watch.tick(due);
            self.push_lines(&alarms);
            assert!(self.watch.deadline() != Some(due), "the watch spins");
        }
        self.now = target_time;
        self
    }

    fn observe(&mut self, event: &EventKind) -> &mut Self {
        let alarms = self.watch.see(&name("fs"), event, self.now);
        self.push_lines(&alarms);
        self
    }

    fn push_lines(&mut self, alarms: &[Alarm]) {
        let seconds = self.now.duration_since(self.start).as_secs();
        let lines = alarms.iter().map(|alarm| format!("{seconds} {alarm}"));
        self.lines.extend(lines);
    }

    fn connect(&mut self) -> &mut Self {
        self.observe(&EventKind::ServerReconnected {
            capabilities: serde_json::Value::Null,
            attempts_taken: 1,
        })
    }

    fn lose(&mut self) -> &mut Self {
        self.observe(&EventKind::ServerDisconnected {
            was_intentional: false,
            reason: Some("gone".to_owned()),
        })
    }

    fn stop(&mut self) -> &mut Self {
        self.observe(&EventKind::ServerDisconnected {
            was_intentional: true,
            reason: None,
        })
    }

    fn change_tools(&mut self, before: &[&str], after: &[&str]) -> &mut Self {
        let (before, after) = (before.iter().copied(), after.iter().copied());
        self.observe(&EventKind::tools_changed(before, after).expect("they differ"))
    }

    #[track_caller]
    fn assert_lines(&mut self, expected: &[&str]) {
        assert_eq!(self.lines, expected);
    }
}

#[test]
fn an_outage_is_reported_after_its_delay_and_its_end_is_reported_once() {
    let mut world = World::new();
    world
        .connect()
        .advance_to(10)
        .lose()
        .advance_to(69)
        .assert_lines(&[]);
    world.observe(&EventKind::ServerReconnecting {
        attempt: 6,
        next_retry_ms: 1,
        last_error: Some("refused".to_owned()),
    });
    world
        .advance_to(5000)
        .connect()
        .advance_to(9000)
        .connect()
        .assert_lines(&[
            "70 server fs has been down for 60 s: refused",
            "5000 server fs is connected again, after 4990 s",
        ]);
}

#[test]
fn a_short_outage_is_not_reported() {
    let mut world = World::new();
    world
        .connect()
        .advance_to(10)
        .lose()
        .advance_to(69)
        .connect()
        .advance_to(9000)
        .assert_lines(&[]);
}

#[test]
fn a_server_that_never_connected_is_reported_as_down() {
    let mut world = World::new();
    world.observe(&EventKind::ServerFailed {
        status: crate::lifecycle::SessionState::Error,
        last_error: Some("command not found".to_owned()),
    });
    world
        .advance_to(60)
        .assert_lines(&["60 server fs has been down for 60 s: command not found"]);
}

#[test]
fn a_stop_by_the_operator_is_not_reported() {
    let mut world = World::new();
    world.connect().stop().advance_to(1000).assert_lines(&[]);
    world
        .connect()
        .lose()
        .stop()
        .advance_to(2000)
        .assert_lines(&[]);
}

#[test]
fn an_outage_is_reported_at_once_without_a_delay() {
    let mut world = World::with(|alert| alert.after = Duration::ZERO);
    world
        .lose()
        .assert_lines(&["0 server fs has been down for 0 s: gone"]);
}

#[test]
fn flapping_is_reported_once_and_its_end_when_the_server_is_steady() {
    let mut world = World::new();
    for second in [0, 100, 200, 300, 400] {
        world
            .advance_to(second)
            .lose()
            .advance_to(second + 5)
            .connect();
    }
    world.advance_to(5000).assert_lines(&[
        "200 server fs was lost 3 times within 600 s: gone",
        "1000 server fs is steady again, after 1000 s",
    ]);
}

#[test]
fn losses_far_apart_are_no_flapping() {
    let mut world = World::new();
    for second in [0, 301, 602, 903] {
        world
            .advance_to(second)
            .lose()
            .advance_to(second + 5)
            .connect();
    }
    world.advance_to(5000).assert_lines(&[]);
}

#[test]
fn a_server_that_is_down_is_not_steady() {
    let mut world = World::new();
    for second in [0, 100, 200] {
        world
            .advance_to(second)
            .lose()
            .advance_to(second + 5)
            .connect();
    }
    world
        .advance_to(300)
        .lose()
        .advance_to(5000)
        .connect()
        .advance_to(6000)
        .assert_lines(&[
            "200 server fs was lost 3 times within 600 s: gone",
            "360 server fs has been down for 60 s: gone",
            "5000 server fs is connected again, after 4700 s",
            "5000 server fs is steady again, after 5000 s",
        ]);
}

#[test]
fn vanished_tools_are_reported_until_tools_return() {
    let mut world = World::new();
    world
        .connect()
        .change_tools(&[], &["a", "b"])
        .change_tools(&["a", "b"], &["a"]);
    world.assert_lines(&[]);
    world.advance_to(5).change_tools(&["a"], &[]);
    world
        .advance_to(9)
        .change_tools(&[], &["a"])
        .assert_lines(&[
            "5 server fs is connected, but lists no tools any more",
            "9 server fs lists tools again, after 4 s",
        ]);
}

#[test]
fn only_selected_events_are_reported() {
    let mut world = World::with(|alert| alert.on = vec![AlertKind::Recovered]);
    world
        .lose()
        .advance_to(1000)
        .connect()
        .advance_to(2000)
        .assert_lines(&[]);
    let mut world = World::with(|alert| alert.on = vec![AlertKind::ServerDown]);
    world
        .lose()
        .advance_to(1000)
        .connect()
        .assert_lines(&["60 server fs has been down for 60 s: gone"]);
    let mut world = World::with(|alert| alert.servers = vec![Glob::new("prod-*")]);
    world.lose().advance_to(1000).connect().assert_lines(&[]);
}

#[test]
fn a_removed_server_is_forgotten() {
    let mut world = World::new();
    world.lose().observe(&EventKind::ServerRemoved {});
    assert_eq!(world.watch.deadline(), None);
    assert!(world.watch.servers.is_empty());
}

#[test]
fn the_certificate_is_reported_until_it_is_replaced() {
    let path = || "/c.pem".to_owned();
    let expires_at = || "2027-01-01T00:00:00.000Z".to_owned();
    let expiring = |days_left| EventKind::CertificateExpiring {
        path: path(),
        expires_at: expires_at(),
        days_left,
    };
    let replaced = EventKind::CertificateReplaced {
        path: path(),
        expires_at: expires_at(),
    };
    let events = [
        // Nothing was reported, so nothing has recovered.
        replaced.clone(),
        expiring(13),
        expiring(1),
        expiring(0),
        EventKind::CertificateExpired {
            path: path(),
            expires_at: expires_at(),
        },
        EventKind::CertificateRejected {
            path: path(),
            reason: "it is empty".to_owned(),
        },
        replaced,
    ];
    // Alerts about some servers report it, too.
    let mut world = World::with(|alert| alert.servers = vec![Glob::new("other".to_owned())]);
    let lines: Vec<String> = events
        .iter()
        .filter_map(|event| world.watch.see_own(event, world.now))
        .map(|alarm| alarm.to_string())
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    the certificate /c.pem expires in 13 days, at 2027-01-01T00:00:00.000Z
    the certificate /c.pem expires in 1 day, at 2027-01-01T00:00:00.000Z
    the certificate /c.pem expires in less than a day, at 2027-01-01T00:00:00.000Z
    the certificate /c.pem has expired, at 2027-01-01T00:00:00.000Z
    the certificate /c.pem cannot be used, so the old one stays in use: it is empty
    the certificate is in order again, after 0 s
    ");
    let mut other = World::with(|alert| alert.on = vec![AlertKind::ServerDown]);
    assert!(
        events
            .iter()
            .all(|event| other.watch.see_own(event, other.now).is_none())
    );
}

#[test]
fn delivered_alerts_have_milliseconds() {
    let recovered = AlarmContent::Recovered {
        from: AlertKind::ServerDown,
        after: Duration::from_millis(1500),
    };
    assert_eq!(
        serde_json::to_string(&recovered).expect("JSON"),
        r#"{"alert":"recovered","data":{"from":"server_down","afterMs":1500}}"#
    );
}
