//! What calls brought and took, by its content.

use super::*;

/// The same content is one object, within a run and in the next ones, and after a restart.
#[tokio::test]
async fn content_is_stored_once() {
    let room = Room::new();
    let journal = room.open();
    for _ in 0..100 {
        call(&journal, begun("{}"), answered("the same"));
    }
    let large = "x".repeat(INLINE_BYTES + 1);
    call(&journal, begun("{}"), answered(large.clone()));
    journal.close().await;
    let journal = room.open();
    call(&journal, begun("{}"), answered("the same"));
    call(&journal, begun("{}"), answered(large.clone()));
    let records = all(&journal).await;
    assert_eq!(records.len(), 103);
    let objects: i64 = room
        .database()
        .query_row("SELECT sum(count) FROM packs", [], |row| row.get(0))
        .expect("counted");
    assert_eq!(objects, 3);
    let cid = records[0].result.expect("a result").cid.expect("kept");
    let (slice, size) = journal.object_slice(cid, 10, 5).await.expect("read");
    assert_eq!((&slice[..], size), (&b"xxxxx"[..], large.len() as u64));
    let (end, _) = journal
        .object_slice(cid, size - 2, 100)
        .await
        .expect("read");
    assert_eq!(end, b"xx");
    let (beyond, _) = journal.object_slice(cid, size + 5, 1).await.expect("read");
    assert_eq!(beyond, b"");
    journal.close().await;
}

/// L6: content that does not fit its identifier is not handed out.
#[tokio::test]
async fn damage_is_told() {
    let room = Room::new();
    let journal = room.open();
    call(
        &journal,
        begun("{}"),
        answered("y".repeat(INLINE_BYTES + 1)),
    );
    call(&journal, begun("[1]"), answered("small"));
    let records = all(&journal).await;
    let small = records[0].result.expect("a result").cid.expect("kept");
    let large = records[1].result.expect("a result").cid.expect("kept");
    let database = room.database();
    let mut packs = database
        .prepare("SELECT first, objects FROM packs")
        .expect("packs");
    let packs: Vec<(i64, Vec<u8>)> = packs
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .and_then(Iterator::collect)
        .expect("read");
    for (first, mut pack) in packs {
        let Some(at) = memchr::memmem::find(&pack, b"small") else {
            continue;
        };
        pack[at + 2] = b'e';
        database
            .execute(
                "UPDATE packs SET objects = ? WHERE first = ?",
                (pack, first),
            )
            .expect("damaged");
    }
    let error = journal.object(small).await.expect_err("damaged");
    assert!(matches!(error, JournalError::Damaged(cid) if cid == small));
    let name = large.to_string();
    let file = room
        .path()
        .join("objects")
        .join(&name[name.len() - 2..])
        .join(&name);
    let mut bytes = fs::read(&file).expect("a file");
    bytes[100] = b'z';
    fs::write(&file, bytes).expect("damaged");
    let error = journal.object_slice(large, 0, 10).await;
    assert!(matches!(error, Err(JournalError::Damaged(_))));
    let unknown = Cid::of(b"never seen");
    let error = journal.object(unknown).await.expect_err("unknown");
    assert!(matches!(error, JournalError::NoSuchObject(_)), "{error}");
    journal.close().await;
}

#[tokio::test]
async fn payloads_are_kept_as_far_as_they_may_be() {
    for (payloads, kept) in [(Payloads::Digest, true), (Payloads::Off, false)] {
        let mut room = Room::new();
        room.settings.payloads = payloads;
        let journal = room.open();
        call(
            &journal,
            begun("secret arguments"),
            answered("secret result"),
        );
        let records = all(&journal).await;
        let arguments = records[0].arguments.expect("a size");
        assert_eq!(arguments.size, 16);
        assert_eq!(arguments.cid.is_some(), kept);
        if let Some(cid) = arguments.cid {
            let error = journal.object(cid).await.expect_err("not kept");
            assert!(matches!(error, JournalError::NotKept(_)), "{error}");
        }
        journal.close().await;
        let bytes = fs::read(room.path().join("journal.db")).expect("read");
        assert!(memchr::memmem::find(&bytes, b"secret").is_none());
    }
}

/// What is kept beside the records is redacted as they are, and the same object.
#[tokio::test]
async fn a_text_can_be_kept_for_more_than_a_record() {
    let mut room = Room::new();
    room.settings.redact.patterns = vec!["ghp_[a-z]+".to_owned()];
    let journal = room.open();
    let result = r#"{"token":"ghp_abc"}"#;
    call(&journal, begun("{}"), answered(result));
    let cid = journal.keep(result.into()).await.expect("kept");
    let hidden = r#"{"token":"[redacted]"}"#;
    assert_eq!(text(&journal, Some(cid)).await, hidden);
    let record = &all(&journal).await[0];
    assert_eq!(record.result.and_then(|it| it.cid), Some(cid));
    let alone = journal.keep("alone".into()).await.expect("kept");
    assert_eq!(text(&journal, Some(alone)).await, "alone");
    journal.close().await;
    let error = journal.keep("too late".into()).await;
    assert!(error.is_err(), "{error:?}");
}

/// What is hidden is neither in the database nor in the hash.
#[tokio::test]
async fn secrets_are_taken_out_before_they_are_hashed() {
    let mut room = Room::new();
    room.settings.redact = Redact {
        keys: vec!["password".to_owned()],
        patterns: vec!["ghp_[a-z]+".to_owned()],
    };
    let journal = room.open();
    call(
        &journal,
        begun(r#"{"n":1.10,"Password":"hush","x":["ghp_abc"]}"#),
        answered("{}"),
    );
    let records = all(&journal).await;
    let cid = records[0].arguments.expect("arguments").cid;
    let hidden = r#"{"n":1.10,"Password":"[redacted]","x":["[redacted]"]}"#;
    assert_eq!(text(&journal, cid).await, hidden);
    assert_eq!(cid, Some(Cid::of(hidden.as_bytes())));

    // What went wrong may say them, too, and what was asked for.
    let uri = Begun {
        target: target("fs", "file:///ghp_abc"),
        ..begun("{}")
    };
    let said = |error: &str| Outcome::Answered {
        result: Some("{}".into()),
        error: Some(RecordError {
            kind: "tool_error".into(),
            text: error.to_owned(),
        }),
    };
    call(&journal, uri, finished(said("no ghp_abc here")));
    let record = all(&journal).await.remove(0);
    assert_eq!(&*record.target.tool, "file:///[redacted]");
    assert_eq!(record.error.expect("an error").text, "no [redacted] here");
    journal.close().await;

    // Where results are not kept, what they say went wrong is not.
    for (payloads, kept) in [
        (Payloads::Full, "words"),
        (Payloads::Digest, ""),
        (Payloads::Off, ""),
    ] {
        let mut room = Room::new();
        room.settings.payloads = payloads;
        let journal = room.open();
        call(&journal, begun("{}"), finished(said("words")));
        let error = all(&journal).await.remove(0).error.expect("an error");
        assert_eq!((&*error.kind, &*error.text), ("tool_error", kept));
        journal.close().await;
    }
}

/// Objects are found by their content in every run and in the one that is not complete, also when
/// the journal was closed where a run and a chunk of calls end.
#[tokio::test]
async fn objects_are_found_in_every_run() {
    let room = Room::new();
    let mut journal = room.open();
    let content = |number: i64| format!("content {number}");
    // The first number is 1, and the result is an object, too.
    let run = RUN - 2;
    for number in 0..run + 2000 {
        if number == run {
            call(&journal, begun(&content(0)), answered("{}"));
            journal.close().await;
            journal = room.open();
        }
        call(&journal, begun(&content(number)), answered("{}"));
        // So that a run turns in the middle of a commit, and none waits for long.
        if number % 5000 == 0 {
            journal.flush().await.expect("written");
        }
    }
    journal.flush().await.expect("written");
    for number in [0, 1, 5000, run - 1, run, run + 1, run + 1999] {
        let cid = Cid::of(content(number).as_bytes());
        assert_eq!(text(&journal, Some(cid)).await, content(number), "{number}");
    }
    let page = journal.records(Filter::default(), 1).await.expect("read");
    assert_eq!(i64::try_from(page.total_count), Ok(run + 2001));
    let runs = "SELECT sum(length(objects)) / 10 FROM digests WHERE id < 2048";
    let in_run: i64 = room
        .database()
        .query_row(runs, [], |row| row.get(0))
        .expect("counted");
    assert_eq!(in_run, RUN - 1);
    journal.close().await;
}

/// Files that nobody names are swept at the start; others' stay.
#[tokio::test]
async fn files_that_nobody_names_are_swept() {
    let room = Room::new();
    let journal = room.open();
    call(
        &journal,
        begun("{}"),
        answered("k".repeat(INLINE_BYTES + 1)),
    );
    journal.close().await;
    let folder = room.path().join("objects").join("aa");
    fs::create_dir_all(&folder).expect("made");
    let stray = folder.join(Cid::of(b"stray").to_string());
    let foreign = folder.join("notes.txt");
    fs::write(&stray, "stray").expect("written");
    fs::write(&foreign, "mine").expect("written");
    let journal = room.open();
    assert!(!stray.exists());
    assert!(foreign.exists());
    let cid = all(&journal).await[0].result.expect("a result").cid;
    assert_eq!(text(&journal, cid).await.len(), INLINE_BYTES + 1);
    journal.close().await;
}
