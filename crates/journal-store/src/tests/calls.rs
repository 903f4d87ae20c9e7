//! Tests of the record of a call, and of waiting callers.

use super::*;

/// A client's name and version are redacted in each call.
#[tokio::test]
async fn a_secret_in_the_name_of_a_client_is_not_stored() {
    let (room, secret) = (Room::new(), "ghp_0123456789abcdefghijABCDEFGHIJ");
    let journal = room.open();
    for _ in 0..2 {
        let origin = CallOrigin {
            client: Some(ClientInfo {
                name: format!("client {secret}"),
                version: format!("token={secret}"),
            }),
            ..CallOrigin::from_door(Door::McpHttp)
        };
        let entry = journal.begin(Begun {
            origin: Arc::new(origin),
            ..new_call("{}")
        });
        entry
            .finish(answered_end("{}"))
            .await
            .expect("nobody waits");
    }
    for record in all_records(&journal).await {
        let client = record.origin.client.expect("a client");
        assert_eq!(client.name, "client [redacted]");
        assert_eq!(client.version, "token=[redacted]");
    }
    journal.close().await;
    for file in ["journal.db", "journal.db-wal"] {
        let bytes = fs::read(room.path().join(file)).unwrap_or_default();
        assert!(memchr::memmem::find(&bytes, secret.as_bytes()).is_none());
    }
}

/// L1–L3, L7: every field is read back, and the payload is found by its identifier.
#[tokio::test]
async fn a_record_has_every_field_of_its_call() {
    let (room, start) = (Room::new(), SystemTime::now());
    let journal = room.open();
    let origin = CallOrigin {
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
        is_listed: true,
        arguments: Some(r#"{"path":"/a"}"#.into()),
        since: Instant::now(),
        trace: Some(trace),
        secrets: None,
    });
    entry.reached(State::Sent);
    let earlier_attempts = vec![attempt()];
    let end = Finished {
        attempts: 2,
        earlier: earlier_attempts.clone(),
        ..answered_end(r#"{"content":[]}"#)
    };
    entry.finish(end).await.expect("nobody waits");
    let [record] = &all_records(&journal).await[..] else {
        panic!("one record")
    };
    assert_eq!(record.origin, origin);
    assert_eq!(record.target.name(), "fs/read");
    assert_eq!(record.target.method, "tools/call");
    assert_eq!((record.state, record.status), (State::Answered, Status::Ok));
    assert_eq!((record.attempts, record.trace), (2, Some(trace)));
    assert_eq!(record.earlier, earlier_attempts);
    assert_eq!(record.queue, Duration::from_micros(5));
    assert_eq!(record.upstream, Duration::from_micros(70));
    assert!(record.duration.is_some());
    assert!(record.started_at >= start - Duration::from_micros(1));
    assert_eq!(record.error, None);
    let arguments = record.arguments.expect("arguments");
    assert_eq!(
        (arguments.size, arguments.cid),
        (13, Some(Cid::for_content(br#"{"path":"/a"}"#)))
    );
    assert_eq!(record.arguments_text.as_deref(), Some(r#"{"path":"/a"}"#));
    assert_eq!(text(&journal, arguments.cid).await, r#"{"path":"/a"}"#);
    let result = record.result.expect("a result").cid;
    assert_eq!(text(&journal, result).await, r#"{"content":[]}"#);
    let same_record = journal.record(record.id).await.expect("read");
    assert_eq!(same_record.as_ref(), Some(record));
    assert_eq!(journal.record(RecordId(99)).await.expect("read"), None);
    journal.close().await;
}

/// K3, L7: the statuses of ended calls, and their states.
#[tokio::test]
async fn every_end_has_its_status() {
    let room = Room::new();
    let journal = room.open();
    call(
        &journal,
        new_call("1"),
        failed_end(Status::Timeout, "call_timeout"),
    );
    let refused_end = call_end(CallOutcome::Answered {
        result: Some("{}".into()),
        error: Some(RecordError {
            kind: "tool_error".into(),
            text: "no such file".to_owned(),
        }),
    });
    call(&journal, new_call("2"), refused_end);
    drop(journal.begin(new_call("3")));
    let sent_entry = journal.begin(new_call("4"));
    sent_entry.reached(State::Sent);
    drop(sent_entry);
    let unsent_entry = journal.begin(new_call("5"));
    drop(unsent_entry.finish(failed_end(Status::Error, "server_not_connected")));
    let records = all_records(&journal).await;
    let rows: Vec<_> = records
        .iter()
        .rev()
        .map(|record| {
            let error = record.error.as_ref().map(|error| &*error.kind);
            (record.status, record.state, error)
        })
        .collect();
    assert_eq!(
        rows,
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

/// A long call is recorded while it runs, and has one record.
#[tokio::test]
async fn a_long_call_is_open_and_then_ends() {
    let room = Room::new();
    let journal = room.open();
    let entry = journal.begin(new_call("{}"));
    let first_record = async || all_records(&journal).await.into_iter().next();
    let open_record = wait_until("a record of an open call", first_record).await;
    assert_eq!(
        (open_record.status, open_record.state),
        (Status::Open, State::NotSent)
    );
    assert_eq!(open_record.duration, None);
    entry.reached(State::Sent);
    let sent_record = async || {
        first_record()
            .await
            .filter(|record| record.state == State::Sent)
    };
    wait_until("the record of a call that was sent", sent_record).await;
    drop(entry.finish(answered_end("{}")));
    let records = all_records(&journal).await;
    assert_eq!(records.len(), 1);
    assert_eq!(
        (records[0].id, records[0].status),
        (open_record.id, Status::Ok)
    );
    assert!(records[0].duration >= Some(Duration::from_millis(250)));
    assert_eq!(journal.counters().recorded, 1);
    let ended_records = journal.records(
        RecordFilter {
            statuses: vec![Status::Ok],
            ..RecordFilter::default()
        },
        10,
    );
    assert_eq!(ended_records.await.expect("read").total_count, 1);
    journal.close().await;
}

/// A new run closes the calls that a kill left open. Their status shows if they may have run.
#[tokio::test]
async fn open_calls_of_a_killed_run_are_closed() {
    let room = Room::new();
    let journal = room.open();
    let (unsent_entry, sent_entry) = (journal.begin(new_call("1")), journal.begin(new_call("2")));
    sent_entry.reached(State::Sent);
    // An ended call, so that the statistics do not consist of open calls only.
    call(&journal, new_call("3"), answered_end("{}"));
    journal.close().await;
    drop((unsent_entry, sent_entry));
    let journal = room.open();
    let records = all_records(&journal).await;
    let status = |arguments: &str| {
        let cid = Some(Cid::for_content(arguments.as_bytes()));
        let record = records
            .iter()
            .find(|record| record.arguments.is_some_and(|payload| payload.cid == cid));
        record.expect("a record").status
    };
    assert_eq!(status("1"), Status::Cancelled);
    assert_eq!(status("2"), Status::Unknown);
    assert_eq!(status("3"), Status::Ok);
    // The filters also find the closed calls.
    let unknown_filter = RecordFilter {
        statuses: vec![Status::Unknown],
        ..RecordFilter::default()
    };
    let page = journal.records(unknown_filter, 10).await.expect("read");
    assert_eq!(page.total_count, 1);
    journal.close().await;
}

/// In strict mode, an acknowledged call is in the files at that moment. An open call is in the
/// files after a while, as not sent.
#[tokio::test]
async fn strict_mode_acknowledges_records_on_the_disk() {
    let room = Room::strict();
    let journal = room.open();
    let without_intent = journal.begin(new_call("unasked"));
    let entry = journal.begin(new_call("intended"));
    entry.intent().await.expect("on the disk");
    let killed_room = room.copy();
    let reopened_journal = killed_room.open();
    let (intended, other_record) = split_records(all_records(&reopened_journal).await);
    // The new run must assume that the call was sent before the kill.
    assert_eq!(
        (intended.status, intended.state),
        (Status::Unknown, State::Sent)
    );
    assert!(
        other_record.is_none_or(
            |record| (record.status, record.state) == (Status::Cancelled, State::NotSent)
        )
    );
    let kind = intended.error.as_ref().map(|error| &*error.kind);
    assert_eq!(kind, Some("outcome_unknown"));
    reopened_journal.close().await;

    entry
        .finish(answered_end("done"))
        .await
        .expect("on the disk");
    let killed_room = room.copy();
    let reopened_journal = killed_room.open();
    let (intended, _) = split_records(all_records(&reopened_journal).await);
    assert_eq!(intended.status, Status::Ok);
    reopened_journal.close().await;
    drop(without_intent);
    journal.close().await;
}

/// Returns the record of `"intended"`, and the other record if there is one.
fn split_records(records: Vec<Record>) -> (Record, Option<Record>) {
    let is_intended = |record: &Record| record.arguments_text.as_deref() == Some("intended");
    let (mut intended, mut other_records): (Vec<_>, Vec<_>) =
        records.into_iter().partition(is_intended);
    assert!(
        intended.len() == 1 && other_records.len() < 2,
        "{intended:?} {other_records:?}"
    );
    (intended.remove(0), other_records.pop())
}

/// Every caller that waits for the disk gets an answer, whatever the writer thread is doing when
/// the call arrives.
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
                let entry = journal.begin(new_call(&number.to_string()));
                entry.intent().await.expect("on record");
                entry.reached(State::Sent);
                let finished = answered_end(&*number.to_string());
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

/// A closed or unwritable journal answers every waiting caller.
#[tokio::test]
async fn every_waiting_caller_is_answered() {
    let room = Room::strict();
    let journal = room.open();
    let entry = journal.begin(new_call("1"));
    journal.close().await;
    entry.intent().await.expect_err("closed");
    journal
        .begin(new_call("2"))
        .intent()
        .await
        .expect_err("closed");
    let acknowledgement: Acknowledged = entry.finish(answered_end("{}"));
    acknowledgement.await.expect_err("closed");
    journal.flush().await.expect_err("closed");
    JournalEntry::none().intent().await.expect("not recorded");

    let journal = room.open();
    room.database()
        .execute_batch("ALTER TABLE calls RENAME TO gone")
        .expect("renamed");
    let entry = journal.begin(new_call("3"));
    entry.intent().await.expect_err("no table");
    room.database()
        .execute_batch("ALTER TABLE gone RENAME TO calls")
        .expect("renamed");
    // The journal continues normally after the failure.
    entry.intent().await.expect("written");
    entry.finish(answered_end("{}")).await.expect("written");
    journal.close().await;
}

/// A version 3 journal has no packs. Its calls are read together with packed calls. A read-only
/// reader does not migrate the journal.
#[tokio::test]
async fn calls_of_the_former_version_are_read_beside_packed_ones() {
    let room = Room::new();
    let journal = room.open();
    for number in 0..700 {
        let mut new_call = new_call(&number.to_string());
        new_call.trace = (number % 7 == 0).then_some(TraceId([7; 16]));
        let end = match number % 3 {
            0 => failed_end(Status::Timeout, "timeout"),
            _ => answered_end(format!("result {number}")),
        };
        call(&journal, new_call, end);
        if number % 100 == 0 {
            journal.flush().await.expect("written");
        }
    }
    let records_before = all_records(&journal).await;
    assert_eq!(records_before.len(), 700);
    journal.close().await;
    let database = room.database();
    let packs = || -> u32 {
        database
            .query_row("SELECT count(*) FROM call_packs", [], |row| row.get(0))
            .expect("counted")
    };
    assert!((2..100).contains(&packs()), "{}", packs());
    let single_calls: u32 = database
        .query_row("SELECT count(*) FROM calls", [], |row| row.get(0))
        .expect("counted");
    assert_eq!(single_calls, 0);
    downgrade_to_version_3(&database);

    let mut reader = Reader::open(room.folder.path())
        .expect("read")
        .expect("there");
    let page = reader
        .records(&RecordFilter::default(), 1000, &|| true)
        .expect("read");
    assert_eq!(page.calls, records_before);
    drop(reader);

    let journal = room.open();
    let open_entry = journal.begin(new_call("open"));
    call(&journal, new_call("new"), answered_end("{}"));
    let records_after = all_records(&journal).await;
    assert_eq!(
        records_after.len(),
        701,
        "an open call is not written at once"
    );
    assert_eq!(records_after[1..], records_before);
    let is_written =
        async || Some(all_records(&journal).await).filter(|records| records.len() == 702);
    wait_until("a record of the open call", is_written).await;
    drop(open_entry);
    let records = all_records(&journal).await;
    assert_eq!(records[0].status, Status::Cancelled);
    let span = journal.span().await.expect("read");
    assert_eq!(span.records, 702);
    assert_eq!(span.oldest, Some(records_before[699].started_at));
    journal.close().await;
}

/// Calls in rows are between packed calls. Old calls of both forms are deleted, and younger calls
/// stay.
#[tokio::test]
async fn old_calls_are_deleted_in_packs_and_rows() {
    let room = Room::new();
    let journal = room.open();
    for number in 0..1200 {
        call(&journal, new_call(&number.to_string()), answered_end("{}"));
    }
    journal.close().await;
    let database = room.database();
    database.execute_batch("BEGIN").expect("begun");
    let mut packer = CallPacker::default();
    for call in take_calls(&database) {
        let is_old = call.id <= 700;
        if call.id == 701 {
            packer.write(&database).expect("written");
        }
        let call = CallRow {
            started_at: if is_old { 0 } else { call.started_at },
            ..call
        };
        if call.id % 50 == 0 {
            call.insert(&database).expect("written");
        } else {
            packer.push(&database, &call).expect("written");
        }
    }
    packer.write(&database).expect("written");
    database.execute_batch("COMMIT").expect("written");
    let journal = room.open();
    let are_gone = async || {
        Some(all_records(&journal).await).filter(|remaining_records| remaining_records.len() <= 500)
    };
    let remaining_records = wait_until("the old calls to be gone", are_gone).await;
    let ids: Vec<i64> = remaining_records
        .iter()
        .rev()
        .map(|record| record.id.0)
        .collect();
    assert_eq!(ids, (701..=1200).collect::<Vec<_>>());
    assert!(remaining_records.iter().all(|record| {
        record
            .arguments
            .is_some_and(|payload| payload.cid.is_some())
    }));
    journal.close().await;
}
