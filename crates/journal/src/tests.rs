//! Tests of the journal with a store that does not write: waiting data is bounded, and no caller
//! waits forever.

use std::time::Instant;

use mainstay_core::{
    config::Durability,
    record::{Door, State},
};
use parking_lot::Mutex;

use super::*;

/// Maximum bytes of waiting payloads.
const MAX_BYTES: usize = 128 * 1024 * 1024;
/// Maximum number of waiting calls.
const MAX_CALLS: usize = 64 * 1024;

/// A store that answers one kind of query and writes nothing.
#[derive(Debug)]
struct Idle {
    queue: Arc<JournalQueue>,
    /// States of the calls that remained at the end.
    left: Mutex<Vec<State>>,
}

impl Store for Idle {
    fn records(
        &self,
        _: &RecordFilter,
        _: usize,
        _: &dyn Fn() -> bool,
    ) -> Result<RecordPage, JournalError> {
        Ok(RecordPage {
            calls: Vec::new(),
            total_count: 7,
            truncated: false,
            next: None,
            searched_back_to: None,
            gaps: Vec::new(),
        })
    }

    fn record(&self, _: RecordId) -> Result<Option<Record>, JournalError> {
        absent_error()
    }

    fn span(&self) -> Result<RecordsSpan, JournalError> {
        absent_error()
    }

    fn history(&self, _: &Period) -> Result<JournalHistory, JournalError> {
        absent_error()
    }

    fn statistics(&self, _: &Range) -> Result<Vec<Series>, JournalError> {
        absent_error()
    }

    fn is_held(&self, _: Cid, _: &dyn Fn(&Holder) -> bool) -> Result<bool, JournalError> {
        absent_error()
    }

    fn object_slice(&self, _: Cid, _: u64, _: usize) -> Result<(Vec<u8>, u64), JournalError> {
        absent_error()
    }

    fn end(&self) {
        let gathered = self.queue.gather(&mut 0, false);
        assert!(gathered.last, "the queue has been stopped");
        for call in gathered.new_calls {
            self.left.lock().push(call.state());
            call.close();
        }
    }
}

fn absent_error<T>() -> Result<T, JournalError> {
    Err(JournalError::Absent(PathBuf::from("nowhere")))
}

fn journal(durability: Durability) -> (Journal, Arc<Idle>) {
    let queue = Arc::new(JournalQueue::new(durability));
    let store = Arc::new(Idle {
        queue: Arc::clone(&queue),
        left: Mutex::default(),
    });
    let settings = config::Journal {
        durability,
        ..config::Journal::default()
    };
    let dyn_store: Arc<dyn Store> = Arc::clone(&store) as _;
    (
        Journal::new(queue, dyn_store, settings, PathBuf::new()),
        store,
    )
}

fn new_call(arguments: ByteString) -> Begun {
    Begun {
        origin: Arc::new(CallOrigin::from_door(Door::Rest)),
        target: Target {
            server: None,
            method: "tools/call".into(),
            tool: "read".into(),
        },
        is_listed: false,
        arguments: Some(arguments),
        since: Instant::now(),
        trace: None,
        secrets: None,
    }
}

/// A call beyond the bound has no record, and is counted. Strict mode has no bound.
#[test]
fn calls_beyond_the_bound_are_counted() {
    for (durability, dropped_calls) in [(Durability::Relaxed, 2), (Durability::Strict, 0)] {
        let (journal, _) = journal(durability);
        let begin_call = || journal.begin(new_call("{}".into()));
        let entries: Vec<JournalEntry> = (0..MAX_CALLS + 2).map(|_| begin_call()).collect();
        let unrecorded = entries.iter().filter(|entry| !entry.is_some()).count();
        assert_eq!(unrecorded as u64, dropped_calls, "{durability:?}");
        assert_eq!(journal.counters().dropped, dropped_calls);
        assert_eq!(journal.depth().0, entries.len() - unrecorded);
    }
}

/// A call whose arguments exceed the bound has a record without arguments.
#[test]
fn payloads_beyond_the_bound_are_counted() {
    let (journal, _) = journal(Durability::Relaxed);
    let half_payload = ByteString::from("x".repeat(MAX_BYTES / 2));
    let entries: Vec<JournalEntry> = (0..3)
        .map(|_| journal.begin(new_call(half_payload.clone())))
        .collect();
    assert!(entries.iter().all(JournalEntry::is_some));
    assert_eq!(journal.counters().payloads_dropped, 1);
    assert_eq!(journal.depth(), (3, MAX_BYTES));
}

/// If the store hangs, a query returns without the latest records.
#[tokio::test(start_paused = true)]
async fn a_hanging_store_is_still_read() {
    let (journal, _) = journal(Durability::Relaxed);
    let _entry = journal.begin(new_call("{}".into()));
    let started_at = tokio::time::Instant::now();
    let page = journal
        .records(RecordFilter::default(), 1)
        .await
        .expect("read");
    assert_eq!(page.total_count, 7);
    assert!(started_at.elapsed() >= FLUSH_TIME_LIMIT);
}

/// The store ends after the queue is stopped, and its end answers waiting callers.
#[tokio::test]
async fn the_end_answers_every_waiting_caller() {
    let (journal, store) = journal(Durability::Strict);
    let entry = journal.begin(new_call("{}".into()));
    entry.reached(State::Sent);
    let intent = entry.intent();
    journal.close().await;
    assert_eq!(*store.left.lock(), [State::Sent]);
    intent.await.expect_err("it was not written");
    assert_eq!(journal.depth().1, 0);
    let late_entry = journal.begin(new_call("{}".into()));
    late_entry
        .intent()
        .await
        .expect_err("it will not be written");
    assert_eq!(journal.counters().lost, 1);
    assert_eq!(store.left.lock().len(), 1);
}
