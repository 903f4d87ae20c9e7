//! Tests of arguments and results by their content.

use super::*;

/// The same content is one object: within a run, in later runs, and after a restart.
#[tokio::test]
async fn content_is_stored_once() {
    let room = Room::new();
    let journal = room.open();
    for _ in 0..100 {
        call(&journal, new_call("{}"), answered_end("the same"));
    }
    let large = "x".repeat(INLINE_BYTES + 1);
    call(&journal, new_call("{}"), answered_end(large.clone()));
    journal.close().await;
    let journal = room.open();
    call(&journal, new_call("{}"), answered_end("the same"));
    call(&journal, new_call("{}"), answered_end(large.clone()));
    let records = all_records(&journal).await;
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
    let (empty_slice, _) = journal.object_slice(cid, size + 5, 1).await.expect("read");
    assert_eq!(empty_slice, b"");
    journal.close().await;
}

/// L6: content that does not match its identifier is not returned.
#[tokio::test]
async fn damaged_content_is_not_returned() {
    let room = Room::new();
    let journal = room.open();
    call(
        &journal,
        new_call("{}"),
        answered_end("y".repeat(INLINE_BYTES + 1)),
    );
    call(&journal, new_call("[1]"), answered_end("small"));
    let records = all_records(&journal).await;
    let small_cid = records[0].result.expect("a result").cid.expect("kept");
    let large = records[1].result.expect("a result").cid.expect("kept");
    let database = room.database();
    let mut packs = database
        .prepare("SELECT first, objects FROM packs")
        .expect("packs");
    let packs: Vec<(i64, Vec<u8>)> = packs
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .and_then(Iterator::collect)
        .expect("read");
    for (first_id, mut pack) in packs {
        let Some(index) = memchr::memmem::find(&pack, b"small") else {
            continue;
        };
        pack[index + 2] = b'e';
        database
            .execute(
                "UPDATE packs SET objects = ? WHERE first = ?",
                (pack, first_id),
            )
            .expect("damaged");
    }
    let error = journal.object(small_cid).await.expect_err("damaged");
    assert!(matches!(error, JournalError::Damaged(cid) if cid == small_cid));
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
    let unknown_cid = Cid::for_content(b"never seen");
    let error = journal.object(unknown_cid).await.expect_err("unknown");
    assert!(matches!(error, JournalError::NoSuchObject(_)), "{error}");
    journal.close().await;
}

#[tokio::test]
async fn payloads_are_stored_as_configured() {
    for (payloads, is_stored) in [(Payloads::Digest, true), (Payloads::Off, false)] {
        let mut room = Room::new();
        room.settings.payloads = payloads;
        let journal = room.open();
        call(
            &journal,
            new_call("secret arguments"),
            answered_end("secret result"),
        );
        let records = all_records(&journal).await;
        let arguments = records[0].arguments.expect("a size");
        assert_eq!(arguments.size, 16);
        assert_eq!(arguments.cid.is_some(), is_stored);
        if let Some(cid) = arguments.cid {
            let error = journal.object(cid).await.expect_err("not kept");
            assert!(matches!(error, JournalError::NotKept(_)), "{error}");
        }
        journal.close().await;
        let bytes = fs::read(room.path().join("journal.db")).expect("read");
        assert!(memchr::memmem::find(&bytes, b"secret").is_none());
    }
}

/// A text that is stored without a call is redacted like a payload, and is the same object as an
/// equal payload.
#[tokio::test]
async fn a_text_can_be_stored_beside_records() {
    let mut room = Room::new();
    room.settings.redact.patterns = vec!["ghp_[a-z]+".to_owned()];
    let journal = room.open();
    let result = r#"{"token":"ghp_abc"}"#;
    call(&journal, new_call("{}"), answered_end(result));
    let keep = async |text: &str| {
        let Begun { origin, target, .. } = new_call("{}");
        journal.keep(text.into(), origin, target, None).await
    };
    let cid = keep(result).await.expect("kept");
    let redacted_text = r#"{"token":"[redacted]"}"#;
    assert_eq!(text(&journal, Some(cid)).await, redacted_text);
    let record = &all_records(&journal).await[0];
    assert_eq!(record.result.and_then(|payload| payload.cid), Some(cid));
    let single_cid = keep("alone").await.expect("kept");
    assert_eq!(text(&journal, Some(single_cid)).await, "alone");
    journal.close().await;
    let error = keep("too late").await;
    assert!(error.is_err(), "{error:?}");
}

/// Secrets are neither in the database nor in the hash.
#[tokio::test]
async fn secrets_are_removed_before_hashing() {
    let mut room = Room::new();
    room.settings.redact = Redact {
        defaults: false,
        keys: vec!["password".to_owned()],
        patterns: vec!["ghp_[a-z]+".to_owned()],
    };
    let journal = room.open();
    call(
        &journal,
        new_call(r#"{"n":1.10,"Password":"hush","x":["ghp_abc"]}"#),
        answered_end("{}"),
    );
    let records = all_records(&journal).await;
    let cid = records[0].arguments.expect("arguments").cid;
    let redacted_text = r#"{"n":1.10,"Password":"[redacted]","x":["[redacted]"]}"#;
    assert_eq!(text(&journal, cid).await, redacted_text);
    assert_eq!(cid, Some(Cid::for_content(redacted_text.as_bytes())));

    // An error and a name may also contain secrets.
    let uri = Begun {
        target: target("fs", "file:///ghp_abc"),
        ..new_call("{}")
    };
    let tool_error = |error: &str| CallOutcome::Answered {
        result: Some("{}".into()),
        error: Some(RecordError {
            kind: "tool_error".into(),
            text: error.to_owned(),
        }),
    };
    call(&journal, uri, call_end(tool_error("no ghp_abc here")));
    let record = all_records(&journal).await.remove(0);
    assert_eq!(&*record.target.tool, "file:///[redacted]");
    assert_eq!(record.error.expect("an error").text, "no [redacted] here");
    journal.close().await;

    // The text of an error is stored only where results are stored.
    for (payloads, stored_error) in [
        (Payloads::Full, "words"),
        (Payloads::Digest, ""),
        (Payloads::Off, ""),
    ] {
        let mut room = Room::new();
        room.settings.payloads = payloads;
        let journal = room.open();
        call(&journal, new_call("{}"), call_end(tool_error("words")));
        let error = all_records(&journal)
            .await
            .remove(0)
            .error
            .expect("an error");
        assert_eq!((&*error.kind, &*error.text), ("tool_error", stored_error));
        journal.close().await;
    }
}

/// Objects are found by their content in complete runs and in the incomplete one, also after a
/// restart at the end of a run and of a chunk.
#[tokio::test]
async fn objects_are_found_in_every_run() {
    let room = Room::new();
    let mut journal = room.open();
    let content = |number: i64| format!("content {number}");
    // The first id is 1, and the result is also an object.
    let run = RUN_LENGTH - 2;
    for number in 0..run + 2000 {
        if number == run {
            call(&journal, new_call(&content(0)), answered_end("{}"));
            journal.close().await;
            journal = room.open();
        }
        call(&journal, new_call(&content(number)), answered_end("{}"));
        // Flush, so that a run turns within a commit and no commit is large.
        if number % 5000 == 0 {
            journal.flush().await.expect("written");
        }
    }
    journal.flush().await.expect("written");
    for number in [0, 1, 5000, run - 1, run, run + 1, run + 1999] {
        let cid = Cid::for_content(content(number).as_bytes());
        assert_eq!(text(&journal, Some(cid)).await, content(number), "{number}");
    }
    let page = journal
        .records(RecordFilter::default(), 1)
        .await
        .expect("read");
    assert_eq!(i64::try_from(page.total_count), Ok(run + 2001));
    let query = "SELECT sum(length(objects)) / 10 FROM digests WHERE id < 2048";
    let run_count: i64 = room
        .database()
        .query_row(query, [], |row| row.get(0))
        .expect("counted");
    assert_eq!(run_count, RUN_LENGTH - 1);
    journal.close().await;
}

/// A call of this principal to a tool of the same name.
fn call_of(principal: &str, arguments: &str) -> Begun {
    Begun {
        origin: Arc::new(CallOrigin {
            principal: Some(principal.to_owned()),
            ..CallOrigin::from_door(Door::McpHttp)
        }),
        target: target("fs", principal),
        ..new_call(arguments)
    }
}

/// The principals that hold the object with this content.
async fn holders<'p>(journal: &Journal, content: &str, principals: &[&'p str]) -> Vec<&'p str> {
    let mut matching_principals = Vec::new();
    for principal in principals {
        let is_holder = {
            let principal = (*principal).to_owned();
            move |holder: &Holder| {
                let tool = holder.tool.as_deref();
                assert_eq!(holder.principal.as_deref(), tool);
                tool == Some(&*principal)
            }
        };
        let cid = Cid::for_content(content.as_bytes());
        if journal.is_held(cid, is_holder).await.expect("asked") {
            matching_principals.push(*principal);
        }
    }
    matching_principals
}

/// The same content is held by each client whose call sent or received it, and by no other client:
/// in the incomplete run, in complete runs, and after a restart.
#[tokio::test]
async fn objects_have_holders() {
    const ALL: [&str; 3] = ["ada", "alan", "grace"];
    let room = Room::new();
    let mut journal = room.open();
    for (principal, arguments) in [("ada", "hers"), ("ada", "both"), ("alan", "both")] {
        call(&journal, call_of(principal, arguments), answered_end("{}"));
    }
    for look in [
        "at once",
        "after a restart",
        "in a run that is complete",
        "there after a restart",
    ] {
        match look {
            "at once" => {}
            "in a run that is complete" => {
                for number in 0..RUN_LENGTH {
                    call(
                        &journal,
                        call_of("grace", &format!("{number}")),
                        answered_end("{}"),
                    );
                    if number % 5000 == 0 {
                        journal.flush().await.expect("written");
                    }
                }
                call(&journal, call_of("grace", "both"), answered_end("{}"));
            }
            _ => {
                journal.close().await;
                journal = room.open();
            }
        }
        journal.flush().await.expect("written");
        let is_later = look.contains("there") || look.contains("complete");
        let expected_holders: &[&str] = if is_later { &ALL } else { &ALL[..2] };
        assert_eq!(holders(&journal, "hers", &ALL).await, ["ada"], "{look}");
        assert_eq!(
            holders(&journal, "both", &ALL).await,
            expected_holders,
            "{look}"
        );
        assert!(holders(&journal, "never", &ALL).await.is_empty());
    }
    // Each holder has one object, however often the content recurs.
    let query = "SELECT sum(count) FROM packs";
    let count = || -> i64 {
        let database = room.database();
        database
            .query_row(query, [], |row| row.get(0))
            .expect("counted")
    };
    let mut object_count = None;
    for _ in 0..3 {
        call(&journal, call_of("grace", "both"), answered_end("{}"));
        journal.flush().await.expect("written");
        assert_eq!(*object_count.get_or_insert_with(count), count());
    }
    journal.close().await;
}

/// Objects of a version without holders belong to the operator only. Such a journal can be read
/// without a migration.
#[tokio::test]
async fn objects_of_an_older_journal_have_no_holder() {
    let room = Room::new();
    let journal = room.open();
    for number in 0..RUN_LENGTH + 10 {
        call(
            &journal,
            call_of("ada", &format!("{number}")),
            answered_end("{}"),
        );
        if number % 5000 == 0 {
            journal.flush().await.expect("written");
        }
    }
    journal.close().await;
    let database = room.database();
    downgrade_to_version_3(&database);
    database
        .execute_batch(
            "ALTER TABLE packs DROP COLUMN holders; ALTER TABLE digests DROP COLUMN holders;
             DROP TABLE holders; DROP TABLE transitions; PRAGMA user_version = 1;",
        )
        .expect("as it was");
    let cid = |content: &str| Cid::for_content(content.as_bytes());
    let last_text = (RUN_LENGTH + 5).to_string();
    let mut reader = Reader::open(room.folder.path())
        .expect("read")
        .expect("there");
    for content in ["5", &last_text] {
        assert_eq!(
            reader.object(cid(content)).expect("read"),
            content.as_bytes()
        );
    }
    drop(reader);
    let journal = room.open();
    for content in ["5", &last_text] {
        assert_eq!(text(&journal, Some(cid(content))).await, content);
        let is_held = journal.is_held(cid(content), |_| true).await;
        assert!(!is_held.expect("asked"), "{content}");
    }
    call(&journal, call_of("ada", &last_text), answered_end("{}"));
    journal.flush().await.expect("written");
    assert_eq!(holders(&journal, &last_text, &["ada"]).await, ["ada"]);
    journal.close().await;
}

/// Files without an object are removed at the start. Other files stay.
#[tokio::test]
async fn files_without_an_object_are_removed() {
    let room = Room::new();
    let journal = room.open();
    call(
        &journal,
        new_call("{}"),
        answered_end("k".repeat(INLINE_BYTES + 1)),
    );
    journal.close().await;
    let folder = room.path().join("objects").join("aa");
    fs::create_dir_all(&folder).expect("made");
    let stray_file = folder.join(Cid::for_content(b"stray").to_string());
    let foreign = folder.join("notes.txt");
    fs::write(&stray_file, "stray").expect("written");
    fs::write(&foreign, "mine").expect("written");
    let journal = room.open();
    assert!(!stray_file.exists());
    assert!(foreign.exists());
    let cid = all_records(&journal).await[0].result.expect("a result").cid;
    assert_eq!(text(&journal, cid).await.len(), INLINE_BYTES + 1);
    journal.close().await;
}
