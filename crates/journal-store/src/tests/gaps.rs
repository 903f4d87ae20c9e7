//! Tests of gaps: calls without a record leave a gap, and status changes are written later.

use mainstay_journal::{Gap, Period, Transition};

use super::*;

fn gap_calls(gaps: &[Gap]) -> u64 {
    gaps.iter().map(|gap| gap.calls).sum()
}

async fn history(journal: &Journal, since: SystemTime) -> JournalHistory {
    answered_history(journal, since).await.expect("read")
}

async fn answered_history(
    journal: &Journal,
    since: SystemTime,
) -> Result<JournalHistory, JournalError> {
    let period = Period {
        server: None,
        since,
        until: SystemTime::now(),
        limit: 100,
    };
    journal.history(period).await
}

/// Refuses writes, like a full disk.
fn refuse_writes(room: &Room) {
    for table in ["call_packs", "calls", "transitions", "gaps"] {
        let trigger = format!(
            "CREATE TRIGGER full_{table} BEFORE INSERT ON {table}
             BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
        );
        room.database().execute_batch(&trigger).expect("made");
    }
}

fn accept_writes(room: &Room) {
    for table in ["call_packs", "calls", "transitions", "gaps"] {
        let drop = format!("DROP TRIGGER full_{table}");
        room.database().execute_batch(&drop).expect("dropped");
    }
}

#[tokio::test]
async fn a_full_disk_causes_a_gap_and_delays_status_changes() {
    let room = Room::new();
    let journal = room.open();
    let started_at = SystemTime::now();
    call(&journal, new_call("1"), answered_end("{}"));
    journal.flush().await.expect("written");
    refuse_writes(&room);
    for _ in 0..3 {
        call(&journal, new_call("2"), answered_end("{}"));
        journal.flush().await.expect_err("refused");
    }
    let server = ServerName::new("fs").expect("a name");
    let crash = Transition {
        reason: Some("signal 9".to_owned()),
        ..Transition::now("crashed")
    };
    journal.note(server, crash.clone(), None);
    // The outage continues.
    let answer = history(&journal, started_at).await;
    assert!(answer.servers.is_empty(), "{answer:?}");
    let [gap] = &answer.gaps[..] else {
        panic!("one gap: {answer:?}");
    };
    assert_eq!((gap.calls, gap.until), (3, None));
    assert!(gap.reason.contains("disk is full"), "{gap:?}");

    accept_writes(&room);
    call(&journal, new_call("3"), answered_end("{}"));
    let gaps = async || {
        let answer = history(&journal, started_at).await;
        let is_over = answer.gaps.iter().any(|gap| gap.until.is_some());
        (is_over && !answer.servers.is_empty()).then_some(answer)
    };
    let answer = wait_until("the gap and the change", gaps).await;
    assert_eq!(gap_calls(&answer.gaps), 3, "{answer:?}");
    let transitions = &answer.servers[0].transitions;
    assert_eq!(transitions.len(), 1);
    assert_eq!(transitions[0].reason, crash.reason);
    assert_eq!(journal.counters().transitions_dropped, 0);

    let page = journal
        .records(RecordFilter::default(), 10)
        .await
        .expect("read");
    assert_eq!((page.calls.len(), gap_calls(&page.gaps)), (2, 3));
    // Neither the page before the outage nor a later period has the gap.
    let filter_before = RecordFilter {
        before: Some(page.calls[0].id),
        ..RecordFilter::default()
    };
    let older_page = journal.records(filter_before, 10).await.expect("read");
    assert_eq!((older_page.calls.len(), older_page.gaps.len()), (1, 0));
    let filter_after = RecordFilter {
        since: Some(SystemTime::now()),
        ..RecordFilter::default()
    };
    let newer_page = journal.records(filter_after, 10).await.expect("read");
    assert_eq!(newer_page.gaps, []);
    journal.close().await;

    let journal = room.open();
    assert_eq!(gap_calls(&history(&journal, started_at).await.gaps), 3);
    journal.close().await;
}

/// Mainstay may stop while the disk is full. The next run reports the unrecorded calls.
#[tokio::test]
async fn the_next_run_reports_an_open_gap() {
    let room = Room::new();
    let started_at = SystemTime::now();
    for expected in [3, 6] {
        let journal = room.open();
        call(&journal, new_call("1"), answered_end("{}"));
        journal.flush().await.expect("written");
        refuse_writes(&room);
        for _ in 0..2 {
            call(&journal, new_call("2"), answered_end("{}"));
            journal.flush().await.expect_err("refused");
        }
        call(&journal, new_call("3"), answered_end("{}"));
        journal.close().await;
        accept_writes(&room);
        // The gap is reported once.
        for _ in 0..2 {
            let journal = room.open();
            let reported_gap = async || {
                let answer = history(&journal, started_at).await;
                (gap_calls(&answer.gaps) > 0).then_some(answer)
            };
            let answer = wait_until("the gap", reported_gap).await;
            assert_eq!(gap_calls(&answer.gaps), expected, "{answer:?}");
            assert!(
                answer.gaps.iter().all(|gap| gap.until.is_some()),
                "{answer:?}"
            );
            assert!(answer.gaps[0].reason.contains("disk is full"), "{answer:?}");
            journal.close().await;
        }
    }
}

/// A journal that could not be opened at first reports the missing calls.
#[cfg(unix)]
#[tokio::test]
async fn calls_before_the_opening_of_the_journal_are_a_gap() {
    use std::os::unix::fs::PermissionsExt as _;
    let room = Room::new();
    room.open().close().await;
    let mode = |mode| fs::set_permissions(room.path(), fs::Permissions::from_mode(mode));
    mode(0o777).expect("set");
    let started_at = SystemTime::now();
    let journal = open_patiently(room.folder.path(), &room.settings, Duration::ZERO);
    let journal = journal.expect("without");
    call(&journal, new_call("1"), answered_end("{}"));
    journal.flush().await.expect_err("lost");
    let server = ServerName::new("fs").expect("a name");
    journal.note(server, Transition::now("connected"), None);
    mode(0o700).expect("set");
    let reported_gap = async || {
        let answer = answered_history(&journal, started_at).await.ok()?;
        let is_over = answer.gaps.iter().any(|gap| gap.until.is_some());
        (is_over && !answer.servers.is_empty()).then_some(answer)
    };
    let answer = wait_until("the gap and the change", reported_gap).await;
    assert_eq!(gap_calls(&answer.gaps), 1, "{answer:?}");
    journal.close().await;
}

/// Calls that are dropped because the queue is full leave a gap.
#[tokio::test]
async fn dropped_calls_are_a_gap() {
    let room = Room::new();
    let journal = room.open();
    let started_at = SystemTime::now();
    call(&journal, new_call("1"), answered_end("{}"));
    journal.flush().await.expect("written");
    let lock = room.database();
    lock.execute_batch("BEGIN IMMEDIATE").expect("locked");
    while journal.counters().dropped < 10 {
        call(&journal, new_call("2"), answered_end("{}"));
    }
    lock.execute_batch("ROLLBACK").expect("unlocked");
    let dropped_calls = journal.counters().dropped;
    let reported_gap = async || {
        let answer = history(&journal, started_at).await;
        (gap_calls(&answer.gaps) >= dropped_calls).then_some(answer)
    };
    let answer = wait_until("the gap", reported_gap).await;
    assert_eq!(gap_calls(&answer.gaps), dropped_calls, "{answer:?}");
    assert!(answer.gaps[0].reason.contains("too many"), "{answer:?}");
    assert_eq!(journal.counters().lost, 0);
    journal.close().await;
}
