//! The history of servers: what is kept of it, for how long, and what is read of it.

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

/// A time so long ago, to the microsecond.
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

fn of(server: &str, span: Duration) -> Period {
    Period {
        server: Some(server.to_owned()),
        ..last(span)
    }
}

async fn read(journal: &Journal, period: Period) -> History {
    journal.history(period).await.expect("read")
}

fn words(history: &ServerHistory) -> Vec<&str> {
    let words = history.transitions.iter();
    words.map(|it| &*it.status).collect()
}

fn marks(history: &History) -> Vec<Mark> {
    history.daemon.iter().map(|(_, mark)| *mark).collect()
}

/// All that is noted is read again, in the order of time, less the server's secrets.
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
    let secrets = Secrets::of(&config).map(Arc::new);
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
    let told = read(&journal, of("fs", 2 * HOUR)).await;
    assert_eq!(told.servers.len(), 1);
    assert!(!told.truncated);
    let [first, second] = &told.servers[0].transitions[..] else {
        panic!("two: {told:?}");
    };
    let shown = Transition {
        reason: Some("refused [redacted]".to_owned()),
        stderr: vec!["key [redacted]".to_owned(), "second".to_owned()],
        ..crashed
    };
    assert_eq!(*first, shown);
    assert_eq!(second.status, "connected");
    assert_eq!(second.stderr, Vec::<String>::new());
}

/// What was so when the period began comes first, and what came after its end not at all.
#[tokio::test]
async fn a_period_begins_with_what_was_so() {
    let room = Room::new();
    let journal = room.open();
    // Before the run: as if Mainstay had started four hours ago.
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
        let told = read(&journal, period.clone()).await;
        let names: Vec<_> = told.servers.iter().map(|it| &*it.server).collect();
        assert_eq!(names, [&["db"][..db], &["fs"]].concat(), "{period:?}");
        assert_eq!(words(told.servers.last().expect("fs")), fs, "{period:?}");
    }
}

/// Has all runs begin and end at that time.
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

/// The newest are given, and the answer says that others were left out.
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
    let told = read(&journal, period).await;
    assert!(told.truncated);
    let of_each = told.servers.iter();
    let of_each: Vec<_> = of_each
        .map(|it| (&*it.server, it.transitions.len(), it.truncated))
        .collect();
    assert_eq!(of_each, [("db", 1, false), ("fs", 5, true)]);
    let newest = told.servers[1].transitions.last().expect("some").at;
    assert!(newest > SystemTime::now() - HOUR / 30, "{told:?}");
}

/// When Mainstay ran is told over restarts, also where it was killed.
#[tokio::test]
async fn runs_are_told_apart() {
    let room = Room::new();
    let journal = room.open();
    note(&journal, "fs", SystemTime::now(), "connected");
    journal.flush().await.expect("written");
    let killed = room.copy();
    journal.close().await;
    let again = room.open();
    let told = read(&again, last(HOUR)).await;
    assert_eq!(marks(&told), [Mark::Started, Mark::Stopped, Mark::Started]);
    assert_eq!(words(&told.servers[0]), ["connected"]);
    // In the run of now it was not mentioned: it is not known how it is.
    let now = read(&again, last(Duration::ZERO)).await;
    assert_eq!(now.servers, []);
    assert_eq!(marks(&now), [Mark::Started]);
    drop(again);

    let after = killed.open();
    let told = read(&after, last(HOUR)).await;
    assert_eq!(marks(&told), [Mark::Started, Mark::Lost, Mark::Started]);
    let (lost, again) = (told.daemon[1].0, told.daemon[2].0);
    let known = told.servers[0].transitions[0].at;
    assert!(known <= lost && lost <= again, "{told:?}");
}

/// Old rows go, but for the newest of each server in this run, which says how it is.
#[tokio::test]
async fn old_rows_go_by_age() {
    let mut room = Room::new();
    room.settings.retention = HOUR;
    // So that it is looked what is too old after a few kilobytes.
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

    // The servers of the run before need not be what they were.
    let journal = room.open();
    until_rows(&["fs failed"]).await;
    journal.close().await;
}

/// A server that changes all the time cannot fill the journal, and does not push out what is known of others.
#[tokio::test]
async fn a_flood_of_rows_is_bounded() {
    let mut room = Room::new();
    room.settings.max_bytes = 1024 * 1024;
    let most = 128;
    let journal = room.open();
    note(&journal, "calm", SystemTime::now(), "connected");
    let mut noted = 0;
    let kept = async || {
        let database = room.database();
        let count = "SELECT count(*) FROM transitions";
        database.query_row(count, [], |row| row.get::<_, i64>(0))
    };
    until("rows to go", async || {
        for _ in 0..1000 {
            note(&journal, "wild", SystemTime::now(), "reconnecting");
            noted += 1;
        }
        journal.flush().await.expect("written");
        let kept = kept().await.expect("counted");
        (kept < noted / 2 && kept <= most + 2000).then_some(())
    })
    .await;
    let told = read(&journal, last(HOUR)).await;
    assert_eq!(words(&told.servers[0]), ["connected"]);
    assert_eq!(told.servers[0].server, "calm");
}

/// A journal from before the history has none, and goes on with one.
#[tokio::test]
async fn a_journal_of_the_former_version_gets_a_history() {
    let room = Room::new();
    let journal = room.open();
    call(&journal, begun("{}"), answered("{}"));
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
    let told = read(&journal, last(HOUR)).await;
    assert_eq!(words(&told.servers[0]), ["connected"]);
}

/// A mark that a later version may add is passed over.
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
    let told = read(&journal, last(HOUR)).await;
    assert_eq!(marks(&told), [Mark::Started]);
}
