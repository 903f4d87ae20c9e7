//! Tests of queries: pages of records by their filters, and statistics.

use super::*;

type Fits = Box<dyn Fn(&Record) -> bool>;

/// One of eight traces.
fn trace(number: usize) -> TraceId {
    TraceId([1 + u8::try_from(number % 8).expect("small"); 16])
}

/// Each filter finds the same calls as a plain loop: in complete chunks and in the incomplete one,
/// and after a restart.
#[tokio::test]
async fn filters_find_the_matching_calls() {
    let room = Room::new();
    let journal = room.open();
    let count = usize::try_from(CHUNK_LENGTH * 2 + 100).expect("a number");
    for number in 0..count {
        let client = ClientInfo {
            name: format!("client-{}", number % 3),
            version: "1".to_owned(),
        };
        let origin = CallOrigin {
            client: Some(client),
            session: Some(format!("s{}", number % 5)),
            ..CallOrigin::from_door(Door::ALL[number % 2])
        };
        let new_call = Begun {
            origin: Arc::new(origin),
            target: target(
                ["fs", "db"][number % 2],
                ["read", "write", "a_b"][number % 3],
            ),
            trace: (number % 4 > 0).then(|| trace(number)),
            ..new_call("{}")
        };
        let end = match number % 7 {
            0 => failed_end(Status::Timeout, "call_timeout"),
            _ => answered_end("{}"),
        };
        call(&journal, new_call, end);
        // Flush often. Otherwise one turn could write all calls, and no chunk would turn between
        // commits.
        if number % 1000 == 0 {
            journal.flush().await.expect("written");
        }
    }
    let some_text = |text: &str| Some(text.to_owned());
    let one_text = |text: &str| vec![text.to_owned()];
    let any_record = RecordFilter::default;
    for journal_state in ["running", "reopened"] {
        let journal = match journal_state {
            "running" => &journal,
            _ => {
                journal.close().await;
                &room.open()
            }
        };
        journal.flush().await.expect("written");
        let every_record = journal
            .records(any_record(), count)
            .await
            .expect("read")
            .calls;
        assert_eq!(every_record.len(), count);
        let third_start = every_record[count / 3].started_at;
        let cases: Vec<(RecordFilter, Fits)> = vec![
            (
                RecordFilter {
                    servers: one_text("fs"),
                    ..any_record()
                },
                Box::new(|r| r.target.name().starts_with("fs/")),
            ),
            (
                RecordFilter {
                    tools: one_text("read"),
                    ..any_record()
                },
                Box::new(|r| &*r.target.tool == "read"),
            ),
            (
                RecordFilter {
                    tools: one_text("db/write"),
                    ..any_record()
                },
                Box::new(|r| r.target.name() == "db/write"),
            ),
            (
                RecordFilter {
                    statuses: vec![Status::Timeout],
                    ..any_record()
                },
                Box::new(|r| r.status == Status::Timeout),
            ),
            (
                RecordFilter {
                    door: Some(Door::McpStdio),
                    ..any_record()
                },
                Box::new(|r| r.origin.door == Door::McpStdio),
            ),
            (
                RecordFilter {
                    clients: one_text("client-1"),
                    session: some_text("s2"),
                    ..any_record()
                },
                Box::new(|r| {
                    let client = r.origin.client.as_ref().expect("a client");
                    client.name == "client-1" && r.origin.session.as_deref() == Some("s2")
                }),
            ),
            (
                RecordFilter {
                    text: some_text("S/A_"),
                    ..any_record()
                },
                Box::new(|r| r.target.name() == "fs/a_b"),
            ),
            (
                RecordFilter {
                    since: Some(third_start),
                    ..any_record()
                },
                Box::new(move |r| r.started_at >= third_start),
            ),
            (
                RecordFilter {
                    until: Some(third_start),
                    servers: one_text("db"),
                    ..any_record()
                },
                Box::new(move |r| {
                    r.started_at <= third_start && r.target.name().starts_with("db/")
                }),
            ),
            (
                RecordFilter {
                    states: vec![State::Sent],
                    ..any_record()
                },
                Box::new(|r| r.status == Status::Timeout),
            ),
            (
                RecordFilter {
                    states: vec![State::Sent, State::Answered],
                    statuses: vec![Status::Ok, Status::Error],
                    tools: vec!["read".to_owned(), "fs/write".to_owned()],
                    clients: vec!["client-0".to_owned(), "client-2".to_owned()],
                    servers: vec!["fs".to_owned(), "db".to_owned()],
                    ..any_record()
                },
                Box::new(|r| {
                    let client = r.origin.client.as_ref().expect("a client");
                    let tools = &*r.target.tool == "read" || r.target.name() == "fs/write";
                    r.status == Status::Ok && tools && client.name != "client-1"
                }),
            ),
            (
                RecordFilter {
                    trace: Some(trace(1)),
                    ..any_record()
                },
                Box::new(|r| r.trace == Some(trace(1))),
            ),
            (
                RecordFilter {
                    trace: Some(trace(2)),
                    servers: one_text("fs"),
                    until: Some(third_start),
                    ..any_record()
                },
                Box::new(move |r| {
                    let is_fs = r.target.name().starts_with("fs/");
                    r.trace == Some(trace(2)) && is_fs && r.started_at <= third_start
                }),
            ),
            (
                RecordFilter {
                    trace: Some(TraceId([9; 16])),
                    ..any_record()
                },
                Box::new(|_| false),
            ),
            (
                RecordFilter {
                    states: vec![State::NotSent],
                    ..any_record()
                },
                Box::new(|_| false),
            ),
            (
                RecordFilter {
                    servers: one_text("none"),
                    ..any_record()
                },
                Box::new(|_| false),
            ),
        ];
        for (filter, is_match) in cases {
            let expected: Vec<&Record> = every_record.iter().filter(|r| is_match(r)).collect();
            let page = journal.records(filter.clone(), 50).await.expect("read");
            // A filter that must read each call counts at most one call beyond the page.
            let max_count = if filter.reads_calls() { 51 } else { count };
            let counted_records = expected.len().min(max_count);
            assert_eq!(
                page.total_count, counted_records as u64,
                "{journal_state} {filter:?}"
            );
            assert!(
                page.calls.iter().eq(expected.iter().take(50).copied()),
                "{journal_state} {filter:?}"
            );
            assert_eq!(page.truncated, expected.len() > 50);
            // The next page starts at the end of this one, with or without a count.
            let Some(next_id) = page.next else { continue };
            for uncounted in [false, true] {
                let next_filter = RecordFilter {
                    before: Some(next_id),
                    uncounted,
                    ..filter.clone()
                };
                let page = journal.records(next_filter, 50).await.expect("read");
                let next_records = expected.iter().skip(50).take(50).copied();
                assert!(page.calls.iter().eq(next_records), "{journal_state}");
                assert_eq!(page.truncated, expected.len() > 100);
                if !uncounted && !filter.reads_calls() {
                    assert_eq!(page.total_count, expected.len() as u64);
                }
            }
        }
        journal.close().await;
    }
}

/// Ended calls are packed, and running ones are not.
#[tokio::test]
async fn calls_of_a_trace_are_found_while_one_runs() {
    let room = Room::new();
    let journal = room.open();
    let call_of_trace = |number| Begun {
        trace: Some(trace(number)),
        ..new_call("{}")
    };
    call(&journal, call_of_trace(1), answered_end("{}"));
    call(&journal, call_of_trace(2), answered_end("{}"));
    call(&journal, new_call("{}"), answered_end("{}"));
    let _runs = journal.begin(call_of_trace(1));
    let _other = journal.begin(call_of_trace(2));
    let trace_filter = || RecordFilter {
        trace: Some(trace(1)),
        ..RecordFilter::default()
    };
    let traced_calls = async || {
        journal.flush().await.expect("written");
        let page = journal.records(trace_filter(), 10).await.expect("read");
        (page.calls.len() == 2).then_some(page)
    };
    let page = wait_until("both calls of the trace", traced_calls).await;
    let statuses: Vec<_> = page.calls.iter().map(|record| record.status).collect();
    assert_eq!(statuses, [Status::Open, Status::Ok]);
    assert_eq!(page.total_count, 2);
    journal.close().await;
}

/// Calls, errors, latencies and bytes are added up, including those that were not written before a
/// kill.
#[tokio::test]
async fn statistics_add_up() {
    let room = Room::new();
    let journal = room.open();
    for number in 0..100 {
        let end = match number % 10 {
            0 => failed_end(Status::Timeout, "call_timeout"),
            _ => answered_end("12345"),
        };
        call(&journal, new_call("{}"), end);
    }
    let uri = Begun {
        target: Target {
            method: "resources/read".into(),
            ..target("fs", "file:///one")
        },
        ..new_call("{}")
    };
    call(&journal, uri, answered_end("x"));
    journal.flush().await.expect("written");
    let killed_room = room.copy();
    let range = || Range {
        server: Some("fs".to_owned()),
        tool: None,
        since: SystemTime::now() - Duration::from_hours(1),
        until: SystemTime::now(),
        bucket: Duration::from_mins(5),
        by: By::Tool,
        order: None,
        limit: None,
    };
    journal.close().await;
    // Once after a close, and once after a kill.
    for room in [room, killed_room] {
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
        let bucket_calls: u64 = tools.buckets.iter().map(|bucket| bucket.calls).sum();
        assert_eq!(bucket_calls, 100);
        let mut other_range = range();
        other_range.tool = Some("write".to_owned());
        assert_eq!(journal.statistics(other_range).await.expect("read"), []);
        journal.close().await;
    }
}

async fn wait_for_statistics(journal: &Journal, range: Range) {
    let complete_series = async || {
        let series = journal.statistics(range.clone()).await.expect("read");
        (!series.is_empty()).then_some(())
    };
    wait_until("statistics", complete_series).await;
}

/// Series of servers, and of all calls, have the percentiles of all their calls. The largest series
/// come first.
#[tokio::test]
async fn series_are_merged_and_ordered() {
    let room = Room::new();
    let journal = room.open();
    for (server, tool, count, end) in [
        ("fs", "read", 40, answered_end("{}")),
        (
            "fs",
            "write",
            2,
            failed_end(Status::Timeout, "call_timeout"),
        ),
        ("db", "read", 3, failed_end(Status::Timeout, "call_timeout")),
        ("db", "ask", 20, answered_end("{}")),
    ] {
        for _ in 0..count {
            let new_call = Begun {
                target: target(server, tool),
                ..new_call("{}")
            };
            let end = Finished {
                outcome: match &end.outcome {
                    CallOutcome::Answered { .. } => answered_end("{}").outcome,
                    CallOutcome::Failed { .. } => {
                        failed_end(Status::Timeout, "call_timeout").outcome
                    }
                },
                earlier: Vec::new(),
                secrets: None,
                ..end
            };
            call(&journal, new_call, end);
        }
    }
    let range = || Range {
        server: None,
        tool: None,
        since: SystemTime::now() - Duration::from_hours(1),
        until: SystemTime::now(),
        bucket: Duration::from_mins(1),
        by: By::Tool,
        order: None,
        limit: None,
    };
    wait_until("statistics", async || {
        let whole_range = Range {
            by: By::All,
            ..range()
        };
        let series = journal.statistics(whole_range).await.expect("read");
        (series.first()?.total.calls == 65).then_some(())
    })
    .await;
    for (by, order, limit, expected) in [
        (By::All, None, None, &[("", "", 65, 5)][..]),
        (
            By::Server,
            None,
            None,
            &[("db", "", 23, 3), ("fs", "", 42, 2)],
        ),
        (
            By::Server,
            Some(Order::Calls),
            None,
            &[("fs", "", 42, 2), ("db", "", 23, 3)],
        ),
        (
            By::Server,
            Some(Order::Errors),
            Some(1),
            &[("db", "", 23, 3)],
        ),
        (
            By::Tool,
            Some(Order::Calls),
            Some(2),
            &[("fs", "read", 40, 0), ("db", "ask", 20, 0)],
        ),
    ] {
        let range = Range {
            by,
            order,
            limit,
            ..range()
        };
        let series = journal.statistics(range).await.expect("read");
        let rows: Vec<_> = series
            .iter()
            .map(|entry| {
                (
                    &*entry.server,
                    &*entry.tool,
                    entry.total.calls,
                    entry.total.errors,
                )
            })
            .collect();
        assert_eq!(rows, expected, "{by:?} {order:?}");
        for entry in &series {
            let bucket_calls: u64 = entry.buckets.iter().map(|bucket| bucket.calls).sum();
            assert_eq!(bucket_calls, entry.total.calls);
        }
    }
    let slowest = Range {
        order: Some(Order::P95),
        ..range()
    };
    let series = journal.statistics(slowest).await.expect("read");
    assert!(series.is_sorted_by(|entry, next| entry.total.p95 >= next.total.p95));
}

/// A journal of a version without states in its facets also finds calls by their states.
#[tokio::test]
async fn states_of_an_older_journal_are_found() {
    let room = Room::new();
    let journal = room.open();
    for number in 0..CHUNK_LENGTH + 10 {
        let entry = journal.begin(new_call("{}"));
        if number % 4 > 0 {
            entry.reached(State::Sent);
        }
        drop(match number % 4 {
            0 => entry.finish(failed_end(Status::Refused, "server_not_connected")),
            1 => entry.finish(failed_end(Status::Unknown, "outcome_unknown")),
            _ => entry.finish(answered_end("{}")),
        });
    }
    journal.close().await;
    let database = room.database();
    let rows: Vec<u8> = database
        .query_row("SELECT rows FROM facets WHERE chunk = 0", [], |row| {
            row.get(0)
        })
        .expect("a chunk");
    let old_bytes: Vec<u8> = rows
        .chunks(17)
        .flat_map(|row| {
            let (rest, state_byte) = row.split_at(16);
            let state_byte = if state_byte == [255] {
                255
            } else {
                state_byte[0] & 15
            };
            [rest, &[state_byte]].concat()
        })
        .collect();
    assert_ne!(rows, old_bytes);
    database
        .execute("UPDATE facets SET rows = ?", [old_bytes])
        .expect("written");
    downgrade_to_version_3(&database);
    database
        .execute_batch("DROP TABLE transitions; PRAGMA user_version = 2;")
        .expect("as it was");
    let journal = room.open();
    let every_record = all_of(&journal, RecordFilter::default()).await;
    for state in State::ALL {
        let matching_records = all_of(
            &journal,
            RecordFilter {
                states: vec![*state],
                ..RecordFilter::default()
            },
        )
        .await;
        let expected: Vec<_> = every_record
            .iter()
            .filter(|record| record.state == *state)
            .collect();
        assert!(matching_records.iter().eq(expected), "{state}");
        assert!(matching_records.len() > 500, "{state}");
    }
}

async fn all_of(journal: &Journal, filter: RecordFilter) -> Vec<Record> {
    let page = journal.records(filter, usize::MAX).await;
    page.expect("read").calls
}
