//! Tests of which events are stored, and which are dropped first.

use super::*;

fn next(replay: &Replay, cursor: &mut StreamCursor) -> Poll<Option<String>> {
    let context = Context::from_waker(Waker::noop());
    let text = replay.poll(cursor, &context);
    text.map(|text| text.map(|text| String::from_utf8_lossy(&text).into_owned()))
}

/// The messages that the connection gets without waiting.
fn messages(replay: &Replay, cursor: &mut StreamCursor) -> Vec<String> {
    let mut messages = Vec::new();
    while let Poll::Ready(Some(text)) = next(replay, cursor) {
        let data = text.lines().find_map(|line| line.strip_prefix("data: "));
        messages.extend(data.filter(|data| !data.is_empty()).map(str::to_owned));
    }
    messages
}

/// The event id that a connection gets first.
fn primer(replay: &Replay, cursor: &mut StreamCursor) -> String {
    match next(replay, cursor) {
        Poll::Ready(Some(text)) => text["id: ".len()..]
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned(),
        other => panic!("{other:?}"),
    }
}

/// Opens a call stream and drops its connection. Returns the event id for resuming.
fn left(replay: &Replay) -> (StreamId, String) {
    let mut cursor = replay.open(StreamKind::Call);
    let id = primer(replay, &mut cursor);
    replay.leave(&cursor);
    (cursor.stream, id)
}

fn is_empty(replay: &Replay) -> bool {
    let state = replay.state();
    state.streams.is_empty() && state.events == 0 && state.bytes == 0
}

#[tokio::test]
async fn the_oldest_events_go_first() {
    let replay = Replay::default();
    let (old_cursor, old_id) = left(&replay);
    replay.push(old_cursor, "old");
    replay.finish(old_cursor);
    let (stream, id) = left(&replay);
    for number in 0..MAX_EVENTS {
        replay.push(stream, &number.to_string());
    }
    assert_eq!(replay.resume(&old_id).err(), Some(Gone::Forgotten));
    let mut cursor = replay.resume(&id).expect("kept");
    assert_eq!(messages(&replay, &mut cursor).len(), MAX_EVENTS);
    replay.push(stream, "the last");
    let stored_messages = messages(&replay, &mut cursor);
    assert_eq!(stored_messages, ["the last"]);
    replay.leave(&cursor);
    // The event "0" was dropped, which is not an error. The stream continues with the oldest stored
    // event.
    let mut cursor = replay.resume(&id).expect("kept");
    assert_eq!(messages(&replay, &mut cursor)[0], "1");
}

#[tokio::test]
async fn large_events_make_room_for_others() {
    let replay = Replay::default();
    let (first, first_id) = left(&replay);
    replay.push(first, &"x".repeat(MAX_BYTES / 2));
    replay.finish(first);
    let (second_cursor, second_id) = left(&replay);
    replay.push(second_cursor, &"y".repeat(MAX_BYTES / 2));
    replay.finish(second_cursor);
    assert_eq!(replay.resume(&first_id).err(), Some(Gone::Forgotten));
    assert!(replay.resume(&second_id).is_ok());
}

/// A connected client gets its result, however many messages its session has.
#[tokio::test]
async fn unread_events_stay() {
    let replay = Replay::default();
    let mut cursor = replay.open(StreamKind::Call);
    primer(&replay, &mut cursor);
    replay.push(cursor.stream, &"x".repeat(2 * MAX_BYTES));
    replay.finish(cursor.stream);
    let (other_cursor, _) = left(&replay);
    for _ in 0..2 * MAX_EVENTS {
        replay.push(other_cursor, "noise");
    }
    assert_eq!(messages(&replay, &mut cursor)[0].len(), 2 * MAX_BYTES);
    replay.leave(&cursor);
    replay.finish(other_cursor);
    assert!(replay.state().bytes <= MAX_BYTES);
}

/// The writer waits for a slow reader, but not for an absent one.
#[tokio::test]
async fn a_connection_has_so_much_to_hear() {
    let replay = Replay::default();
    let cursor = replay.open(StreamKind::Call);
    let context = Context::from_waker(Waker::noop());
    let mut count = 0;
    while replay.poll_room(cursor.stream, &context).is_ready() {
        replay.push(cursor.stream, "a");
        count += 1;
        assert!(count <= MAX_UNREAD);
    }
    replay.leave(&cursor);
    assert!(replay.poll_room(cursor.stream, &context).is_ready());
}

/// An idle session stores nothing.
#[tokio::test(start_paused = true)]
async fn old_events_are_dropped() {
    let replay = Replay::default();
    let mut session_cursor = replay.open(StreamKind::Session);
    let (call, id) = left(&replay);
    for stream in [session_cursor.stream, call] {
        replay.push(stream, "a");
    }
    replay.finish(call);
    assert_eq!(messages(&replay, &mut session_cursor), ["a"]);
    tokio::time::advance(STORED_FOR / 2).await;
    replay.expire();
    assert!(replay.resume(&id).is_ok_and(|cursor| {
        replay.leave(&cursor);
        true
    }));
    tokio::time::advance(STORED_FOR / 2).await;
    replay.expire();
    assert_eq!(replay.resume(&id).err(), Some(Gone::Forgotten));
    replay.leave(&session_cursor);
    assert!(is_empty(&replay));
}

#[tokio::test]
async fn a_later_connection_reads_and_the_one_before_ends() {
    let replay = Replay::default();
    let mut first_cursor = replay.open(StreamKind::Call);
    let id = primer(&replay, &mut first_cursor);
    let mut second_cursor = replay.resume(&id).expect("open");
    assert_eq!(next(&replay, &mut first_cursor), Poll::Ready(None));
    replay.leave(&first_cursor);
    replay.push(second_cursor.stream, "a");
    assert_eq!(messages(&replay, &mut second_cursor), ["a"]);
}

#[tokio::test]
async fn foreign_ids_are_not_readable() {
    let replay = Replay::default();
    let (_, id) = left(&replay);
    let run = &id[..8];
    assert!(replay.resume(&id).is_ok());
    for (id, expected) in [
        (format!("{run}-c2-0"), Gone::Forgotten),
        (format!("{run}-c1-1"), Gone::Forgotten),
        (
            format!("{:08x}-c1-0", replay.run.wrapping_add(1)),
            Gone::Forgotten,
        ),
        (format!("{run}-s1-0"), Gone::Unknown),
        (format!("{run}-c1"), Gone::Unknown),
        (format!("{run}-c1-0-0"), Gone::Unknown),
        (format!("{run}-é1-0"), Gone::Unknown),
        (String::new(), Gone::Unknown),
    ] {
        assert_eq!(replay.resume(&id).err(), Some(expected), "{id}");
    }
}
