//! What is kept, and what goes first.

use super::*;

fn next(replay: &Replay, place: &mut StreamCursor) -> Poll<Option<String>> {
    let context = Context::from_waker(Waker::noop());
    let text = replay.poll(place, &context);
    text.map(|text| text.map(|text| String::from_utf8_lossy(&text).into_owned()))
}

/// The messages that come without waiting.
fn messages(replay: &Replay, place: &mut StreamCursor) -> Vec<String> {
    let mut messages = Vec::new();
    while let Poll::Ready(Some(text)) = next(replay, place) {
        let data = text.lines().find_map(|line| line.strip_prefix("data: "));
        messages.extend(data.filter(|it| !it.is_empty()).map(str::to_owned));
    }
    messages
}

/// The id that primes a place.
fn primer(replay: &Replay, place: &mut StreamCursor) -> String {
    match next(replay, place) {
        Poll::Ready(Some(text)) => text["id: ".len()..]
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned(),
        other => panic!("{other:?}"),
    }
}

/// A stream of a call whose client went at once, and the id to come back with.
fn left(replay: &Replay) -> (StreamId, String) {
    let mut place = replay.open(Kind::Call);
    let id = primer(replay, &mut place);
    replay.leave(&place);
    (place.stream, id)
}

fn is_empty(replay: &Replay) -> bool {
    let state = replay.state();
    state.streams.is_empty() && state.events == 0 && state.bytes == 0
}

#[tokio::test]
async fn the_oldest_events_go_first() {
    let replay = Replay::default();
    let (old, old_id) = left(&replay);
    replay.say(old, "old");
    replay.finish(old);
    let (stream, id) = left(&replay);
    for number in 0..MAX_EVENTS {
        replay.say(stream, &number.to_string());
    }
    assert_eq!(replay.resume(&old_id).err(), Some(Gone::Forgotten));
    let mut place = replay.resume(&id).expect("kept");
    assert_eq!(messages(&replay, &mut place).len(), MAX_EVENTS);
    replay.say(stream, "the last");
    let kept = messages(&replay, &mut place);
    assert_eq!(kept, ["the last"]);
    replay.leave(&place);
    // Progress that is gone is not missed: it goes on with what is there.
    let mut place = replay.resume(&id).expect("kept");
    assert_eq!(messages(&replay, &mut place)[0], "1");
}

#[tokio::test]
async fn large_events_make_room_for_others() {
    let replay = Replay::default();
    let (first, first_id) = left(&replay);
    replay.say(first, &"x".repeat(MAX_BYTES / 2));
    replay.finish(first);
    let (second, second_id) = left(&replay);
    replay.say(second, &"y".repeat(MAX_BYTES / 2));
    replay.finish(second);
    assert_eq!(replay.resume(&first_id).err(), Some(Gone::Forgotten));
    assert!(replay.resume(&second_id).is_ok());
}

/// A result reaches a client that reads, whatever else its session is told.
#[tokio::test]
async fn what_a_connection_has_yet_to_hear_stays() {
    let replay = Replay::default();
    let mut place = replay.open(Kind::Call);
    primer(&replay, &mut place);
    replay.say(place.stream, &"x".repeat(2 * MAX_BYTES));
    replay.finish(place.stream);
    let (other, _) = left(&replay);
    for _ in 0..2 * MAX_EVENTS {
        replay.say(other, "noise");
    }
    assert_eq!(messages(&replay, &mut place)[0].len(), 2 * MAX_BYTES);
    replay.leave(&place);
    replay.finish(other);
    assert!(replay.state().bytes <= MAX_BYTES);
}

/// A slow reader is waited for; a missing one is not.
#[tokio::test]
async fn a_connection_has_so_much_to_hear() {
    let replay = Replay::default();
    let place = replay.open(Kind::Call);
    let context = Context::from_waker(Waker::noop());
    let mut said = 0;
    while replay.poll_room(place.stream, &context).is_ready() {
        replay.say(place.stream, "a");
        said += 1;
        assert!(said <= MAX_UNHEARD);
    }
    replay.leave(&place);
    assert!(replay.poll_room(place.stream, &context).is_ready());
}

/// An idle session keeps nothing.
#[tokio::test(start_paused = true)]
async fn what_is_old_is_forgotten() {
    let replay = Replay::default();
    let mut listening = replay.open(Kind::Session);
    let (call, id) = left(&replay);
    for stream in [listening.stream, call] {
        replay.say(stream, "a");
    }
    replay.finish(call);
    assert_eq!(messages(&replay, &mut listening), ["a"]);
    tokio::time::advance(KEPT_FOR / 2).await;
    replay.expire();
    assert!(replay.resume(&id).is_ok_and(|place| {
        replay.leave(&place);
        true
    }));
    tokio::time::advance(KEPT_FOR / 2).await;
    replay.expire();
    assert_eq!(replay.resume(&id).err(), Some(Gone::Forgotten));
    replay.leave(&listening);
    assert!(is_empty(&replay));
}

#[tokio::test]
async fn a_later_connection_reads_and_the_one_before_ends() {
    let replay = Replay::default();
    let mut one = replay.open(Kind::Call);
    let id = primer(&replay, &mut one);
    let mut two = replay.resume(&id).expect("open");
    assert_eq!(next(&replay, &mut one), Poll::Ready(None));
    replay.leave(&one);
    replay.say(two.stream, "a");
    assert_eq!(messages(&replay, &mut two), ["a"]);
}

#[tokio::test]
async fn ids_of_others_say_nothing() {
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
