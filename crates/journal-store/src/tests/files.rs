//! Tests of files, their sizes on the disk, and retention.

use super::*;

#[test]
fn a_newer_journal_stays_unchanged() {
    let room = Room::new();
    drop(room.open());
    room.database()
        .pragma_update(None, "user_version", 99)
        .expect("set");
    let error = open(room.folder.path(), &room.settings).expect_err("refused");
    let text = error.to_string();
    assert!(
        text.contains("version 99") && text.contains("journal.db"),
        "{text}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn no_other_user_can_read_the_journal() {
    use std::os::unix::fs::PermissionsExt as _;
    let room = Room::new();
    let journal = room.open();
    call(
        &journal,
        new_call("{}"),
        answered_end("z".repeat(INLINE_BYTES + 1)),
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

/// The oldest calls are deleted by age and by size, with their objects and files. Ids are not used
/// again.
#[tokio::test]
async fn the_oldest_calls_are_deleted() {
    let mut room = Room::new();
    room.settings.max_bytes = 16 * 1024 * 1024;
    let journal = room.open();
    // 36 MB in files, with a few files in each run.
    let large = |number: usize| format!("{number:06}{}", "x".repeat(119_994));
    for number in 0..300 {
        call(&journal, new_call("{}"), answered_end(large(number)));
        if number % 50 == 0 {
            journal.flush().await.expect("written");
        }
    }
    journal.flush().await.expect("written");
    let size = || {
        let files = walk(room.folder.path());
        files.iter().map(|(_, size)| size).sum::<u64>()
    };
    let is_small = async || (size() < 24 * 1024 * 1024).then_some(());
    wait_until("a journal of the size that was asked for", is_small).await;
    let first_cid = Cid::for_content(large(0).as_bytes());
    let error = journal.object(first_cid).await.expect_err("gone");
    assert!(matches!(error, JournalError::NoSuchObject(_)), "{error}");
    // Every remaining record has its objects.
    let records = all_records(&journal).await;
    for record in &records {
        let cid = record.result.expect("a result").cid.expect("kept");
        // A retention step may have deleted the record.
        if journal.object(cid).await.is_err() {
            let deleted_record = journal.record(record.id).await.expect("read");
            assert_eq!(deleted_record, None);
        }
    }
    journal.close().await;

    // All calls exceed the retention now.
    let retried_end = Finished {
        attempts: 2,
        earlier: vec![attempt()],
        ..answered_end("{}")
    };
    let journal = room.open();
    call(&journal, new_call("{}"), retried_end);
    journal.flush().await.expect("written");
    journal.close().await;
    let database = room.database();
    let mut packer = CallPacker::default();
    for call in take_calls(&database) {
        let aged_call = CallRow {
            started_at: 0,
            ..call
        };
        packer.push(&database, &aged_call).expect("aged");
    }
    packer.write(&database).expect("aged");
    let journal = room.open();
    call(&journal, new_call("{}"), answered_end("new"));
    let last_record = async || {
        Some(all_records(&journal).await).filter(|remaining_records| remaining_records.len() == 1)
    };
    let remaining_records = wait_until("what is not too old, alone", last_record).await;
    assert!(
        remaining_records[0].id > RecordId(301),
        "{:?}",
        remaining_records[0].id
    );
    journal.close().await;
    let query = "SELECT count(*) FROM attempts";
    let attempts: i64 = room
        .database()
        .query_row(query, [], |row| row.get(0))
        .expect("a table");
    assert_eq!(attempts, 0);
}

/// The clock was 40 days behind for a while. Calls of that time are retained as long as earlier
/// calls.
#[tokio::test]
async fn calls_with_a_wrong_date_stay() {
    let room = Room::new();
    let journal = room.open();
    for number in 0..3 {
        call(&journal, new_call("{}"), answered_end(number.to_string()));
        journal.flush().await.expect("written");
    }
    journal.close().await;
    let database = room.database();
    for call in take_calls(&database) {
        let delay = if call.id == 2 {
            40 * 24 * 3_600_000_000
        } else {
            0
        };
        let dated_call = CallRow {
            started_at: call.started_at - delay,
            ..call
        };
        dated_call.insert(&database).expect("dated");
    }
    drop(database);
    let journal = room.open();
    call(&journal, new_call("{}"), answered_end("new"));
    journal.flush().await.expect("written");
    journal.close().await;
    let journal = room.open();
    let remaining_ids: Vec<RecordId> = all_records(&journal)
        .await
        .iter()
        .map(|record| record.id)
        .collect();
    assert_eq!(remaining_ids, [4, 3, 2, 1].map(RecordId));
    journal.close().await;
}

/// Under any load, the journal uses less than twice its bound on the disk.
#[tokio::test]
async fn the_journal_uses_less_than_twice_its_bound() {
    let mut room = Room::new();
    room.settings.max_bytes = 16 * 1024 * 1024;
    let journal = room.open();
    let bound = 2 * room.settings.max_bytes;
    // Payloads for the database, for files, and too large for both.
    let sizes = [(300, 100), (40, 60_000), (10, 300_000), (1, 5_000_000)];
    let mut number = 0;
    for _ in 0..12 {
        for (count, size) in sizes {
            for _ in 0..count {
                number += 1;
                let result = format!("{number:08}{}", "x".repeat(size));
                call(&journal, new_call("{}"), answered_end(result));
            }
        }
        journal.flush().await.expect("written");
        let size: u64 = walk(room.folder.path()).iter().map(|(_, size)| size).sum();
        assert!(size <= bound, "{size} bytes after {number} calls");
    }
    let records = all_records(&journal).await;
    let is_stored = async |record: &Record| {
        let cid = record.result.expect("a result").cid.expect("an identifier");
        journal.object(cid).await.is_ok()
    };
    assert!(!is_stored(&records[0]).await, "it is larger than a quarter");
    assert!(is_stored(&records[1]).await);
    journal.close().await;
}

/// Content that recurs much later is a new object with the same file. The journal's size includes
/// the file once.
#[test]
fn a_file_counts_once() {
    let mut room = Room::new();
    // With this bound, objects are reused only within 128 KiB.
    room.settings.max_bytes = 4 * 1024 * 1024;
    create_private_dir(&room.path()).expect("a folder");
    let mut database =
        Database::open(&room.path(), &room.settings, Published::default()).expect("opened");
    let mut counted_bytes = 0;
    for number in 0..40 {
        let text = format!("{}{}", number % 5, "x".repeat(INLINE_BYTES));
        database.begin().expect("begun");
        let mut batch = Batch::new(&mut database).expect("a batch");
        let Begun { origin, target, .. } = new_call("{}");
        let keep = Keep {
            text: text.into(),
            origin,
            target,
            secrets: None,
            waiter: tokio::sync::oneshot::channel().0,
        };
        batch.keep(&keep).expect("kept");
        counted_bytes += batch.settle().expect("settled");
        database.commit().expect("committed");
    }
    let files = walk(&room.path().join("objects"));
    assert_eq!(files.len(), 5);
    let sizes: u64 = files.iter().map(|(_, size)| size).sum();
    assert_eq!(counted_bytes, sizes);
}

/// A call that was still open at the end of the retention is deleted, and its neighbours are not.
#[tokio::test]
async fn the_end_of_a_deleted_open_call_is_harmless() {
    let room = Room::new();
    let journal = room.open();
    let open_entry = journal.begin(new_call("{}"));
    wait_until("a record of an open call", async || {
        all_records(&journal).await.pop()
    })
    .await;
    for _ in 0..CHUNK_LENGTH {
        call(&journal, new_call("{}"), answered_end("{}"));
    }
    journal.flush().await.expect("written");
    let killed_room = room.copy();
    killed_room
        .database()
        .execute("DELETE FROM calls WHERE status = ?", [Status::Open.code()])
        .expect("gone");
    drop(open_entry);
    journal.close().await;
    let journal = killed_room.open();
    let page = journal
        .records(RecordFilter::default(), 1)
        .await
        .expect("read");
    assert_eq!(page.calls[0].status, Status::Ok);
    journal.close().await;
}

/// A journal that cannot be opened counts its lost calls. Once it can be opened, calls are
/// recorded.
#[cfg(unix)]
#[tokio::test]
async fn an_unusable_journal_is_opened_later() {
    use std::os::unix::fs::PermissionsExt as _;
    let room = Room::new();
    room.open().close().await;
    let mode = |mode| fs::set_permissions(room.path(), fs::Permissions::from_mode(mode));
    mode(0o777).expect("set");
    let journal = open_patiently(room.folder.path(), &room.settings, Duration::ZERO);
    let journal = journal.expect("without");
    call(&journal, new_call("1"), answered_end("{}"));
    journal.flush().await.expect_err("lost");
    assert_eq!(journal.counters().lost, 1);
    assert!(!journal.is_recording());
    let unread_page = journal.records(RecordFilter::default(), 1).await;
    let error = unread_page.expect_err("no journal");
    assert!(matches!(error, JournalError::Absent(_)), "{error}");

    mode(0o700).expect("set");
    call(&journal, new_call("2"), answered_end("{}"));
    let records = all_records(&journal).await;
    assert_eq!(records.len(), 1);
    assert!(journal.is_recording());
    journal.close().await;
}

type Loss = fn(&Room);

/// Ways to lose the journal's files while it is open.
const LOSSES: [(&str, Loss); 6] = [
    ("folder removed", |room| {
        fs::remove_dir_all(room.path()).expect("removed");
    }),
    ("folder renamed", |room| {
        fs::rename(room.path(), room.folder.path().join("elsewhere")).expect("renamed");
    }),
    ("database removed", |room| {
        fs::remove_file(room.path().join("journal.db")).expect("removed");
    }),
    ("log removed", |room| {
        for name in ["journal.db-wal", "journal.db-shm"] {
            fs::remove_file(room.path().join(name)).expect("removed");
        }
    }),
    ("database cut", |room| {
        let path = room.path().join("journal.db");
        let file = fs::OpenOptions::new().write(true).open(path);
        file.expect("there").set_len(0).expect("cut");
    }),
    ("state directory removed", |room| {
        fs::remove_dir_all(room.folder.path()).expect("removed");
    }),
];

/// A strict journal refuses calls whose writes would go to removed files.
#[tokio::test]
async fn a_lost_strict_journal_refuses_calls() {
    for (loss, cause_loss) in LOSSES {
        let room = Room::strict();
        let journal = room.open();
        call(&journal, new_call("{}"), answered_end("1"));
        journal.flush().await.expect("written");
        cause_loss(&room);
        for _ in 0..3 {
            let entry = journal.begin(new_call("{}"));
            entry.intent().await.expect_err(loss);
            assert!(!journal.is_recording(), "{loss}");
        }
        assert_eq!(journal.counters().recorded, 1, "{loss}");
        journal.close().await;
    }
    // Like above, but the files come back.
    let room = Room::strict();
    let journal = room.open();
    call(&journal, new_call("{}"), answered_end("1"));
    journal.flush().await.expect("written");
    let moved_path = room.folder.path().join("aside");
    fs::rename(room.path(), &moved_path).expect("renamed");
    let refused_entry = journal.begin(new_call("{}"));
    refused_entry.intent().await.expect_err("gone");
    fs::rename(&moved_path, room.path()).expect("renamed");
    let entry = journal.begin(new_call("{}"));
    entry.intent().await.expect("it is back");
    assert!(journal.is_recording());
    drop(entry);
    journal.close().await;
}

/// A new journal replaces a relaxed one, and each call is recorded or counted as lost.
#[tokio::test]
async fn a_lost_relaxed_journal_is_replaced() {
    for (loss, cause_loss) in LOSSES {
        let room = Room::new();
        let journal = room.open();
        for number in 0..5 {
            call(&journal, new_call("{}"), answered_end(number.to_string()));
        }
        let count_before = all_records(&journal).await.len();
        assert_eq!(count_before, 5);
        cause_loss(&room);
        for number in 5..15 {
            call(&journal, new_call("{}"), answered_end(number.to_string()));
        }
        journal.flush().await.expect(loss);
        assert!(journal.is_recording(), "{loss}");
        let counters = journal.counters();
        assert_eq!(counters.recorded + counters.lost, 15, "{loss}");
        let read_count = all_records(&journal).await.len();
        let readable_calls = if loss == "log removed" { 5 } else { 0 };
        assert_eq!(
            read_count as u64 + counters.lost,
            10 + readable_calls,
            "{loss}"
        );
        journal.close().await;
        let journal = room.open();
        assert_eq!(all_records(&journal).await.len(), read_count, "{loss}");
        journal.close().await;
    }
}

/// A database stays the same journal after another program vacuumed it.
#[tokio::test]
async fn a_vacuumed_journal_continues() {
    let room = Room::strict();
    let journal = room.open();
    for number in 0..200 {
        let result = answered_end("x".repeat(2000) + &number.to_string());
        call(&journal, new_call("{}"), result);
    }
    journal.close().await;
    let journal = room.open();
    let length = || {
        fs::metadata(room.path().join("journal.db"))
            .expect("there")
            .len()
    };
    let length_before = length();
    room.database()
        .execute_batch("DELETE FROM packs; VACUUM; PRAGMA wal_checkpoint(TRUNCATE)")
        .expect("vacuumed");
    assert!(length() < length_before, "{length_before}");
    let entry = journal.begin(new_call("{}"));
    entry.intent().await.expect("on record");
    assert!(journal.is_recording());
    drop(entry);
    journal.close().await;
}

/// An overwritten database is set aside, even if a later commit succeeds.
#[tokio::test]
async fn an_overwritten_journal_is_replaced() {
    let room = Room::new();
    let journal = room.open();
    for number in 0..200 {
        call(
            &journal,
            new_call("{}"),
            answered_end("x".repeat(2000) + &number.to_string()),
        );
    }
    journal.flush().await.expect("written");
    journal.close().await;
    let journal = room.open();
    let path = room.path().join("journal.db");
    let length = fs::metadata(&path).expect("there").len();
    fs::write(&path, vec![0x5a; usize::try_from(length).expect("small")]).expect("overwritten");
    for number in 0..50 {
        call(&journal, new_call("{}"), answered_end(number.to_string()));
        // Either flush may detect the damage.
        journal.flush().await.ok();
    }
    let counters = journal.counters();
    assert_eq!(counters.recorded + counters.lost, 50, "{counters:?}");
    assert!(journal.is_recording());
    assert!(all_records(&journal).await.len() as u64 + counters.lost >= 50);
    let entries = fs::read_dir(room.folder.path()).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let is_aside =
        |name: &std::ffi::OsString| name.to_string_lossy().starts_with("journal-damaged-");
    assert_eq!(names.filter(is_aside).count(), 1);
    journal.close().await;
}
