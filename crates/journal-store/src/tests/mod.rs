//! Tests of the whole journal: they write calls and query them.

mod calls;
mod files;
mod gaps;
mod history;
mod objects;
mod questions;
mod readers;
mod searches;

use std::{
    fs,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use bytestring::ByteString;
use mainstay_core::{
    config::{self, Durability, Payloads, Redact},
    ids::ServerName,
    record::{
        CallAttempt, CallOrigin, Cid, ClientInfo, Door, Record, RecordError, RecordId, State,
        Status, Target, TraceId,
    },
};
use mainstay_journal::{
    Acknowledged, Begun, By, CallOutcome, Finished, Holder, Journal, JournalEntry, JournalError,
    JournalHistory, Mark, Order, Period, Range, RecordFilter, RecordPage, ServerHistory,
    Transition, store::Keep,
};
use mainstay_platform::state::create_private_dir;
use mainstay_testkit::limits::DISK;
use rusqlite::Connection;
use tempfile::TempDir;

use super::{
    Reader, StoreError,
    batch::Batch,
    call_packs::{CallPacker, CallRow, calls_from},
    database::{Database, Published},
    facets::CHUNK_LENGTH,
    layout::FOLDER,
    objects::{INLINE_BYTES, RUN_LENGTH},
    open, open_patiently,
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
        open(self.folder.path(), &self.settings).expect("opened")
    }

    /// The path of the journal's folder.
    fn path(&self) -> PathBuf {
        self.folder.path().join(FOLDER)
    }

    fn database(&self) -> Connection {
        Connection::open(self.path().join("journal.db")).expect("a database")
    }

    /// Copies the current files, which are those after a kill.
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
        server: Some(ServerName::new(server).expect("a name")),
        method: "tools/call".into(),
        tool: tool.into(),
    }
}

fn new_call(arguments: &str) -> Begun {
    Begun {
        origin: Arc::new(CallOrigin::from_door(Door::Rest)),
        target: target("fs", "read"),
        is_listed: true,
        arguments: Some(arguments.to_owned().into()),
        since: Instant::now(),
        trace: None,
        secrets: None,
    }
}

fn call_end(outcome: CallOutcome) -> Finished {
    Finished {
        outcome,
        attempts: 1,
        earlier: Vec::new(),
        at: Instant::now(),
        queue: Duration::from_micros(5),
        upstream: Duration::from_micros(70),
        secrets: None,
    }
}

fn attempt() -> CallAttempt {
    CallAttempt {
        ended: Duration::from_micros(40),
        state: State::NotSent,
        error: RecordError {
            kind: "server_unavailable".into(),
            text: "the pipe is closed".to_owned(),
        },
    }
}

fn answered_end(result: impl Into<ByteString>) -> Finished {
    call_end(CallOutcome::Answered {
        result: Some(result.into()),
        error: None,
    })
}

fn failed_end(status: Status, kind: &'static str) -> Finished {
    call_end(CallOutcome::Failed {
        status,
        error: RecordError {
            kind: kind.into(),
            text: "it went wrong".to_owned(),
        },
    })
}

/// Removes all calls from a database and returns them.
fn take_calls(database: &Connection) -> Vec<CallRow<'static>> {
    let mut calls = Vec::new();
    let result = calls_from(database, 0, |call| {
        calls.push(call);
        Ok(())
    });
    result.expect("read");
    database
        .execute_batch("DELETE FROM calls; DELETE FROM call_packs;")
        .expect("taken");
    calls
}

/// Turns a database into one of version 3, without packs of calls and gaps.
fn downgrade_to_version_3(database: &Connection) {
    database.execute_batch("BEGIN").expect("begun");
    for call in take_calls(database) {
        call.insert(database).expect("written");
    }
    database
        .execute_batch(
            "DROP TABLE call_packs; DROP TABLE attempts; DROP TABLE gaps;
             PRAGMA user_version = 3; COMMIT;",
        )
        .expect("as it was");
}

/// Records a call from its start to its end.
fn call(journal: &Journal, new_call: Begun, end: Finished) {
    let entry = journal.begin(new_call);
    entry.reached(State::Sent);
    drop(entry.finish(end));
}

async fn all_records(journal: &Journal) -> Vec<Record> {
    journal.flush().await.expect("written");
    let page = journal.records(RecordFilter::default(), 1000).await;
    page.expect("read").calls
}

/// Waits until `look` returns a value.
async fn wait_until<T>(goal: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
    mainstay_testkit::found(DISK, goal, look).await
}

async fn text(journal: &Journal, cid: Option<Cid>) -> String {
    let bytes = journal.object(cid.expect("kept")).await.expect("an object");
    String::from_utf8(bytes).expect("text")
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
