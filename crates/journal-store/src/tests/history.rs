//! Tests of the history of servers: its contents, its retention, and its queries.

use mainstay_core::{
    config::{Launch, Secret, ServerConfig, StdioLaunch},
    redact::Secrets,
};

use super::*;
use crate::history::mark;

const HOUR: Duration = Duration::from_hours(1);

fn name(server: &str) -> ServerName {
    ServerName::new(server).expect("a name")
}

/// The time `span` ago, to the microsecond.
fn ago(span: Duration) -> SystemTime {
    let now = SystemTime::now() - span;
    let since = now.duration_since(SystemTime::UNIX_EPOCH).expect("later");
    SystemTime::UNIX_EPOCH + Duration::from_micros(since.as_micros() as u64)
}

fn transition(at: SystemTime, status: &'static str) -> Transition {
    Transition {
        at,
        ..Transition::now(status)
    }
}

fn note(journal: &Journal, server: &str, at: SystemTime, status: &'static str) {
    journal.note(name(server), transition(at, status), None);
}

fn last(span: Duration) -> Period {
    Period {
        server: None,
        since: SystemTime::now() - span,
        until: SystemTime::now(),
        limit: 100,
    }
}

fn period_of(server: &str, span: Duration) -> Period {
    Period {
        server: Some(server.to_owned()),
        ..last(span)
    }
}

async fn read(journal: &Journal, period: Period) -> JournalHistory {
    journal.history(period).await.expect("read")
}

fn words(history: &ServerHistory) -> Vec<&str> {
    history
        .transitions
        .iter()
        .map(|transition| &*transition.status)
        .collect()
}

fn marks(history: &JournalHistory) -> Vec<Mark> {
    history.daemon.iter().map(|(_, mark)| *mark).collect()
}

/// All transitions are read in order of time, redacted.
#[tokio::test]
async fn a_transition_is_read_as_it_was_noted() {
    let room = Room::new();
    let journal = room.open();
    let secret = "correct-horse-battery";
    let launch = StdioLaunch {
        env: [("API_KEY".to_owned(), Secret::new(secret))].into(),
        ..StdioLaunch::default()
    };
    let config = ServerConfig::new(name("fs"), Launch::Stdio(launch));
    let secrets = Secrets::from_config(&config).map(Arc::new);
    let crashed = Transition {
        degraded: true,
        reason: Some(format!("refused {secret}")),
        exit_code: Some(1),
        exit_signal: Some(9),
        attempt: Some(3),
        next_retry: Some(Duration::from_millis(2500)),
        stderr: vec![format!("key {secret}"), "second".to_owned()],
        ..transition(ago(HOUR), "reconnecting")
    };
    journal.note(name("fs"), crashed.clone(), secrets);
    note(&journal, "fs", ago(HOUR / 2), "connected");
    let history = read(&journal, period_of("fs", 2 * HOUR)).await;
    assert_eq!(history.servers.len(), 1);
    assert!(!history.truncated);
    let [first, second] = &history.servers[0].transitions[..] else {
        panic!("two: {history:?}");
    };
    let redacted = Transition {
        reason: Some("refused [redacted]".to_owned()),
        stderr: vec!["key [redacted]".to_owned(), "second".to_owned()],
        ..crashed
    };
    assert_eq!(*first, redacted);
    assert_eq!(second.status, "connected");
    assert_eq!(second.stderr, Vec::<String>::new());
}

/// A period begins with the status at its start. Later transitions are left out.
#[tokio::test]
async fn a_period_begins_with_what_was_so() {
    let room = Room::new();
    let journal = room.open();
    // Backdates the start of Mainstay by four hours.
    backdate(&room, ago(4 * HOUR));
    for (hours, status) in [(3, "connecting"), (2, "connected"), (1, "failed")] {
        note(&journal, "fs", ago(hours * HOUR), status);
    }
    note(&journal, "db", ago(2 * HOUR), "connected");
    let at = |from: u32, to: u32| Period {
        since: ago(from * HOUR / 2),
        until: ago(to * HOUR / 2),
        ..last(HOUR)
    };
    for (period, fs, db) in [
        (at(7, 0), &["connecting", "connected", "failed"][..], 1),
        (at(5, 0), &["connecting", "connected", "failed"], 1),
        (at(3, 0), &["connected", "failed"], 1),
        (at(3, 2), &["connected", "failed"], 1),
        (at(3, 3), &["connected"], 1),
        (at(1, 0), &["failed"], 1),
        (at(7, 5), &["connecting"], 0),
    ] {
        let history = read(&journal, period.clone()).await;
        let names: Vec<_> = history
            .servers
            .iter()
            .map(|server| &*server.server)
            .collect();
        assert_eq!(names, [&["db"][..db], &["fs"]].concat(), "{period:?}");
        assert_eq!(words(history.servers.last().expect("fs")), fs, "{period:?}");
    }
}

/// Sets the start and stop of all runs to that time.
fn backdate(room: &Room, at: SystemTime) {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).expect("later");
    let changed = room
        .database()
        .execute(
            "UPDATE transitions SET at = ? WHERE server = ''",
            [since.as_micros() as i64],
        )
        .expect("written");
    assert!(changed > 0);
}

/// The newest transitions are returned, and the answer is marked as truncated.
#[tokio::test]
async fn an_answer_is_bounded() {
    let room = Room::new();
    let journal = room.open();
    for minute in (1..=20).rev() {
        note(&journal, "fs", ago(minute * HOUR / 60), "connected");
    }
    note(&journal, "db", ago(HOUR / 60), "connected");
    let period = Period {
        limit: 5,
        ..last(HOUR)
    };
    let history = read(&journal, period).await;
    assert!(history.truncated);
    let of_each = history.servers.iter();
    let of_each: Vec<_> = of_each
        .map(|server| (&*server.server, server.transitions.len(), server.truncated))
        .collect();
    assert_eq!(of_each, [("db", 1, false), ("fs", 5, true)]);
    let newest_at = history.servers[1].transitions.last().expect("some").at;
    assert!(newest_at > SystemTime::now() - HOUR / 30, "{history:?}");
}

/// Starts and stops of Mainstay are read after restarts, including one after a kill.
#[tokio::test]
async fn runs_are_told_apart() {
    let room = Room::new();
    let journal = room.open();
    note(&journal, "fs", SystemTime::now(), "connected");
    journal.flush().await.expect("written");
    let killed = room.copy();
    journal.close().await;
    let again = room.open();
    let history = read(&again, last(HOUR)).await;
    assert_eq!(
        marks(&history),
        [Mark::Started, Mark::Stopped, Mark::Started]
    );
    assert_eq!(words(&history.servers[0]), ["connected"]);
    // This run has no row of the server, so its status is unknown.
    let now = read(&again, last(Duration::ZERO)).await;
    assert_eq!(now.servers, []);
    assert_eq!(marks(&now), [Mark::Started]);
    drop(again);

    let after = killed.open();
    let history = read(&after, last(HOUR)).await;
    assert_eq!(marks(&history), [Mark::Started, Mark::Lost, Mark::Started]);
    let (lost, again) = (history.daemon[1].0, history.daemon[2].0);
    let since = history.servers[0].transitions[0].at;
    assert!(since <= lost && lost <= again, "{history:?}");
}

/// Old rows are deleted, except for the newest of each server in this run.
#[tokio::test]
async fn old_rows_go_by_age() {
    let mut room = Room::new();
    room.settings.retention = HOUR;
    // The small bound causes a check of the age after a few kilobytes.
    room.settings.max_bytes = 1024 * 1024;
    let rows = || {
        let database = room.database();
        let mut rows = database
            .prepare(
                "SELECT server || ' ' || status FROM transitions WHERE server > '' ORDER BY id",
            )
            .expect("a statement");
        let rows = rows.query_map([], |row| row.get::<_, String>(0));
        let rows = rows.expect("rows").map(|row| row.expect("a row"));
        rows.collect::<Vec<_>>()
    };
    let until_rows = async |expected: &[&str]| {
        until("old rows to go", async || {
            (rows() == expected).then_some(())
        })
        .await;
    };
    let journal = room.open();
    for (server, hours) in [("gone", 9), ("fs", 8), ("fs", 7), ("db", 6)] {
        note(&journal, server, ago(hours * HOUR), "connected");
    }
    journal.close().await;
    assert_eq!(rows().len(), 4);

    let journal = room.open();
    backdate(&room, ago(10 * HOUR));
    for (server, hours) in [("fs", 5), ("fs", 4), ("db", 3)] {
        note(&journal, server, ago(hours * HOUR), "connecting");
    }
    let long = Transition {
        reason: Some("long ".repeat(10_000)),
        ..transition(ago(HOUR / 3), "failed")
    };
    journal.note(name("fs"), long, None);
    until_rows(&["fs connecting", "db connecting", "fs failed"]).await;
    journal.close().await;

    // The next run may have other servers.
    let journal = room.open();
    until_rows(&["fs failed"]).await;
    journal.close().await;
}

/// A server with constant changes can neither fill the journal nor displace the rows of other
/// servers.
#[tokio::test]
async fn a_flood_of_rows_is_bounded() {
    let mut room = Room::new();
    room.settings.max_bytes = 1024 * 1024;
    let most = 128;
    let journal = room.open();
    note(&journal, "calm", SystemTime::now(), "connected");
    let mut written = 0;
    let count_rows = async || {
        let database = room.database();
        let count = "SELECT count(*) FROM transitions";
        database.query_row(count, [], |row| row.get::<_, i64>(0))
    };
    until("rows to go", async || {
        for _ in 0..1000 {
            note(&journal, "wild", SystemTime::now(), "reconnecting");
            written += 1;
        }
        journal.flush().await.expect("written");
        let rows = count_rows().await.expect("counted");
        (rows < written / 2 && rows <= most + 2000).then_some(())
    })
    .await;
    let history = read(&journal, last(HOUR)).await;
    assert_eq!(words(&history.servers[0]), ["connected"]);
    assert_eq!(history.servers[0].server, "calm");
}

/// A journal of a version without a history gets an empty one.
#[tokio::test]
async fn a_journal_of_the_former_version_gets_a_history() {
    let room = Room::new();
    let journal = room.open();
    call(&journal, new_call("{}"), answered("{}"));
    journal.close().await;
    let database = room.database();
    as_version_3(&database);
    database
        .execute_batch("DROP TABLE transitions; PRAGMA user_version = 2;")
        .expect("as it was");
    let journal = room.open();
    assert_eq!(all(&journal).await.len(), 1);
    assert_eq!(marks(&read(&journal, last(HOUR)).await), [Mark::Started]);
    note(&journal, "fs", SystemTime::now(), "connected");
    let history = read(&journal, last(HOUR)).await;
    assert_eq!(words(&history.servers[0]), ["connected"]);
}

/// A mark of a later version is skipped.
#[tokio::test]
async fn unknown_marks_are_passed_over() {
    let room = Room::new();
    let journal = room.open();
    mark(&room.database(), SystemTime::now(), Mark::Stopped).expect("written");
    room.database()
        .execute(
            "UPDATE transitions SET status = 'paused' WHERE status = 'stopped'",
            [],
        )
        .expect("written");
    let history = read(&journal, last(HOUR)).await;
    assert_eq!(marks(&history), [Mark::Started]);
}
