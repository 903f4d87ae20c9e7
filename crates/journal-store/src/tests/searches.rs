//! Tests of searches of calls by text.

use super::*;

fn with_text(text: &str) -> RecordFilter {
    RecordFilter {
        text: Some(text.to_owned()),
        ..RecordFilter::default()
    }
}

fn denied(text: &str) -> Finished {
    call_end(CallOutcome::Answered {
        result: Some("{}".into()),
        error: Some(RecordError {
            kind: "tool_error".into(),
            text: text.to_owned(),
        }),
    })
}

async fn search_ids(journal: &Journal, text: &str) -> Vec<i64> {
    journal.flush().await.expect("written");
    let page = journal.records(with_text(text), 100).await.expect("read");
    assert_eq!(page.searched_back_to, None);
    page.calls.iter().map(|record| record.id.0).collect()
}

/// Searches match the name, the error and the arguments, and ignore case. They match neither the
/// result nor redacted text.
#[tokio::test]
async fn calls_are_found_by_their_errors_and_arguments() {
    let mut room = Room::new();
    room.settings.redact = Redact {
        patterns: vec!["q-[0-9]+".to_owned()],
        ..Redact::default()
    };
    let journal = room.open();
    let large = format!("\"{} needle\"", "x".repeat(INLINE_BYTES));
    call(
        &journal,
        new_call(r#"{"path":"C:\\Tmp\\ä"}"#),
        answered_end("{}"),
    );
    call(&journal, new_call("{}"), denied("Access denied - /tmp"));
    call(
        &journal,
        new_call(r#"{"password":"hunter2","id":"q-4711"}"#),
        answered_end("{}"),
    );
    call(
        &journal,
        new_call("{}"),
        failed_end(Status::Timeout, "call_timeout"),
    );
    call(
        &journal,
        new_call("{}"),
        answered_end(r#"{"said":"needle"}"#),
    );
    call(&journal, new_call(&large), answered_end("{}"));
    let other_call = Begun {
        target: target("access", "denied"),
        ..new_call("{}")
    };
    call(&journal, other_call, answered_end("{}"));
    // A running call has a separate row.
    let _runs = journal.begin(new_call(r#"{"said":"at work"}"#));
    wait_until("the open call", async || {
        journal.flush().await.expect("written");
        let open_filter = RecordFilter {
            statuses: vec![Status::Open],
            ..RecordFilter::default()
        };
        let page = journal.records(open_filter, 1).await.expect("read");
        (!page.calls.is_empty()).then_some(())
    })
    .await;
    let all_ids: Vec<i64> = (1..=8).rev().collect();
    for journal_state in ["running", "beside"] {
        for (text, expected) in [
            ("access DENIED", &[2][..]),
            ("access", &[7, 2]),
            (r"c:\tmp", &[1]),
            ("Ä", &[]),
            ("ä", &[1]),
            ("call_timeout", &[4]),
            ("went wrong", &[4]),
            ("At Work", &[8]),
            // The result, and arguments that are stored as a file.
            ("needle", &[]),
            ("hunter2", &[]),
            ("q-4711", &[]),
            ("[REDACTED]", &[3]),
            ("\"password\"", &[3]),
            ("%", &[]),
            ("", &all_ids),
        ] {
            let ids = if journal_state == "running" {
                search_ids(&journal, text).await
            } else {
                let reader = Reader::open(room.folder.path()).expect("read");
                let mut reader = reader.expect("a journal");
                let page = reader
                    .records(&with_text(text), 100, &|| true)
                    .expect("read");
                page.calls.iter().map(|record| record.id.0).collect()
            };
            assert_eq!(ids, expected, "{journal_state}: {text}");
        }
    }
    journal.close().await;
}

/// Without stored payloads, searches still find Mainstay's own errors.
#[tokio::test]
async fn unstored_payloads_are_not_found() {
    for payloads in [Payloads::Digest, Payloads::Off] {
        let mut room = Room::new();
        room.settings.payloads = payloads;
        let journal = room.open();
        call(&journal, new_call("\"needle\""), denied("a needle"));
        call(
            &journal,
            new_call("{}"),
            failed_end(Status::Timeout, "call_timeout"),
        );
        assert_eq!(search_ids(&journal, "needle").await, [0; 0]);
        assert_eq!(search_ids(&journal, "it went wrong").await, [2]);
        assert_eq!(search_ids(&journal, "tool_error").await, [1]);
        journal.close().await;
    }
}

/// Every search reads some calls. The next search continues from its end, until each call is found
/// once.
#[tokio::test]
async fn a_search_ends_in_time_and_can_continue() {
    let room = Room::new();
    let journal = room.open();
    let count = CHUNK_LENGTH * 2 + 100;
    for number in 0..count {
        let arguments = match number % 500 {
            7 => "\"needle\"".to_owned(),
            _ => format!("\"hay {}\"", number % 900),
        };
        call(&journal, new_call(&arguments), answered_end("{}"));
        if number % 1000 == 0 {
            journal.flush().await.expect("written");
        }
    }
    let all_ids = search_ids(&journal, "needle").await;
    assert_eq!(all_ids.len(), 9);
    let reader = Reader::open(room.folder.path()).expect("read");
    let mut reader = reader.expect("a journal");
    for (patience, limit) in [(Duration::ZERO, 4), (Duration::from_secs(3600), 4)] {
        reader.patience = patience;
        let (mut filter, mut found_ids, mut pages, mut cut_searches) =
            (with_text("needle"), Vec::new(), 0, 0);
        loop {
            let page = reader.records(&filter, limit, &|| true).expect("read");
            pages += 1;
            found_ids.extend(page.calls.iter().map(|record| record.id.0));
            assert_eq!(page.truncated, page.next.is_some());
            if let Some(back_to) = page.searched_back_to {
                cut_searches += 1;
                let next_id = page.next.expect("it goes on");
                let last_record = reader.record(next_id).expect("read").expect("a record");
                assert_eq!(last_record.started_at, back_to);
            }
            let Some(next_id) = page.next else { break };
            assert!(filter.before.is_none_or(|before| next_id < before));
            filter.before = Some(next_id);
        }
        assert_eq!(found_ids, all_ids, "{patience:?}");
        if patience.is_zero() {
            assert!(
                cut_searches > 100 && cut_searches >= pages - 3,
                "{cut_searches} of {pages}"
            );
        } else {
            assert_eq!((pages, cut_searches), (3, 0));
        }
    }
    // The caller has stopped waiting.
    reader.patience = Duration::from_secs(3600);
    let page = reader.records(&with_text("no such text"), 4, &|| false);
    assert!(page.expect("read").searched_back_to.is_some());
    journal.close().await;
}
