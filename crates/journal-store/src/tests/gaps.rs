//! Calls that are not on record leave a gap that says so, and changes of servers' statuses are written later.

use mainstay_journal::{Gap, Period, Transition};

use super::*;

fn gap_calls(gaps: &[Gap]) -> u64 {
    gaps.iter().map(|gap| gap.calls).sum()
}

async fn history(journal: &Journal, since: SystemTime) -> History {
    answered_history(journal, since).await.expect("read")
}

async fn answered_history(journal: &Journal, since: SystemTime) -> Result<History, JournalError> {
    let period = Period {
        server: None,
        since,
        until: SystemTime::now(),
        limit: 100,
    };
    journal.history(period).await
}

/// Refuses what is written, as a full disk does.
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
    let began = SystemTime::now();
    call(&journal, begun("1"), answered("{}"));
    journal.flush().await.expect("written");
    refuse_writes(&room);
    for _ in 0..3 {
        call(&journal, begun("2"), answered("{}"));
        journal.flush().await.expect_err("refused");
    }
    let server = ServerName::new("fs").expect("a name");
    let crashed = Transition {
        reason: Some("signal 9".to_owned()),
        ..Transition::now("crashed")
    };
    journal.note(server, crashed.clone(), None);
    // It lasts.
    let told = history(&journal, began).await;
    assert!(told.servers.is_empty(), "{told:?}");
    let [gap] = &told.gaps[..] else {
        panic!("one gap: {told:?}");
    };
    assert_eq!((gap.calls, gap.until), (3, None));
    assert!(gap.reason.contains("disk is full"), "{gap:?}");

    take_writes(&room);
    call(&journal, begun("3"), answered("{}"));
    let gaps = async || {
        let told = history(&journal, began).await;
        let is_over = told.gaps.iter().any(|gap| gap.until.is_some());
        (is_over && !told.servers.is_empty()).then_some(told)
    };
    let told = until("the gap and the change", gaps).await;
    assert_eq!(gap_calls(&told.gaps), 3, "{told:?}");
    let transitions = &told.servers[0].transitions;
    assert_eq!(transitions.len(), 1);
    assert_eq!(transitions[0].reason, crashed.reason);
    assert_eq!(journal.counters().transitions_dropped, 0);

    let page = journal.records(Filter::default(), 10).await.expect("read");
    assert_eq!((page.calls.len(), gap_calls(&page.gaps)), (2, 3));
    // The page before the outage has no part in it, nor has a time after it.
    let before = Filter {
        before: Some(page.calls[0].id),
        ..Filter::default()
    };
    let older = journal.records(before, 10).await.expect("read");
    assert_eq!((older.calls.len(), older.gaps.len()), (1, 0));
    let after = Filter {
        since: Some(SystemTime::now()),
        ..Filter::default()
    };
    let newer = journal.records(after, 10).await.expect("read");
    assert_eq!(newer.gaps, []);
    journal.close().await;

    let journal = room.open();
    assert_eq!(gap_calls(&history(&journal, began).await.gaps), 3);
    journal.close().await;
}

/// Mainstay may end while the disk is full: the next run says how many calls are not on record.
#[tokio::test]
async fn a_gap_that_lasts_at_the_end_is_told_by_the_next_run() {
    let room = Room::new();
    let began = SystemTime::now();
    for expected in [3, 6] {
        let journal = room.open();
        call(&journal, begun("1"), answered("{}"));
        journal.flush().await.expect("written");
        refuse_writes(&room);
        for _ in 0..2 {
            call(&journal, begun("2"), answered("{}"));
            journal.flush().await.expect_err("refused");
        }
        call(&journal, begun("3"), answered("{}"));
        journal.close().await;
        take_writes(&room);
        // It is told once.
        for _ in 0..2 {
            let journal = room.open();
            let told = async || {
                let told = history(&journal, began).await;
                (gap_calls(&told.gaps) > 0).then_some(told)
            };
            let told = until("the gap", told).await;
            assert_eq!(gap_calls(&told.gaps), expected, "{told:?}");
            assert!(told.gaps.iter().all(|gap| gap.until.is_some()), "{told:?}");
            assert!(told.gaps[0].reason.contains("disk is full"), "{told:?}");
            journal.close().await;
        }
    }
}

/// A journal that cannot be opened at first says afterwards what it missed.
#[cfg(unix)]
#[tokio::test]
async fn what_came_before_the_journal_could_be_opened_is_a_gap() {
    use std::os::unix::fs::PermissionsExt as _;
    let room = Room::new();
    room.open().close().await;
    let mode = |mode| fs::set_permissions(room.path(), fs::Permissions::from_mode(mode));
    mode(0o777).expect("set");
    let began = SystemTime::now();
    let opened = open_patiently(room.folder.path(), &room.settings, Duration::ZERO);
    let journal = opened.expect("without");
    call(&journal, begun("1"), answered("{}"));
    journal.flush().await.expect_err("lost");
    let server = ServerName::new("fs").expect("a name");
    journal.note(server, Transition::now("connected"), None);
    mode(0o700).expect("set");
    let told = async || {
        let told = answered_history(&journal, began).await.ok()?;
        let is_over = told.gaps.iter().any(|gap| gap.until.is_some());
        (is_over && !told.servers.is_empty()).then_some(told)
    };
    let told = until("the gap and the change", told).await;
    assert_eq!(gap_calls(&told.gaps), 1, "{told:?}");
    journal.close().await;
}

/// Where more calls wait than may, those that are dropped are a gap, too.
#[tokio::test]
async fn calls_that_are_dropped_are_a_gap() {
    let room = Room::new();
    let journal = room.open();
    let began = SystemTime::now();
    call(&journal, begun("1"), answered("{}"));
    journal.flush().await.expect("written");
    let lock = room.database();
    lock.execute_batch("BEGIN IMMEDIATE").expect("locked");
    while journal.counters().dropped < 10 {
        call(&journal, begun("2"), answered("{}"));
    }
    lock.execute_batch("ROLLBACK").expect("unlocked");
    let dropped = journal.counters().dropped;
    let told = async || {
        let told = history(&journal, began).await;
        (gap_calls(&told.gaps) >= dropped).then_some(told)
    };
    let told = until("the gap", told).await;
    assert_eq!(gap_calls(&told.gaps), dropped, "{told:?}");
    assert!(told.gaps[0].reason.contains("too many"), "{told:?}");
    assert_eq!(journal.counters().lost, 0);
    journal.close().await;
}
