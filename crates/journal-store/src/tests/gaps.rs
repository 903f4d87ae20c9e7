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

fn take_writes(room: &Room) {
    for table in ["call_packs", "calls", "transitions", "gaps"] {
        let drop = format!("DROP TRIGGER full_{table}");
        room.database().execute_batch(&drop).expect("dropped");
    }
}

#[tokio::test]
async fn what_a_full_disk_refused_is_a_gap_and_changes_come_later() {
    let room = Room::new();
    let journal = room.open();
    let started_at = SystemTime::now();
    call(&journal, new_call("1"), answered("{}"));
    journal.flush().await.expect("written");
    refuse_writes(&room);
    for _ in 0..3 {
        call(&journal, new_call("2"), answered("{}"));
        journal.flush().await.expect_err("refused");
    }
    let server = ServerName::new("fs").expect("a name");
    let crashed = Transition {
        reason: Some("signal 9".to_owned()),
        ..Transition::now("crashed")
    };
    journal.note(server, crashed.clone(), None);
    // The outage continues.
    let answer = history(&journal, started_at).await;
    assert!(answer.servers.is_empty(), "{answer:?}");
    let [gap] = &answer.gaps[..] else {
        panic!("one gap: {answer:?}");
    };
    assert_eq!((gap.calls, gap.until), (3, None));
    assert!(gap.reason.contains("disk is full"), "{gap:?}");

    take_writes(&room);
    call(&journal, new_call("3"), answered("{}"));
    let gaps = async || {
        let answer = history(&journal, started_at).await;
        let is_over = answer.gaps.iter().any(|gap| gap.until.is_some());
        (is_over && !answer.servers.is_empty()).then_some(answer)
    };
    let answer = until("the gap and the change", gaps).await;
    assert_eq!(gap_calls(&answer.gaps), 3, "{answer:?}");
    let transitions = &answer.servers[0].transitions;
    assert_eq!(transitions.len(), 1);
    assert_eq!(transitions[0].reason, crashed.reason);
    assert_eq!(journal.counters().transitions_dropped, 0);

    let page = journal
        .records(RecordFilter::default(), 10)
        .await
        .expect("read");
    assert_eq!((page.calls.len(), gap_calls(&page.gaps)), (2, 3));
    // Neither the page before the outage nor a later period has the gap.
    let before = RecordFilter {
        before: Some(page.calls[0].id),
        ..RecordFilter::default()
    };
    let older = journal.records(before, 10).await.expect("read");
    assert_eq!((older.calls.len(), older.gaps.len()), (1, 0));
    let after = RecordFilter {
        since: Some(SystemTime::now()),
        ..RecordFilter::default()
    };
    let newer = journal.records(after, 10).await.expect("read");
    assert_eq!(newer.gaps, []);
    journal.close().await;

    let journal = room.open();
    assert_eq!(gap_calls(&history(&journal, started_at).await.gaps), 3);
    journal.close().await;
}

/// Mainstay may stop while the disk is full. The next run reports the unrecorded calls.
#[tokio::test]
async fn a_gap_that_lasts_at_the_end_is_told_by_the_next_run() {
    let room = Room::new();
    let started_at = SystemTime::now();
    for expected in [3, 6] {
        let journal = room.open();
        call(&journal, new_call("1"), answered("{}"));
        journal.flush().await.expect("written");
        refuse_writes(&room);
        for _ in 0..2 {
            call(&journal, new_call("2"), answered("{}"));
            journal.flush().await.expect_err("refused");
        }
        call(&journal, new_call("3"), answered("{}"));
        journal.close().await;
        take_writes(&room);
        // The gap is reported once.
        for _ in 0..2 {
            let journal = room.open();
            let reported = async || {
                let answer = history(&journal, started_at).await;
                (gap_calls(&answer.gaps) > 0).then_some(answer)
            };
            let answer = until("the gap", reported).await;
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
async fn what_came_before_the_journal_could_be_opened_is_a_gap() {
    use std::os::unix::fs::PermissionsExt as _;
    let room = Room::new();
    room.open().close().await;
    let mode = |mode| fs::set_permissions(room.path(), fs::Permissions::from_mode(mode));
    mode(0o777).expect("set");
    let started_at = SystemTime::now();
    let opened = open_patiently(room.folder.path(), &room.settings, Duration::ZERO);
    let journal = opened.expect("without");
    call(&journal, new_call("1"), answered("{}"));
    journal.flush().await.expect_err("lost");
    let server = ServerName::new("fs").expect("a name");
    journal.note(server, Transition::now("connected"), None);
    mode(0o700).expect("set");
    let reported = async || {
        let answer = answered_history(&journal, started_at).await.ok()?;
        let is_over = answer.gaps.iter().any(|gap| gap.until.is_some());
        (is_over && !answer.servers.is_empty()).then_some(answer)
    };
    let answer = until("the gap and the change", reported).await;
    assert_eq!(gap_calls(&answer.gaps), 1, "{answer:?}");
    journal.close().await;
}

/// Calls that are dropped because the queue is full leave a gap.
#[tokio::test]
async fn calls_that_are_dropped_are_a_gap() {
    let room = Room::new();
    let journal = room.open();
    let started_at = SystemTime::now();
    call(&journal, new_call("1"), answered("{}"));
    journal.flush().await.expect("written");
    let lock = room.database();
    lock.execute_batch("BEGIN IMMEDIATE").expect("locked");
    while journal.counters().dropped < 10 {
        call(&journal, new_call("2"), answered("{}"));
    }
    lock.execute_batch("ROLLBACK").expect("unlocked");
    let dropped = journal.counters().dropped;
    let reported = async || {
        let answer = history(&journal, started_at).await;
        (gap_calls(&answer.gaps) >= dropped).then_some(answer)
    };
    let answer = until("the gap", reported).await;
    assert_eq!(gap_calls(&answer.gaps), dropped, "{answer:?}");
    assert!(answer.gaps[0].reason.contains("too many"), "{answer:?}");
    assert_eq!(journal.counters().lost, 0);
    journal.close().await;
}
