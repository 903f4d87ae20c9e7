//! Stores the latest events of a session's streams, so that a client can resume a broken stream
//! (specification 2025-11-25, transports, "Resumability and Redelivery").

use std::{
    collections::{BTreeMap, VecDeque},
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

/// Maximum number of stored events of one session. The session's outbox has the same limit.
const MAX_EVENTS: usize = 256;

/// Maximum size of the stored events of one session, in bytes. A larger result is sent, but not
/// stored.
const MAX_BYTES: usize = 1024 * 1024;

/// Time for which events are stored. Clients return within seconds, or after a sleep of the
/// machine. An idle session then stores nothing and takes less than 20 kB.
const STORED_FOR: Duration = Duration::from_mins(5);

/// Maximum number of unsent events of one connection. Later messages wait at their source, a call
/// stream or the outbox. A call stream drops progress and logs first.
const MAX_UNREAD: usize = 16;

/// Delay (`retry`) after which a client reconnects if its connection breaks.
const RETRY: Duration = Duration::from_secs(1);

/// The kind of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// One request. The stream ends with its response.
    Call,
    /// Messages that belong to no call (GET).
    Session,
}

/// Identifies a stream within its session. Ids are not reused.
pub type StreamId = u64;

/// The streams of one session.
#[derive(Debug)]
pub struct Replay {
    /// A random number that marks this run's events. A revived session may get the event ids of an
    /// earlier run.
    run: u32,
    state: Mutex<ReplayState>,
}

impl Default for Replay {
    fn default() -> Self {
        let mut run = [0; 4];
        // Without random numbers, no session opens, because its id needs some.
        getrandom::fill(&mut run).ok();
        Self {
            run: u32::from_be_bytes(run),
            state: Mutex::default(),
        }
    }
}

#[derive(Debug, Default)]
struct ReplayState {
    next_stream: StreamId,
    streams: BTreeMap<StreamId, Stream>,
    events: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Stream {
    kind: StreamKind,
    stored: VecDeque<Event>,
    /// The number of the next event. The first event has number 1; 0 stands for the start.
    next: u64,
    /// The number of the next event for the current connection.
    next_unread: u64,
    /// The number of the latest connection. Only that connection gets events.
    latest_reader: u64,
    is_read: bool,
    is_over: bool,
    /// Set if the connection is to close: the delay after which the client reconnects.
    parting: Option<Duration>,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// True after a client has resumed the stream.
    has_returned: bool,
    /// Woken when a client resumes the stream.
    returned: Option<Waker>,
}

#[derive(Debug)]
struct Event {
    /// The encoded event.
    text: Bytes,
    since: Instant,
}

/// The position of one connection in a stream.
#[derive(Debug)]
pub struct StreamCursor {
    pub stream: StreamId,
    pub kind: StreamKind,
    reader: u64,
    /// Number of the event id that is sent first, so that the client can resume before the first
    /// event (SEP-1699). `None` once it is sent.
    primer: Option<u64>,
    is_closed: bool,
}

/// The reason that a stream cannot be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Gone {
    #[error(
        "what followed this event is kept no longer: the call may or may not have run; check before you repeat it"
    )]
    Forgotten,
    /// The client misses no result, and may open a new stream.
    #[error("no stream of calls has this event")]
    Unknown,
}

impl Replay {
    fn state(&self) -> MutexGuard<'_, ReplayState> {
        // Locked for map operations, never across an await.
        self.state.lock()
    }

    /// Opens a stream, with its first connection.
    pub fn open(&self, kind: StreamKind) -> StreamCursor {
        let mut state = self.state();
        state.next_stream += 1;
        let stream = state.next_stream;
        state.streams.insert(
            stream,
            Stream {
                kind,
                stored: VecDeque::new(),
                next: 1,
                next_unread: 1,
                latest_reader: 1,
                is_read: true,
                is_over: false,
                parting: None,
                reader: None,
                writer: None,
                has_returned: false,
                returned: None,
            },
        );
        StreamCursor {
            stream,
            kind,
            reader: 1,
            primer: Some(0),
            is_closed: false,
        }
    }

    /// Resumes a stream after `last_event`. The new connection replaces the previous one.
    pub fn resume(&self, last_event: &str) -> Result<StreamCursor, Gone> {
        let (run, kind, stream, event) = parse(last_event).ok_or(Gone::Unknown)?;
        let reason = match kind {
            StreamKind::Call => Gone::Forgotten,
            StreamKind::Session => Gone::Unknown,
        };
        if run != self.run {
            return Err(reason);
        }
        let mut state = self.state();
        let stream_state = state
            .streams
            .get_mut(&stream)
            .filter(|stream_state| stream_state.kind == kind && event < stream_state.next);
        let stream_state = stream_state.ok_or(reason)?;
        // A finished call's response must still be stored. Progress and logs may be lost.
        if stream_state.is_over && stream_state.stored.is_empty() && event + 1 < stream_state.next {
            return Err(reason);
        }
        stream_state.latest_reader += 1;
        stream_state.is_read = true;
        stream_state.next_unread = event + 1;
        stream_state.parting = None;
        stream_state.has_returned = true;
        if let Some(waker) = stream_state.returned.take() {
            waker.wake();
        }
        // The previous connection may still wait for events. Wake it, so that it ends.
        stream_state.wake();
        Ok(StreamCursor {
            stream,
            kind,
            reader: stream_state.latest_reader,
            primer: Some(event),
            is_closed: false,
        })
    }

    fn id(&self, kind: StreamKind, stream: StreamId, event: u64) -> String {
        let letter = match kind {
            StreamKind::Call => 'c',
            StreamKind::Session => 's',
        };
        format!("{:08x}-{letter}{stream}-{event}", self.run)
    }

    /// Appends a message to a stream.
    pub fn push(&self, stream: StreamId, message: &str) {
        let mut state = self.state();
        let Some(stream_state) = state.streams.get_mut(&stream) else {
            return;
        };
        let id = self.id(stream_state.kind, stream, stream_state.next);
        // A message is one line, so one `data` field is enough.
        let text = Bytes::from(format!("id: {id}\nevent: message\ndata: {message}\n\n"));
        stream_state.next += 1;
        let (bytes, time) = (text.len(), Instant::now());
        stream_state.stored.push_back(Event { text, since: time });
        stream_state.wake();
        state.events += 1;
        state.bytes += bytes;
        state.make_room();
    }

    /// Marks the end of a stream. No message may follow.
    pub fn finish(&self, stream: StreamId) {
        self.change(stream, |stream_state| stream_state.is_over = true);
        self.state().drop_if_done(stream);
    }

    /// Closes the connection once all events are sent. The client reconnects after `retry`.
    pub fn disconnect(&self, stream: StreamId, retry: Duration) {
        self.change(stream, |stream_state| stream_state.parting = Some(retry));
    }

    fn change(&self, stream: StreamId, change: impl FnOnce(&mut Stream)) {
        if let Some(stream_state) = self.state().streams.get_mut(&stream) {
            change(stream_state);
            stream_state.wake();
        }
    }

    /// Ready when the stream accepts another event. Waits for a connection that reads slowly, but
    /// not if there is no connection.
    pub fn poll_room(&self, stream: StreamId, context: &Context<'_>) -> Poll<()> {
        let mut state = self.state();
        match state.streams.get_mut(&stream) {
            Some(stream_state) if stream_state.is_read && stream_state.waiting() >= MAX_UNREAD => {
                stream_state.writer = Some(context.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }

    /// Returns true if a client has resumed the stream since the last call. The task is woken when
    /// that happens.
    pub fn take_return(&self, stream: StreamId, context: &Context<'_>) -> bool {
        let mut state = self.state();
        let Some(stream_state) = state.streams.get_mut(&stream) else {
            return false;
        };
        let waker = context.waker();
        if !stream_state
            .returned
            .as_ref()
            .is_some_and(|stored_waker| stored_waker.will_wake(waker))
        {
            stream_state.returned = Some(waker.clone());
        }
        std::mem::take(&mut stream_state.has_returned)
    }

    /// The next event for a connection; `None` when the connection is to end.
    pub fn poll(&self, cursor: &mut StreamCursor, context: &Context<'_>) -> Poll<Option<Bytes>> {
        let mut state = self.state();
        let stream_state = state.streams.get_mut(&cursor.stream);
        let Some(stream_state) = stream_state
            .filter(|stream| stream.latest_reader == cursor.reader && !cursor.is_closed)
        else {
            return Poll::Ready(None);
        };
        if let Some(event) = cursor.primer.take() {
            let id = self.id(cursor.kind, cursor.stream, event);
            let text = format!("id: {id}\nretry: {}\ndata: \n\n", RETRY.as_millis());
            return Poll::Ready(Some(text.into()));
        }
        if let Some(text) = stream_state.next_event() {
            return Poll::Ready(Some(text));
        }
        if stream_state.is_over {
            return Poll::Ready(None);
        }
        if let Some(retry) = stream_state.parting.take() {
            cursor.is_closed = true;
            let text = format!("retry: {}\n\n", retry.as_millis());
            return Poll::Ready(Some(text.into()));
        }
        stream_state.reader = Some(context.waker().clone());
        Poll::Pending
    }

    /// Records that a connection has ended.
    pub fn leave(&self, cursor: &StreamCursor) {
        let mut state = self.state();
        if let Some(stream_state) = state.streams.get_mut(&cursor.stream)
            && stream_state.latest_reader == cursor.reader
        {
            stream_state.is_read = false;
            stream_state.reader = None;
            stream_state.wake();
            state.make_room();
            state.drop_if_done(cursor.stream);
        }
    }

    /// Drops events that are older than `STORED_FOR`.
    pub fn expire(&self) {
        self.state().expire(Instant::now());
    }
}

impl ReplayState {
    /// Drops the oldest events until the limits hold. Keeps unread events.
    fn make_room(&mut self) {
        while self.events > MAX_EVENTS || self.bytes > MAX_BYTES {
            let oldest_stream = self
                .streams
                .iter()
                .filter_map(|(id, stream)| Some((stream.oldest()?.since, *id)))
                .min();
            let Some((_, id)) = oldest_stream else { return };
            self.forget(id);
        }
    }

    fn expire(&mut self, now: Instant) {
        let is_old = |event: &Event| now.duration_since(event.since) >= STORED_FOR;
        let ids: Vec<StreamId> = self.streams.keys().copied().collect();
        for id in ids {
            while let Some(stream) = self.streams.get(&id)
                && stream.oldest().is_some_and(is_old)
            {
                self.forget(id);
            }
        }
    }

    /// Drops the oldest event of a stream.
    fn forget(&mut self, id: StreamId) {
        let event = self
            .streams
            .get_mut(&id)
            .and_then(|stream| stream.stored.pop_front());
        if let Some(event) = event {
            self.events -= 1;
            self.bytes -= event.text.len();
        }
        self.drop_if_done(id);
    }

    /// Drops a stream that has no events, unless it may still get some or a connection reads it.
    fn drop_if_done(&mut self, id: StreamId) {
        let stream = self.streams.get(&id);
        if stream.is_some_and(|stream| stream.stored.is_empty() && stream.is_done()) {
            self.streams.remove(&id);
        }
    }
}

impl Stream {
    /// The number of the first stored event.
    fn first_number(&self) -> u64 {
        self.next - self.stored.len() as u64
    }

    /// Number of events that the current connection has not read.
    fn waiting(&self) -> usize {
        usize::try_from(self.next - self.next_unread).unwrap_or(usize::MAX)
    }

    /// The oldest event that may be dropped; `None` if the connection has not read it.
    fn oldest(&self) -> Option<&Event> {
        self.stored
            .front()
            .filter(|_| !self.is_read || self.first_number() < self.next_unread)
    }

    /// The next event for the current connection, if there is one.
    fn next_event(&mut self) -> Option<Bytes> {
        self.next_unread = self.next_unread.max(self.first_number());
        let index = usize::try_from(self.next_unread - self.first_number()).ok()?;
        let text = self.stored.get(index)?.text.clone();
        self.next_unread += 1;
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
        Some(text)
    }

    fn is_done(&self) -> bool {
        !self.is_read && (self.is_over || self.kind == StreamKind::Session)
    }

    fn wake(&mut self) {
        for waker in [self.reader.take(), self.writer.take()]
            .into_iter()
            .flatten()
        {
            waker.wake();
        }
    }
}

/// Parses an event id: run, kind, stream and number.
fn parse(id: &str) -> Option<(u32, StreamKind, StreamId, u64)> {
    let mut parts = id.split('-');
    let run = u32::from_str_radix(parts.next()?, 16).ok()?;
    let stream = parts.next()?;
    let event = parts.next()?.parse().ok()?;
    let (kind, stream) = match stream.split_at_checked(1)? {
        ("c", stream) => (StreamKind::Call, stream),
        ("s", stream) => (StreamKind::Session, stream),
        _ => return None,
    };
    parts
        .next()
        .is_none()
        .then_some((run, kind, stream.parse().ok()?, event))
}

#[cfg(test)]
mod tests;
