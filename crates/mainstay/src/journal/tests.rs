//! The journal as a whole: what goes in by calls comes out by questions.

use std::{
    fs,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytestring::ByteString;
use mainstay_core::{
    config::{self, Durability, Payloads, Redact},
    ids::ServerName,
    record::{
        Cid, ClientInfo, Door, Origin, Record, RecordError, RecordId, State, Status, Target,
        TraceId,
    },
};
use rusqlite::Connection;
use tempfile::TempDir;

use super::{
    Acknowledged, Begun, Entry, FOLDER, Filter, Finished, Journal, JournalError, Outcome, Range,
    facets::CHUNK,
    objects::{INLINE_BYTES, RUN},
};

struct Room {
    folder: TempDir,
    settings: config::Journal,
}

impl Room {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
            settings: config::Journal::default(),
        }
    }

    fn strict() -> Self {
        let mut room = Self::new();
        room.settings.durability = Durability::Strict;
        room
    }

    fn open(&self) -> Journal {
        Journal::open(self.folder.path(), &self.settings).expect("opened")
    }

    /// Where the journal itself is.
    fn path(&self) -> PathBuf {
        self.folder.path().join(FOLDER)
    }

    fn database(&self) -> Connection {
        Connection::open(self.path().join("journal.db")).expect("a database")
    }

    /// As if we had been killed: what is in the files now is all there is.
    fn copy(&self) -> Self {
        let copy = Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
            settings: self.settings.clone(),
        };
        fs::create_dir(copy.path()).expect("a folder");
        for name in ["journal.db", "journal.db-wal"] {
            fs::copy(self.path().join(name), copy.path().join(name)).expect("copied");
        }
        copy
    }
}

fn target(server: &str, tool: &str) -> Target {
    Target {
        server: ServerName::new(server).expect("a name"),
        method: "tools/call".into(),
        tool: tool.into(),
    }
}

fn begun(arguments: &str) -> Begun {
    Begun {
        origin: Arc::new(Origin::of(Door::Rest)),
        target: target("fs", "read"),
        arguments: Some(arguments.to_owned().into()),
        trace: None,
    }
}

fn finished(outcome: Outcome) -> Finished {
    Finished {
        outcome,
        attempts: 1,
        queue: Duration::from_micros(5),
        upstream: Duration::from_micros(70),
    }
}

fn answered(result: impl Into<ByteString>) -> Finished {
    finished(Outcome::Answered {
        result: Some(result.into()),
        error: None,
    })
}

fn failed(status: Status, kind: &'static str) -> Finished {
    finished(Outcome::Failed {
        status,
        error: RecordError {
            kind: kind.into(),
            text: "it went wrong".to_owned(),
        },
    })
}

/// A call from its beginning to its end.
fn call(journal: &Journal, begun: Begun, end: Finished) {
    let entry = journal.begin(begun);
    entry.reached(State::Sent);
    drop(entry.finish(end));
}

async fn all(journal: &Journal) -> Vec<Record> {
    journal.flush().await.expect("written");
    let page = journal.records(Filter::default(), 1000).await;
    page.expect("read").calls
}

async fn text(journal: &Journal, cid: Option<Cid>) -> String {
    let bytes = journal.object(cid.expect("kept")).await.expect("an object");
    String::from_utf8(bytes).expect("text")
}

/// L1–L3, L7: every field comes back, and what was sent is found by its identifier.
#[tokio::test]
async fn a_record_says_all_that_was_known_of_its_call() {
    let (room, before) = (Room::new(), SystemTime::now());
    let journal = room.open();
    let origin = Origin {
        door: Door::McpHttp,
        profile: Some("work".to_owned()),
        client: Some(ClientInfo {
            name: "inspector".to_owned(),
            version: "1.2".to_owned(),
        }),
        principal: Some("laptop".to_owned()),
        session: Some("s1".to_owned()),
    };
    let trace = TraceId([7; 16]);
    let entry = journal.begin(Begun {
        origin: Arc::new(origin.clone()),
        target: target("fs", "read"),
        arguments: Some(r#"{"path":"/a"}"#.into()),
        trace: Some(trace),
    });
    entry.reached(State::Sent);
    let end = Finished {
        attempts: 2,
        ..answered(r#"{"content":[]}"#)
    };
    entry.finish(end).await.expect("nobody waits");
    let [record] = &all(&journal).await[..] else {
        panic!("one record")
    };
    assert_eq!(record.origin, origin);
    assert_eq!(record.target.name(), "fs/read");
    assert_eq!(record.target.method, "tools/call");
    assert_eq!((record.state, record.status), (State::Answered, Status::Ok));
    assert_eq!((record.attempts, record.trace), (2, Some(trace)));
    assert_eq!(record.queue, Duration::from_micros(5));
    assert_eq!(record.upstream, Duration::from_micros(70));
    assert!(record.duration.is_some());
    assert!(record.started_at >= before - Duration::from_micros(1));
    assert_eq!(record.error, None);
    let arguments = record.arguments.expect("arguments");
    assert_eq!(
        (arguments.size, arguments.cid),
        (13, Some(Cid::of(br#"{"path":"/a"}"#)))
    );
    assert_eq!(record.arguments_text.as_deref(), Some(r#"{"path":"/a"}"#));
    assert_eq!(text(&journal, arguments.cid).await, r#"{"path":"/a"}"#);
    let result = record.result.expect("a result").cid;
    assert_eq!(text(&journal, result).await, r#"{"content":[]}"#);
    let same = journal.record(record.id).await.expect("read");
    assert_eq!(same.as_ref(), Some(record));
    assert_eq!(journal.record(RecordId(99)).await.expect("read"), None);
    journal.close().await;
}

/// K3, L7: how calls end, and how far they got.
#[tokio::test]
async fn every_end_has_its_words() {
    let room = Room::new();
    let journal = room.open();
    call(
        &journal,
        begun("1"),
        failed(Status::Timeout, "call_timeout"),
    );
    let refused = finished(Outcome::Answered {
        result: Some("{}".into()),
        error: Some(RecordError {
            kind: "tool_error".into(),
            text: "no such file".to_owned(),
        }),
    });
    call(&journal, begun("2"), refused);
    drop(journal.begin(begun("3")));
    let sent = journal.begin(begun("4"));
    sent.reached(State::Sent);
    drop(sent);
    let unsent = journal.begin(begun("5"));
    drop(unsent.finish(failed(Status::Error, "server_not_connected")));
    let records = all(&journal).await;
    let told: Vec<_> = records
        .iter()
        .rev()
        .map(|record| {
            let error = record.error.as_ref().map(|error| &*error.kind);
            (record.status, record.state, error)
        })
        .collect();
    assert_eq!(
        told,
        [
            (Status::Timeout, State::Sent, Some("call_timeout")),
            (Status::Error, State::Answered, Some("tool_error")),
            (Status::Cancelled, State::NotSent, None),
            (Status::Cancelled, State::Sent, None),
            (Status::Error, State::NotSent, Some("server_not_connected")),
        ]
    );
    journal.close().await;
}

/// Design section 10: a call that takes its time is seen while it does, and is one record.
#[tokio::test]
async fn a_long_call_is_open_and_then_ends() {
    let room = Room::new();
    let journal = room.open();
    let entry = journal.begin(begun("{}"));
    let open = loop {
        let records = all(&journal).await;
        if let Some(record) = records.first() {
            break record.clone();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!((open.status, open.state), (Status::Open, State::NotSent));
    assert_eq!(open.duration, None);
    entry.reached(State::Sent);
    while all(&journal).await[0].state != State::Sent {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(entry.finish(answered("{}")));
    let records = all(&journal).await;
    assert_eq!(records.len(), 1);
    assert_eq!((records[0].id, records[0].status), (open.id, Status::Ok));
    assert!(records[0].duration >= Some(Duration::from_secs(1)));
    assert_eq!(journal.counters().recorded, 1);
    let ended = journal.records(
        Filter {
            status: Some(Status::Ok),
            ..Filter::default()
        },
        10,
    );
    assert_eq!(ended.await.expect("read").total_count, 1);
    journal.close().await;
}

/// Strict: what was acknowledged is in the files at that moment; what was only begun is not.
#[tokio::test]
async fn strict_answers_when_it_is_on_the_disk() {
    let room = Room::strict();
    let journal = room.open();
    let unasked = journal.begin(begun("unasked"));
    let entry = journal.begin(begun("intended"));
    entry.intent().await.expect("on the disk");
    let killed = room.copy();
    let then = killed.open();
    let records = all(&then).await;
    // It may have been sent by the time that we were killed.
    let [intended] = &records[..] else {
        panic!("one record")
    };
    assert_eq!(
        (intended.status, intended.state),
        (Status::Unknown, State::Sent)
    );
    let kind = intended.error.as_ref().map(|error| &*error.kind);
    assert_eq!(kind, Some("outcome_unknown"));
    then.close().await;

    entry.finish(answered("done")).await.expect("on the disk");
    let killed = room.copy();
    let then = killed.open();
    assert_eq!(all(&then).await[0].status, Status::Ok);
    then.close().await;
    drop(unasked);
    journal.close().await;
}

/// What a kill left open has ended, and whether it can have run is told apart.
#[tokio::test]
async fn what_was_left_open_has_ended() {
    let room = Room::new();
    let journal = room.open();
    let (unsent, sent) = (journal.begin(begun("1")), journal.begin(begun("2")));
    sent.reached(State::Sent);
    // A call that has ended, so that the statistics are not theirs alone.
    call(&journal, begun("3"), answered("{}"));
    journal.close().await;
    drop((unsent, sent));
    let journal = room.open();
    let records = all(&journal).await;
    let status = |arguments: &str| {
        let cid = Some(Cid::of(arguments.as_bytes()));
        let found = records
            .iter()
            .find(|record| record.arguments.is_some_and(|payload| payload.cid == cid));
        found.expect("a record").status
    };
    assert_eq!(status("1"), Status::Cancelled);
    assert_eq!(status("2"), Status::Unknown);
    assert_eq!(status("3"), Status::Ok);
    // Also by the filters.
    let unknown = Filter {
        status: Some(Status::Unknown),
        ..Filter::default()
    };
    let page = journal.records(unknown, 10).await.expect("read");
    assert_eq!(page.total_count, 1);
    journal.close().await;
}

/// Whoever waits is never left waiting: not by a journal that has closed, and not by one that cannot
/// write.
#[tokio::test]
async fn nobody_waits_in_vain() {
    let room = Room::strict();
    let journal = room.open();
    let entry = journal.begin(begun("1"));
    journal.close().await;
    entry.intent().await.expect_err("closed");
    journal
        .begin(begun("2"))
        .intent()
        .await
        .expect_err("closed");
    let ended: Acknowledged = entry.finish(answered("{}"));
    ended.await.expect_err("closed");
    journal.flush().await.expect_err("closed");
    Entry::none().intent().await.expect("not recorded");

    let journal = room.open();
    room.database()
        .execute_batch("ALTER TABLE calls RENAME TO gone")
        .expect("renamed");
    let entry = journal.begin(begun("3"));
    entry.intent().await.expect_err("no table");
    room.database()
        .execute_batch("ALTER TABLE gone RENAME TO calls")
        .expect("renamed");
    // And it goes on as if nothing had been.
    entry.intent().await.expect("written");
    entry.finish(answered("{}")).await.expect("written");
    journal.close().await;
}

/// The same content is one object, within a run and in the next ones, and after a restart.
#[tokio::test]
async fn content_is_stored_once() {
    let room = Room::new();
    let journal = room.open();
    for _ in 0..100 {
        call(&journal, begun("{}"), answered("the same"));
    }
    let large = "x".repeat(INLINE_BYTES + 1);
    call(&journal, begun("{}"), answered(large.clone()));
    journal.close().await;
    let journal = room.open();
    call(&journal, begun("{}"), answered("the same"));
    call(&journal, begun("{}"), answered(large.clone()));
    let records = all(&journal).await;
    assert_eq!(records.len(), 103);
    let objects: i64 = room
        .database()
        .query_row("SELECT sum(count) FROM packs", [], |row| row.get(0))
        .expect("counted");
    assert_eq!(objects, 3);
    let cid = records[0].result.expect("a result").cid.expect("kept");
    let (slice, size) = journal.object_slice(cid, 10, 5).await.expect("read");
    assert_eq!((&slice[..], size), (&b"xxxxx"[..], large.len() as u64));
    let (end, _) = journal
        .object_slice(cid, size - 2, 100)
        .await
        .expect("read");
    assert_eq!(end, b"xx");
    let (beyond, _) = journal.object_slice(cid, size + 5, 1).await.expect("read");
    assert_eq!(beyond, b"");
    journal.close().await;
}

/// L6: content that does not fit its identifier is not handed out.
#[tokio::test]
async fn damage_is_told() {
    let room = Room::new();
    let journal = room.open();
    call(
        &journal,
        begun("{}"),
        answered("y".repeat(INLINE_BYTES + 1)),
    );
    call(&journal, begun("[1]"), answered("small"));
    let records = all(&journal).await;
    let small = records[0].result.expect("a result").cid.expect("kept");
    let large = records[1].result.expect("a result").cid.expect("kept");
    let database = room.database();
    let mut packs = database
        .prepare("SELECT first, objects FROM packs")
        .expect("packs");
    let packs: Vec<(i64, Vec<u8>)> = packs
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .and_then(Iterator::collect)
        .expect("read");
    for (first, mut pack) in packs {
        let Some(at) = memchr::memmem::find(&pack, b"small") else {
            continue;
        };
        pack[at + 2] = b'e';
        database
            .execute(
                "UPDATE packs SET objects = ? WHERE first = ?",
                (pack, first),
            )
            .expect("damaged");
    }
    let error = journal.object(small).await.expect_err("damaged");
    assert!(matches!(error, JournalError::Damaged(cid) if cid == small));
    let name = large.to_string();
    let file = room
        .path()
        .join("objects")
        .join(&name[name.len() - 2..])
        .join(&name);
    let mut bytes = fs::read(&file).expect("a file");
    bytes[100] = b'z';
    fs::write(&file, bytes).expect("damaged");
    let error = journal.object_slice(large, 0, 10).await;
    assert!(matches!(error, Err(JournalError::Damaged(_))));
    let unknown = Cid::of(b"never seen");
    let error = journal.object(unknown).await.expect_err("unknown");
    assert!(matches!(error, JournalError::NoSuchObject(_)), "{error}");
    journal.close().await;
}

#[tokio::test]
async fn payloads_are_kept_as_far_as_they_may_be() {
    for (payloads, kept) in [(Payloads::Digest, true), (Payloads::Off, false)] {
        let mut room = Room::new();
        room.settings.payloads = payloads;
        let journal = room.open();
        call(
            &journal,
            begun("secret arguments"),
            answered("secret result"),
        );
        let records = all(&journal).await;
        let arguments = records[0].arguments.expect("a size");
        assert_eq!(arguments.size, 16);
        assert_eq!(arguments.cid.is_some(), kept);
        if let Some(cid) = arguments.cid {
            let error = journal.object(cid).await.expect_err("not kept");
            assert!(matches!(error, JournalError::NotKept(_)), "{error}");
        }
        journal.close().await;
        let bytes = fs::read(room.path().join("journal.db")).expect("read");
        assert!(memchr::memmem::find(&bytes, b"secret").is_none());
    }
}

/// What is kept beside the records is redacted as they are, and the same object.
#[tokio::test]
async fn a_text_can_be_kept_for_more_than_a_record() {
    let mut room = Room::new();
    room.settings.redact.patterns = vec!["ghp_[a-z]+".to_owned()];
    let journal = room.open();
    let result = r#"{"token":"ghp_abc"}"#;
    call(&journal, begun("{}"), answered(result));
    let cid = journal.keep(result.into()).await.expect("kept");
    let hidden = r#"{"token":"[redacted]"}"#;
    assert_eq!(text(&journal, Some(cid)).await, hidden);
    let record = &all(&journal).await[0];
    assert_eq!(record.result.and_then(|it| it.cid), Some(cid));
    let alone = journal.keep("alone".into()).await.expect("kept");
    assert_eq!(text(&journal, Some(alone)).await, "alone");
    journal.close().await;
    let error = journal.keep("too late".into()).await;
    assert!(error.is_err(), "{error:?}");
}

/// Whoever waits for the disk hears of it, at whatever moment the thread looks.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_strict_call_is_acknowledged() {
    const CALLERS: u64 = 32;
    const CALLS: u64 = 100;
    let room = Room::strict();
    let journal = Arc::new(room.open());
    let callers = (0..CALLERS).map(|_| {
        let journal = Arc::clone(&journal);
        tokio::spawn(async move {
            for number in 0..CALLS {
                let entry = journal.begin(begun(&number.to_string()));
                entry.intent().await.expect("on record");
                entry.reached(State::Sent);
                let finished = answered(&*number.to_string());
                entry.finish(finished).await.expect("on record");
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.expect("acknowledged");
    }
    assert_eq!(journal.counters().recorded, CALLERS * CALLS);
    journal.close().await;
}

/// What is hidden is neither in the database nor in the hash.
#[tokio::test]
async fn secrets_are_taken_out_before_they_are_hashed() {
    let mut room = Room::new();
    room.settings.redact = Redact {
        keys: vec!["password".to_owned()],
        patterns: vec!["ghp_[a-z]+".to_owned()],
    };
    let journal = room.open();
    call(
        &journal,
        begun(r#"{"n":1.10,"Password":"hush","x":["ghp_abc"]}"#),
        answered("{}"),
    );
    let records = all(&journal).await;
    let cid = records[0].arguments.expect("arguments").cid;
    let hidden = r#"{"n":1.10,"Password":"[redacted]","x":["[redacted]"]}"#;
    assert_eq!(text(&journal, cid).await, hidden);
    assert_eq!(cid, Some(Cid::of(hidden.as_bytes())));
    journal.close().await;
}

#[test]
fn a_newer_journal_is_left_alone() {
    let room = Room::new();
    drop(room.open());
    room.database()
        .pragma_update(None, "user_version", 99)
        .expect("set");
    let error = Journal::open(room.folder.path(), &room.settings).expect_err("refused");
    let told = error.to_string();
    assert!(
        told.contains("version 99") && told.contains("journal.db"),
        "{told}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn nobody_else_can_read_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let room = Room::new();
    let journal = room.open();
    call(
        &journal,
        begun("{}"),
        answered("z".repeat(INLINE_BYTES + 1)),
    );
    journal.flush().await.expect("written");
    let mode = |name: &str| {
        let path = room.path().join(name);
        fs::metadata(path).expect("it exists").permissions().mode() & 0o777
    };
    assert_eq!(mode("journal.db"), 0o600);
    assert_eq!(mode("journal.db-wal"), 0o600);
    assert_eq!(mode("objects"), 0o700);
    journal.close().await;
}

type Fits = Box<dyn Fn(&Record) -> bool>;

/// Many calls of many kinds, over several chunks: each filter finds what a plain walk finds, in the
/// chunk that is complete and in the one that is not, and after a restart.
#[tokio::test]
async fn filters_find_what_is_there() {
    let room = Room::new();
    let journal = room.open();
    let count = usize::try_from(CHUNK * 2 + 100).expect("a number");
    for number in 0..count {
        let client = ClientInfo {
            name: format!("client-{}", number % 3),
            version: "1".to_owned(),
        };
        let origin = Origin {
            client: Some(client),
            session: Some(format!("s{}", number % 5)),
            ..Origin::of(Door::ALL[number % 2])
        };
        let begun = Begun {
            origin: Arc::new(origin),
            target: target(
                ["fs", "db"][number % 2],
                ["read", "write", "a_b"][number % 3],
            ),
            ..begun("{}")
        };
        let end = match number % 7 {
            0 => failed(Status::Timeout, "call_timeout"),
            _ => answered("{}"),
        };
        call(&journal, begun, end);
        // One window could take them all, and the chunks would not turn between commits.
        if number % 1000 == 0 {
            journal.flush().await.expect("written");
        }
    }
    let some = |text: &str| Some(text.to_owned());
    let any = Filter::default;
    for turn in ["running", "reopened"] {
        let journal = match turn {
            "running" => &journal,
            _ => {
                journal.close().await;
                &room.open()
            }
        };
        journal.flush().await.expect("written");
        let everything = journal.records(any(), count).await.expect("read").calls;
        assert_eq!(everything.len(), count);
        let third = everything[count / 3].started_at;
        let cases: Vec<(Filter, Fits)> = vec![
            (
                Filter {
                    server: some("fs"),
                    ..any()
                },
                Box::new(|r| r.target.server.as_str() == "fs"),
            ),
            (
                Filter {
                    tool: some("read"),
                    ..any()
                },
                Box::new(|r| &*r.target.tool == "read"),
            ),
            (
                Filter {
                    tool: some("db/write"),
                    ..any()
                },
                Box::new(|r| r.target.name() == "db/write"),
            ),
            (
                Filter {
                    status: Some(Status::Timeout),
                    ..any()
                },
                Box::new(|r| r.status == Status::Timeout),
            ),
            (
                Filter {
                    door: Some(Door::McpStdio),
                    ..any()
                },
                Box::new(|r| r.origin.door == Door::McpStdio),
            ),
            (
                Filter {
                    client: some("client-1"),
                    session: some("s2"),
                    ..any()
                },
                Box::new(|r| {
                    let client = r.origin.client.as_ref().expect("a client");
                    client.name == "client-1" && r.origin.session.as_deref() == Some("s2")
                }),
            ),
            (
                Filter {
                    text: some("S/A_"),
                    ..any()
                },
                Box::new(|r| r.target.name() == "fs/a_b"),
            ),
            (
                Filter {
                    since: Some(third),
                    ..any()
                },
                Box::new(move |r| r.started_at >= third),
            ),
            (
                Filter {
                    until: Some(third),
                    server: some("db"),
                    ..any()
                },
                Box::new(move |r| r.started_at <= third && r.target.server.as_str() == "db"),
            ),
            (
                Filter {
                    server: some("none"),
                    ..any()
                },
                Box::new(|_| false),
            ),
        ];
        for (filter, fits) in cases {
            let expected: Vec<&Record> = everything.iter().filter(|r| fits(r)).collect();
            let page = journal.records(filter.clone(), 50).await.expect("read");
            assert_eq!(page.total_count, expected.len() as u64, "{turn} {filter:?}");
            assert!(
                page.calls.iter().eq(expected.iter().take(50).copied()),
                "{turn} {filter:?}"
            );
            assert_eq!(page.truncated, expected.len() > 50);
            // And the next page goes on where this one ended.
            let Some(next) = page.next else { continue };
            let next = Filter {
                before: Some(next),
                ..filter
            };
            let page = journal.records(next, 50).await.expect("read");
            let rest = expected.iter().skip(50).take(50).copied();
            assert!(page.calls.iter().eq(rest), "{turn}");
            assert_eq!(page.total_count, expected.len() as u64);
        }
        journal.close().await;
    }
}

/// Objects are found by their content in every run and in the one that is not complete, also when
/// the journal was closed where a run and a chunk of calls end.
#[tokio::test]
async fn objects_are_found_in_every_run() {
    let room = Room::new();
    let mut journal = room.open();
    let content = |number: i64| format!("content {number}");
    // The first number is 1, and the result is an object, too.
    let run = RUN - 2;
    for number in 0..run + 2000 {
        if number == run {
            call(&journal, begun(&content(0)), answered("{}"));
            journal.close().await;
            journal = room.open();
        }
        call(&journal, begun(&content(number)), answered("{}"));
        // So that a run turns in the middle of a commit, and none waits for long.
        if number % 5000 == 0 {
            journal.flush().await.expect("written");
        }
    }
    journal.flush().await.expect("written");
    for number in [0, 1, 5000, run - 1, run, run + 1, run + 1999] {
        let cid = Cid::of(content(number).as_bytes());
        assert_eq!(text(&journal, Some(cid)).await, content(number), "{number}");
    }
    let page = journal.records(Filter::default(), 1).await.expect("read");
    assert_eq!(i64::try_from(page.total_count), Ok(run + 2001));
    let runs = "SELECT sum(length(objects)) / 10 FROM digests WHERE id < 2048";
    let in_run: i64 = room
        .database()
        .query_row(runs, [], |row| row.get(0))
        .expect("counted");
    assert_eq!(in_run, RUN - 1);
    journal.close().await;
}

/// By age and by size the oldest go, with their objects and files; numbers are not given again.
#[tokio::test]
async fn the_oldest_go() {
    let mut room = Room::new();
    room.settings.max_bytes = 16 * 1024 * 1024;
    let journal = room.open();
    // 36 MB in files, a few to a run.
    let large = |number: usize| format!("{number:06}{}", "x".repeat(119_994));
    for number in 0..300 {
        call(&journal, begun("{}"), answered(large(number)));
        if number % 50 == 0 {
            journal.flush().await.expect("written");
        }
    }
    journal.flush().await.expect("written");
    let size = || {
        let walk = walk(room.folder.path());
        walk.iter().map(|(_, size)| size).sum::<u64>()
    };
    wait_until(|| size() < 24 * 1024 * 1024).await;
    let gone = Cid::of(large(0).as_bytes());
    let error = journal.object(gone).await.expect_err("gone");
    assert!(matches!(error, JournalError::NoSuchObject(_)), "{error}");
    // Every record that is left has its objects.
    let records = all(&journal).await;
    for record in &records {
        let cid = record.result.expect("a result").cid.expect("kept");
        // Unless it went meanwhile.
        if journal.object(cid).await.is_err() {
            let gone = journal.record(record.id).await.expect("read");
            assert_eq!(gone, None);
        }
    }
    journal.close().await;

    // Everything is too old now.
    room.database()
        .execute("UPDATE calls SET started_at = 0", [])
        .expect("aged");
    let journal = room.open();
    call(&journal, begun("{}"), answered("new"));
    let mut left = all(&journal).await;
    while left.len() > 1 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        left = all(&journal).await;
    }
    assert!(left[0].id > RecordId(300), "{:?}", left[0].id);
    journal.close().await;
}

async fn wait_until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Every file below a folder, and its size.
fn walk(folder: &std::path::Path) -> Vec<(std::path::PathBuf, u64)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(walk(&path));
        } else if let Ok(file) = fs::metadata(&path) {
            files.push((path, file.len()));
        }
    }
    files
}

/// Files that nobody names are swept at the start; others' stay.
#[tokio::test]
async fn files_that_nobody_names_are_swept() {
    let room = Room::new();
    let journal = room.open();
    call(
        &journal,
        begun("{}"),
        answered("k".repeat(INLINE_BYTES + 1)),
    );
    journal.close().await;
    let folder = room.path().join("objects").join("aa");
    fs::create_dir_all(&folder).expect("made");
    let stray = folder.join(Cid::of(b"stray").to_string());
    let foreign = folder.join("notes.txt");
    fs::write(&stray, "stray").expect("written");
    fs::write(&foreign, "mine").expect("written");
    let journal = room.open();
    assert!(!stray.exists());
    assert!(foreign.exists());
    let cid = all(&journal).await[0].result.expect("a result").cid;
    assert_eq!(text(&journal, cid).await.len(), INLINE_BYTES + 1);
    journal.close().await;
}

/// Calls, errors, latencies and bytes, also of what was not written when we were killed.
#[tokio::test]
async fn statistics_add_up() {
    let room = Room::new();
    let journal = room.open();
    for number in 0..100 {
        let end = match number % 10 {
            0 => failed(Status::Timeout, "call_timeout"),
            _ => answered("12345"),
        };
        call(&journal, begun("{}"), end);
    }
    let uri = Begun {
        target: Target {
            method: "resources/read".into(),
            ..target("fs", "file:///one")
        },
        ..begun("{}")
    };
    call(&journal, uri, answered("x"));
    journal.flush().await.expect("written");
    let killed = room.copy();
    let range = || Range {
        server: Some("fs".to_owned()),
        tool: None,
        since: SystemTime::now() - Duration::from_hours(1),
        until: SystemTime::now(),
        bucket: Duration::from_mins(5),
    };
    journal.close().await;
    // Once as it was closed, once as it was killed.
    for room in [room, killed] {
        let journal = room.open();
        wait_for_statistics(&journal, range()).await;
        let series = journal.statistics(range()).await.expect("read");
        let [reads, tools] = &series[..] else {
            panic!("{series:?}")
        };
        assert_eq!((&*reads.method, &*reads.tool), ("resources/read", ""));
        assert_eq!((&*tools.method, &*tools.tool), ("tools/call", "read"));
        assert_eq!((tools.total.calls, tools.total.errors), (100, 10));
        assert_eq!(tools.total.argument_bytes, 200);
        assert_eq!(tools.total.result_bytes, 450);
        assert!(tools.total.p50 <= tools.total.p99);
        let in_buckets: u64 = tools.buckets.iter().map(|bucket| bucket.calls).sum();
        assert_eq!(in_buckets, 100);
        let mut other = range();
        other.tool = Some("write".to_owned());
        assert_eq!(journal.statistics(other).await.expect("read"), []);
        journal.close().await;
    }
}

async fn wait_for_statistics(journal: &Journal, range: Range) {
    while journal
        .statistics(range.clone())
        .await
        .expect("read")
        .is_empty()
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
