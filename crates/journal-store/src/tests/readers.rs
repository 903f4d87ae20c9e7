//! Tests of reading a journal while another process writes it.

use super::*;

/// A separate reader returns the same records as the writer's own readers. This includes the last
/// run and the last chunk, which only the writer has in memory.
#[tokio::test]
async fn a_journal_can_be_read_beside_its_writer() {
    let room = Room::new();
    assert!(Reader::open(room.folder.path()).expect("read").is_none());
    let journal = room.open();
    assert_eq!(
        first_page(&room),
        RecordPage {
            calls: Vec::new(),
            total_count: 0,
            truncated: false,
            next: None,
            searched_back_to: None,
            gaps: Vec::new(),
        }
    );
    // Up to the end of a chunk, and beyond.
    for calls in [1, CHUNK_LENGTH - 2, 1, 1, 3] {
        for number in 0..calls {
            call(&journal, new_call(&number.to_string()), answered_end("{}"));
        }
        journal.flush().await.expect("written");
        let page = journal
            .records(RecordFilter::default(), 5)
            .await
            .expect("read");
        assert_eq!(first_page(&room), page, "{calls}");
    }
    let large = format!("{:?}", "x".repeat(INLINE_BYTES));
    call(&journal, new_call("\"small\""), answered_end(large.clone()));
    journal.flush().await.expect("written");
    let mut reader = Reader::open(room.folder.path())
        .expect("read")
        .expect("a journal");
    let page = reader
        .records(&RecordFilter::default(), 1, &|| true)
        .expect("read");
    for (payload, expected) in [
        (page.calls[0].arguments, "\"small\""),
        (page.calls[0].result, &*large),
    ] {
        let cid = payload.and_then(|payload| payload.cid).expect("kept");
        assert_eq!(reader.object(cid).expect("an object"), expected.as_bytes());
    }
    journal.close().await;
    let remaining_journal = Reader::open(room.folder.path())
        .expect("read")
        .expect("a journal");
    drop((reader, remaining_journal));
}

fn first_page(room: &Room) -> RecordPage {
    let reader = Reader::open(room.folder.path()).expect("read");
    let mut reader = reader.expect("a journal");
    reader
        .records(&RecordFilter::default(), 5, &|| true)
        .expect("read")
}

#[tokio::test]
async fn a_journal_of_a_newer_mainstay_is_not_read() {
    let room = Room::new();
    room.open().close().await;
    room.database()
        .pragma_update(None, "user_version", 99)
        .expect("set");
    let error = Reader::open(room.folder.path()).expect_err("refused");
    assert!(
        matches!(error, StoreError::Newer { found: 99, .. }),
        "{error}"
    );
}
