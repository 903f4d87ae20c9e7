//! Courses of events, and the alarms that follow.

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
    /// An alert on all kinds of events: down after 60 s, flapping after 3 losses within 600 s.
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

    /// Advances the clock to this second, and calls the watch at each deadline.
    fn at(&mut self, second: u64) -> &mut Self {
        let until = self.start + Duration::from_secs(second);
        while let Some(due) = self.watch.deadline().filter(|due| *due <= until) {
            assert!(due >= self.now, "a deadline that has passed is never over");
            self.now = due;
            let alarms = self.watch.tick(due);
            self.note(&alarms);
            assert!(self.watch.deadline() != Some(due), "the watch spins");
        }
        self.now = until;
        self
    }

    fn see(&mut self, event: &EventKind) -> &mut Self {
        let alarms = self.watch.see(&name("fs"), event, self.now);
        self.note(&alarms);
        self
    }

    fn note(&mut self, alarms: &[Alarm]) {
        let at = self.now.duration_since(self.start).as_secs();
        let lines = alarms.iter().map(|alarm| format!("{at} {alarm}"));
        self.lines.extend(lines);
    }

    fn up(&mut self) -> &mut Self {
        self.see(&EventKind::ServerReconnected {
            capabilities: serde_json::Value::Null,
            attempts_taken: 1,
        })
    }

    fn lost(&mut self) -> &mut Self {
        self.see(&EventKind::ServerDisconnected {
            was_intentional: false,
            reason: Some("gone".to_owned()),
        })
    }

    fn stopped(&mut self) -> &mut Self {
        self.see(&EventKind::ServerDisconnected {
            was_intentional: true,
            reason: None,
        })
    }

    fn tools(&mut self, before: &[&str], after: &[&str]) -> &mut Self {
        let (before, after) = (before.iter().copied(), after.iter().copied());
        self.see(&EventKind::tools_changed(before, after).expect("they differ"))
    }

    #[track_caller]
    fn assert_lines(&mut self, expected: &[&str]) {
        assert_eq!(self.lines, expected);
    }
}

#[test]
fn an_outage_is_told_after_its_time_and_its_end_once() {
    let mut world = World::new();
    world.up().at(10).lost().at(69).assert_lines(&[]);
    world.see(&EventKind::ServerReconnecting {
        attempt: 6,
        next_retry_ms: 1,
        last_error: Some("refused".to_owned()),
    });
    world.at(5000).up().at(9000).up().assert_lines(&[
        "70 server fs has been down for 60 s: refused",
        "5000 server fs is connected again, after 4990 s",
    ]);
}

#[test]
fn a_short_outage_is_not_told() {
    let mut world = World::new();
    world
        .up()
        .at(10)
        .lost()
        .at(69)
        .up()
        .at(9000)
        .assert_lines(&[]);
}

#[test]
fn a_server_that_never_came_up_is_down_too() {
    let mut world = World::new();
    world.see(&EventKind::ServerFailed {
        status: crate::lifecycle::SessionState::Error,
        last_error: Some("command not found".to_owned()),
    });
    world
        .at(60)
        .assert_lines(&["60 server fs has been down for 60 s: command not found"]);
}

#[test]
fn what_its_operator_stops_is_not_told() {
    let mut world = World::new();
    world.up().stopped().at(1000).assert_lines(&[]);
    world.up().lost().stopped().at(2000).assert_lines(&[]);
}

#[test]
fn without_a_wait_it_is_told_at_once() {
    let mut world = World::with(|alert| alert.after = Duration::ZERO);
    world
        .lost()
        .assert_lines(&["0 server fs has been down for 0 s: gone"]);
}

#[test]
fn flapping_is_told_once_and_its_end_when_it_was_steady() {
    let mut world = World::new();
    for second in [0, 100, 200, 300, 400] {
        world.at(second).lost().at(second + 5).up();
    }
    world.at(5000).assert_lines(&[
        "200 server fs was lost 3 times within 600 s: gone",
        "1000 server fs is steady again, after 1000 s",
    ]);
}

#[test]
fn losses_far_apart_are_no_flapping() {
    let mut world = World::new();
    for second in [0, 301, 602, 903] {
        world.at(second).lost().at(second + 5).up();
    }
    world.at(5000).assert_lines(&[]);
}

#[test]
fn a_server_that_is_down_is_not_steady() {
    let mut world = World::new();
    for second in [0, 100, 200] {
        world.at(second).lost().at(second + 5).up();
    }
    world.at(300).lost().at(5000).up().at(6000).assert_lines(&[
        "200 server fs was lost 3 times within 600 s: gone",
        "360 server fs has been down for 60 s: gone",
        "5000 server fs is connected again, after 4700 s",
        "5000 server fs is steady again, after 5000 s",
    ]);
}

#[test]
fn tools_that_vanish_are_told_until_there_are_some() {
    let mut world = World::new();
    world
        .up()
        .tools(&[], &["a", "b"])
        .tools(&["a", "b"], &["a"]);
    world.assert_lines(&[]);
    world.at(5).tools(&["a"], &[]);
    world.at(9).tools(&[], &["a"]).assert_lines(&[
        "5 server fs is connected, but lists no tools any more",
        "9 server fs lists tools again, after 4 s",
    ]);
}

#[test]
fn only_what_was_chosen_is_told() {
    let mut world = World::with(|alert| alert.on = vec![AlertKind::Recovered]);
    world.lost().at(1000).up().at(2000).assert_lines(&[]);
    let mut world = World::with(|alert| alert.on = vec![AlertKind::ServerDown]);
    world
        .lost()
        .at(1000)
        .up()
        .assert_lines(&["60 server fs has been down for 60 s: gone"]);
    let mut world = World::with(|alert| alert.servers = vec![Glob::new("prod-*")]);
    world.lost().at(1000).up().assert_lines(&[]);
}

#[test]
fn a_server_that_is_removed_is_forgotten() {
    let mut world = World::new();
    world.lost().see(&EventKind::ServerRemoved {});
    assert_eq!(world.watch.deadline(), None);
    assert!(world.watch.servers.is_empty());
}

#[test]
fn what_is_delivered_has_its_numbers_in_milliseconds() {
    let recovered = AlarmContent::Recovered {
        from: AlertKind::ServerDown,
        after: Duration::from_millis(1500),
    };
    assert_eq!(
        serde_json::to_string(&recovered).expect("JSON"),
        r#"{"alert":"recovered","data":{"from":"server_down","afterMs":1500}}"#
    );
}
