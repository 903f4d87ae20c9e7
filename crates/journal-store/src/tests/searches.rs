//! Searches of calls by text.

use super::*;

fn with_text(text: &str) -> RecordFilter {
    RecordFilter {
        text: Some(text.to_owned()),
        ..RecordFilter::default()
    }
}

fn denied(text: &str) -> Finished {
    finished(CallOutcome::Answered {
        result: Some("{}".into()),
        error: Some(RecordError {
            kind: "tool_error".into(),
            text: text.to_owned(),
        }),
    })
}

async fn found(journal: &Journal, text: &str) -> Vec<i64> {
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
        answered("{}"),
    );
    call(&journal, new_call("{}"), denied("Access denied - /tmp"));
    call(
        &journal,
        new_call(r#"{"password":"hunter2","id":"q-4711"}"#),
        answered("{}"),
    );
    call(
        &journal,
        new_call("{}"),
        failed(Status::Timeout, "call_timeout"),
    );
    call(&journal, new_call("{}"), answered(r#"{"said":"needle"}"#));
    call(&journal, new_call(&large), answered("{}"));
    let other = Begun {
        target: target("access", "denied"),
        ..new_call("{}")
    };
    call(&journal, other, answered("{}"));
    // A running call has a separate row.
    let _runs = journal.begin(new_call(r#"{"said":"at work"}"#));
    until("the open call", async || {
        journal.flush().await.expect("written");
        let open = RecordFilter {
            statuses: vec![Status::Open],
            ..RecordFilter::default()
        };
        let page = journal.records(open, 1).await.expect("read");
        (!page.calls.is_empty()).then_some(())
    })
    .await;
    let everything: Vec<i64> = (1..=8).rev().collect();
    for turn in ["running", "beside"] {
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
            ("", &everything),
        ] {
            let ids = if turn == "running" {
                found(&journal, text).await
            } else {
                let reader = Reader::open(room.folder.path()).expect("read");
                let mut reader = reader.expect("a journal");
                let page = reader
                    .records(&with_text(text), 100, &|| true)
                    .expect("read");
                page.calls.iter().map(|record| record.id.0).collect()
            };
            assert_eq!(ids, expected, "{turn}: {text}");
        }
    }
    journal.close().await;
}

/// Without stored payloads, searches still find Mainstay's own errors.
#[tokio::test]
async fn what_is_not_kept_is_not_found() {
    for payloads in [Payloads::Digest, Payloads::Off] {
        let mut room = Room::new();
        room.settings.payloads = payloads;
        let journal = room.open();
        call(&journal, new_call("\"needle\""), denied("a needle"));
        call(
            &journal,
            new_call("{}"),
            failed(Status::Timeout, "call_timeout"),
        );
        assert_eq!(found(&journal, "needle").await, [0; 0]);
        assert_eq!(found(&journal, "it went wrong").await, [2]);
        assert_eq!(found(&journal, "tool_error").await, [1]);
        journal.close().await;
    }
}

/// Every search reads some calls, and the next one continues from its end, until each call is found
/// once.
#[tokio::test]
async fn a_search_ends_in_time_and_can_go_on() {
    let room = Room::new();
    let journal = room.open();
    let count = CHUNK * 2 + 100;
    for number in 0..count {
        let arguments = match number % 500 {
            7 => "\"needle\"".to_owned(),
            _ => format!("\"hay {}\"", number % 900),
        };
        call(&journal, new_call(&arguments), answered("{}"));
        if number % 1000 == 0 {
            journal.flush().await.expect("written");
        }
    }
    let all = found(&journal, "needle").await;
    assert_eq!(all.len(), 9);
    let reader = Reader::open(room.folder.path()).expect("read");
    let mut reader = reader.expect("a journal");
    for (patience, limit) in [(Duration::ZERO, 4), (Duration::from_secs(3600), 4)] {
        reader.patience = patience;
        let (mut filter, mut found_ids, mut pages, mut cut) =
            (with_text("needle"), Vec::new(), 0, 0);
        loop {
            let page = reader.records(&filter, limit, &|| true).expect("read");
            pages += 1;
            found_ids.extend(page.calls.iter().map(|record| record.id.0));
            assert_eq!(page.truncated, page.next.is_some());
            if let Some(back_to) = page.searched_back_to {
                cut += 1;
                let next = page.next.expect("it goes on");
                let last = reader.record(next).expect("read").expect("a record");
                assert_eq!(last.started_at, back_to);
            }
            let Some(next) = page.next else { break };
            assert!(filter.before.is_none_or(|before| next < before));
            filter.before = Some(next);
        }
        assert_eq!(found_ids, all, "{patience:?}");
        if patience.is_zero() {
            assert!(cut > 100 && cut >= pages - 3, "{cut} of {pages}");
        } else {
            assert_eq!((pages, cut), (3, 0));
        }
    }
    // The caller has stopped waiting.
    reader.patience = Duration::from_secs(3600);
    let page = reader.records(&with_text("no such text"), 4, &|| false);
    assert!(page.expect("read").searched_back_to.is_some());
    journal.close().await;
}
