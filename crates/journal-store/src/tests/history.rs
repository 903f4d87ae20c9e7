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
    let elapsed = now.duration_since(SystemTime::UNIX_EPOCH).expect("later");
    SystemTime::UNIX_EPOCH + Duration::from_micros(elapsed.as_micros() as u64)
}

fn transition(time: SystemTime, status: &'static str) -> Transition {
    Transition {
        at: time,
        ..Transition::now(status)
    }
}

fn note(journal: &Journal, server: &str, time: SystemTime, status: &'static str) {
    journal.note(name(server), transition(time, status), None);
}

fn last_period(span: Duration) -> Period {
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
        ..last_period(span)
    }
}

async fn read_history(journal: &Journal, period: Period) -> JournalHistory {
    journal.history(period).await.expect("read")
}

fn statuses(history: &ServerHistory) -> Vec<&str> {
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
async fn transitions_are_read_back_redacted() {
    let room = Room::new();
    let journal = room.open();
    let secret = "correct-horse-battery";
    let launch = StdioLaunch {
        env: [("API_KEY".to_owned(), Secret::new(secret))].into(),
        ..StdioLaunch::default()
    };
    let config = ServerConfig::new(name("fs"), Launch::Stdio(launch));
    let secrets = Secrets::from_config(&config).map(Arc::new);
    let crash = Transition {
        degraded: true,
        reason: Some(format!("refused {secret}")),
        exit_code: Some(1),
        exit_signal: Some(9),
        attempt: Some(3),
        next_retry: Some(Duration::from_millis(2500)),
        stderr: vec![format!("key {secret}"), "second".to_owned()],
        ..transition(ago(HOUR), "reconnecting")
    };
    journal.note(name("fs"), crash.clone(), secrets);
    note(&journal, "fs", ago(HOUR / 2), "connected");
    let history = read_history(&journal, period_of("fs", 2 * HOUR)).await;
    assert_eq!(history.servers.len(), 1);
    assert!(!history.truncated);
    let [first_transition, second_transition] = &history.servers[0].transitions[..] else {
        panic!("two: {history:?}");
    };
    let redacted_crash = Transition {
        reason: Some("refused [redacted]".to_owned()),
        stderr: vec!["key [redacted]".to_owned(), "second".to_owned()],
        ..crash
    };
    assert_eq!(*first_transition, redacted_crash);
    assert_eq!(second_transition.status, "connected");
    assert_eq!(second_transition.stderr, Vec::<String>::new());
}

/// A period begins with the status at its start. Later transitions are left out.
#[tokio::test]
async fn a_period_begins_with_the_status_at_its_start() {
    let room = Room::new();
    let journal = room.open();
    // Backdates the start of Mainstay by four hours.
    backdate(&room, ago(4 * HOUR));
    for (hours, status) in [(3, "connecting"), (2, "connected"), (1, "failed")] {
        note(&journal, "fs", ago(hours * HOUR), status);
    }
    note(&journal, "db", ago(2 * HOUR), "connected");
    let period_at = |from: u32, to: u32| Period {
        since: ago(from * HOUR / 2),
        until: ago(to * HOUR / 2),
        ..last_period(HOUR)
    };
    for (period, fs, db) in [
        (
            period_at(7, 0),
            &["connecting", "connected", "failed"][..],
            1,
        ),
        (period_at(5, 0), &["connecting", "connected", "failed"], 1),
        (period_at(3, 0), &["connected", "failed"], 1),
        (period_at(3, 2), &["connected", "failed"], 1),
        (period_at(3, 3), &["connected"], 1),
        (period_at(1, 0), &["failed"], 1),
        (period_at(7, 5), &["connecting"], 0),
    ] {
        let history = read_history(&journal, period.clone()).await;
        let names: Vec<_> = history
            .servers
            .iter()
            .map(|server| &*server.server)
            .collect();
        assert_eq!(names, [&["db"][..db], &["fs"]].concat(), "{period:?}");
        assert_eq!(
            statuses(history.servers.last().expect("fs")),
            fs,
            "{period:?}"
        );
    }
}

/// Sets the start and stop of all runs to that time.
fn backdate(room: &Room, time: SystemTime) {
    let elapsed = time.duration_since(SystemTime::UNIX_EPOCH).expect("later");
    let changed_rows = room
        .database()
        .execute(
            "UPDATE transitions SET at = ? WHERE server = ''",
            [elapsed.as_micros() as i64],
        )
        .expect("written");
    assert!(changed_rows > 0);
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
        ..last_period(HOUR)
    };
    let history = read_history(&journal, period).await;
    assert!(history.truncated);
    let transition_counts = history.servers.iter();
    let transition_counts: Vec<_> = transition_counts
        .map(|server| (&*server.server, server.transitions.len(), server.truncated))
        .collect();
    assert_eq!(transition_counts, [("db", 1, false), ("fs", 5, true)]);
    let newest_at = history.servers[1].transitions.last().expect("some").at;
    assert!(newest_at > SystemTime::now() - HOUR / 30, "{history:?}");
}

/// Starts and stops of Mainstay are read after restarts, including one after a kill.
#[tokio::test]
async fn starts_and_stops_are_recorded() {
    let room = Room::new();
    let journal = room.open();
    note(&journal, "fs", SystemTime::now(), "connected");
    journal.flush().await.expect("written");
    let killed_room = room.copy();
    journal.close().await;
    let reopened_journal = room.open();
    let history = read_history(&reopened_journal, last_period(HOUR)).await;
    assert_eq!(
        marks(&history),
        [Mark::Started, Mark::Stopped, Mark::Started]
    );
    assert_eq!(statuses(&history.servers[0]), ["connected"]);
    // This run has no row of the server, so its status is unknown.
    let now = read_history(&reopened_journal, last_period(Duration::ZERO)).await;
    assert_eq!(now.servers, []);
    assert_eq!(marks(&now), [Mark::Started]);
    drop(reopened_journal);

    let recovered_journal = killed_room.open();
    let history = read_history(&recovered_journal, last_period(HOUR)).await;
    assert_eq!(marks(&history), [Mark::Started, Mark::Lost, Mark::Started]);
    let (lost_at, restarted_at) = (history.daemon[1].0, history.daemon[2].0);
    let started_at = history.servers[0].transitions[0].at;
    assert!(
        started_at <= lost_at && lost_at <= restarted_at,
        "{history:?}"
    );
}

/// Old rows are deleted, except for the newest of each server in this run.
#[tokio::test]
async fn old_rows_are_deleted() {
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
        wait_until("old rows to go", async || {
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
    let long_transition = Transition {
        reason: Some("long ".repeat(10_000)),
        ..transition(ago(HOUR / 3), "failed")
    };
    journal.note(name("fs"), long_transition, None);
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
    let max_rows = 128;
    let journal = room.open();
    note(&journal, "calm", SystemTime::now(), "connected");
    let mut written_rows = 0;
    let count_rows = async || {
        let database = room.database();
        let query = "SELECT count(*) FROM transitions";
        database.query_row(query, [], |row| row.get::<_, i64>(0))
    };
    wait_until("rows to go", async || {
        for _ in 0..1000 {
            note(&journal, "wild", SystemTime::now(), "reconnecting");
            written_rows += 1;
        }
        journal.flush().await.expect("written");
        let rows = count_rows().await.expect("counted");
        (rows < written_rows / 2 && rows <= max_rows + 2000).then_some(())
    })
    .await;
    let history = read_history(&journal, last_period(HOUR)).await;
    assert_eq!(statuses(&history.servers[0]), ["connected"]);
    assert_eq!(history.servers[0].server, "calm");
}

/// A journal of a version without a history gets an empty one.
#[tokio::test]
async fn a_journal_of_the_former_version_gets_a_history() {
    let room = Room::new();
    let journal = room.open();
    call(&journal, new_call("{}"), answered_end("{}"));
    journal.close().await;
    let database = room.database();
    downgrade_to_version_3(&database);
    database
        .execute_batch("DROP TABLE transitions; PRAGMA user_version = 2;")
        .expect("as it was");
    let journal = room.open();
    assert_eq!(all_records(&journal).await.len(), 1);
    assert_eq!(
        marks(&read_history(&journal, last_period(HOUR)).await),
        [Mark::Started]
    );
    note(&journal, "fs", SystemTime::now(), "connected");
    let history = read_history(&journal, last_period(HOUR)).await;
    assert_eq!(statuses(&history.servers[0]), ["connected"]);
}

/// A mark of a later version is skipped.
#[tokio::test]
async fn unknown_marks_are_skipped() {
    let room = Room::new();
    let journal = room.open();
    mark(&room.database(), SystemTime::now(), Mark::Stopped).expect("written");
    room.database()
        .execute(
            "UPDATE transitions SET status = 'paused' WHERE status = 'stopped'",
            [],
        )
        .expect("written");
    let history = read_history(&journal, last_period(HOUR)).await;
    assert_eq!(marks(&history), [Mark::Started]);
}
