//! What lies on the disk, and for how long.

use super::*;

#[test]
fn a_newer_journal_is_left_alone() {
    let room = Room::new();
    drop(room.open());
    room.database()
        .pragma_update(None, "user_version", 99)
        .expect("set");
    let error = Journal::open(room.folder.path(), &room.settings).expect_err("refused");
    let told = error.to_string();
    assert!(
        told.contains("version 99") && told.contains("journal.db"),
        "{told}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn nobody_else_can_read_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let room = Room::new();
    let journal = room.open();
    call(
        &journal,
        begun("{}"),
        answered("z".repeat(INLINE_BYTES + 1)),
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

/// By age and by size the oldest go, with their objects and files; numbers are not given again.
#[tokio::test]
async fn the_oldest_go() {
    let mut room = Room::new();
    room.settings.max_bytes = 16 * 1024 * 1024;
    let journal = room.open();
    // 36 MB in files, a few to a run.
    let large = |number: usize| format!("{number:06}{}", "x".repeat(119_994));
    for number in 0..300 {
        call(&journal, begun("{}"), answered(large(number)));
        if number % 50 == 0 {
            journal.flush().await.expect("written");
        }
    }
    journal.flush().await.expect("written");
    let size = || {
        let walk = walk(room.folder.path());
        walk.iter().map(|(_, size)| size).sum::<u64>()
    };
    wait_until(|| size() < 24 * 1024 * 1024).await;
    let gone = Cid::of(large(0).as_bytes());
    let error = journal.object(gone).await.expect_err("gone");
    assert!(matches!(error, JournalError::NoSuchObject(_)), "{error}");
    // Every record that is left has its objects.
    let records = all(&journal).await;
    for record in &records {
        let cid = record.result.expect("a result").cid.expect("kept");
        // Unless it went meanwhile.
        if journal.object(cid).await.is_err() {
            let gone = journal.record(record.id).await.expect("read");
            assert_eq!(gone, None);
        }
    }
    journal.close().await;

    // Everything is too old now.
    room.database()
        .execute("UPDATE calls SET started_at = 0", [])
        .expect("aged");
    let journal = room.open();
    call(&journal, begun("{}"), answered("new"));
    let mut left = all(&journal).await;
    while left.len() > 1 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        left = all(&journal).await;
    }
    assert!(left[0].id > RecordId(300), "{:?}", left[0].id);
    journal.close().await;
}

async fn wait_until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
