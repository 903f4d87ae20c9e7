//! Keeps the latest events of a session's streams, for clients whose connection breaks or is closed
//! (specification 2025-11-25, transports, "Resumability and Redelivery").

use std::{
    collections::{BTreeMap, VecDeque},
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

/// Events of one session that are kept: as many as may wait in its outbox.
const MAX_EVENTS: usize = 256;

/// And their bytes. A result that is larger reaches a client that reads; it is not kept for one that
/// went away.
const MAX_BYTES: usize = 1024 * 1024;

/// A client comes back within seconds, or once its machine is awake. After this an idle session keeps
/// nothing, so that it costs what idle sessions may (20 kB).
const KEPT_FOR: Duration = Duration::from_mins(5);

/// Events that wait for one connection. Later ones wait at their source, where progress and logs are
/// dropped first.
const MAX_UNHEARD: usize = 16;

/// When a client is to come back whose connection broke.
const RETRY: Duration = Duration::from_secs(1);

/// What a stream is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One request and its response, with which it ends.
    Call,
    /// Messages outside of calls (GET).
    Session,
}

/// A stream of the session. Never given again.
pub type StreamId = u64;

/// The streams of one session.
#[derive(Debug)]
pub struct Replay {
    /// Tells our events from those of an earlier run: a session may be older than we are.
    run: u32,
    state: Mutex<State>,
}

impl Default for Replay {
    fn default() -> Self {
        let mut run = [0; 4];
        // Without random numbers there are no sessions either.
        getrandom::fill(&mut run).ok();
        Self {
            run: u32::from_be_bytes(run),
            state: Mutex::default(),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    next_stream: StreamId,
    streams: BTreeMap<StreamId, Stream>,
    events: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Stream {
    kind: Kind,
    kept: VecDeque<Event>,
    /// The number of the next event; that of the first is 1, for 0 primes the client.
    next: u64,
    /// The number of the next event for the connection that reads.
    unheard: u64,
    /// Connections it has had; the last one reads, unless it is away.
    readers: u64,
    is_read: bool,
    is_over: bool,
    /// The connection is to be closed, and the client to come back after this.
    parting: Option<Duration>,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// A client has come back for what it missed.
    has_returned: bool,
    /// The writer of the stream, which is woken when a client returns.
    returned: Option<Waker>,
}

#[derive(Debug)]
struct Event {
    /// As it is sent.
    text: Bytes,
    since: Instant,
}

/// One connection's place on a stream.
#[derive(Debug)]
pub struct StreamCursor {
    pub stream: StreamId,
    pub kind: Kind,
    reader: u64,
    /// The event that the client is to come back with until it has heard another (SEP-1699); not yet
    /// told.
    primer: Option<u64>,
    is_closed: bool,
}

/// Why a stream cannot be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Gone {
    #[error(
        "what followed this event is kept no longer: the call may or may not have run; check before you repeat it"
    )]
    Forgotten,
    /// Nothing is lost that anyone waits for: a new stream will do.
    #[error("no stream of calls has this event")]
    Unknown,
}

impl Replay {
    fn state(&self) -> MutexGuard<'_, State> {
        // Held for map operations, never across an await.
        self.state.lock()
    }

    /// A new stream and its first connection.
    pub fn open(&self, kind: Kind) -> StreamCursor {
        let mut state = self.state();
        state.next_stream += 1;
        let stream = state.next_stream;
        state.streams.insert(
            stream,
            Stream {
                kind,
                kept: VecDeque::new(),
                next: 1,
                unheard: 1,
                readers: 1,
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

    /// The place after an event, for a connection that takes the place of the one before.
    pub fn resume(&self, last_event: &str) -> Result<StreamCursor, Gone> {
        let (run, kind, stream, event) = parse(last_event).ok_or(Gone::Unknown)?;
        let gone = match kind {
            Kind::Call => Gone::Forgotten,
            Kind::Session => Gone::Unknown,
        };
        if run != self.run {
            return Err(gone);
        }
        let mut state = self.state();
        let found = state
            .streams
            .get_mut(&stream)
            .filter(|found| found.kind == kind && event < found.next);
        let found = found.ok_or(gone)?;
        // If a call is over its response must be there; progress and logs may be missing.
        if found.is_over && found.kept.is_empty() && event + 1 < found.next {
            return Err(gone);
        }
        found.readers += 1;
        found.is_read = true;
        found.unheard = event + 1;
        found.parting = None;
        found.has_returned = true;
        if let Some(returned) = found.returned.take() {
            returned.wake();
        }
        // The connection before may not have been missed yet.
        found.wake();
        Ok(StreamCursor {
            stream,
            kind,
            reader: found.readers,
            primer: Some(event),
            is_closed: false,
        })
    }

    fn id(&self, kind: Kind, stream: StreamId, event: u64) -> String {
        let letter = match kind {
            Kind::Call => 'c',
            Kind::Session => 's',
        };
        format!("{:08x}-{letter}{stream}-{event}", self.run)
    }

    /// Says something on a stream.
    pub fn say(&self, stream: StreamId, message: &str) {
        let mut state = self.state();
        let Some(found) = state.streams.get_mut(&stream) else {
            return;
        };
        let id = self.id(found.kind, stream, found.next);
        // Messages are one line, so one `data` field holds them.
        let text = Bytes::from(format!("id: {id}\nevent: message\ndata: {message}\n\n"));
        found.next += 1;
        let (bytes, since) = (text.len(), Instant::now());
        found.kept.push_back(Event { text, since });
        found.wake();
        state.events += 1;
        state.bytes += bytes;
        state.make_room();
    }

    /// Nothing more is said on a stream.
    pub fn finish(&self, stream: StreamId) {
        self.change(stream, |found| found.is_over = true);
        self.state().drop_if_done(stream);
    }

    /// Closes a stream's connection, once everything has been sent; its client comes back.
    pub fn part(&self, stream: StreamId, retry: Duration) {
        self.change(stream, |found| found.parting = Some(retry));
    }

    fn change(&self, stream: StreamId, change: impl FnOnce(&mut Stream)) {
        if let Some(found) = self.state().streams.get_mut(&stream) {
            change(found);
            found.wake();
        }
    }

    /// Ready when one more event may be said: a slow reader is waited for, a missing one is not.
    pub fn poll_room(&self, stream: StreamId, context: &Context<'_>) -> Poll<()> {
        let mut state = self.state();
        match state.streams.get_mut(&stream) {
            Some(found) if found.is_read && found.waiting() >= MAX_UNHEARD => {
                found.writer = Some(context.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }

    /// Whether a client has come back to a stream since this was last asked; the task is woken when one
    /// does.
    pub fn take_return(&self, stream: StreamId, context: &Context<'_>) -> bool {
        let mut state = self.state();
        let Some(found) = state.streams.get_mut(&stream) else {
            return false;
        };
        let waker = context.waker();
        if !found
            .returned
            .as_ref()
            .is_some_and(|it| it.will_wake(waker))
        {
            found.returned = Some(waker.clone());
        }
        std::mem::take(&mut found.has_returned)
    }

    /// What comes next on a connection; `None` at its end.
    pub fn poll(&self, place: &mut StreamCursor, context: &Context<'_>) -> Poll<Option<Bytes>> {
        let mut state = self.state();
        let found = state.streams.get_mut(&place.stream);
        let Some(found) = found.filter(|it| it.readers == place.reader && !place.is_closed) else {
            return Poll::Ready(None);
        };
        if let Some(event) = place.primer.take() {
            let id = self.id(place.kind, place.stream, event);
            let text = format!("id: {id}\nretry: {}\ndata: \n\n", RETRY.as_millis());
            return Poll::Ready(Some(text.into()));
        }
        if let Some(text) = found.hear() {
            return Poll::Ready(Some(text));
        }
        if found.is_over {
            return Poll::Ready(None);
        }
        if let Some(retry) = found.parting.take() {
            place.is_closed = true;
            let text = format!("retry: {}\n\n", retry.as_millis());
            return Poll::Ready(Some(text.into()));
        }
        found.reader = Some(context.waker().clone());
        Poll::Pending
    }

    /// The connection has gone, whichever side closed it.
    pub fn leave(&self, place: &StreamCursor) {
        let mut state = self.state();
        if let Some(found) = state.streams.get_mut(&place.stream)
            && found.readers == place.reader
        {
            found.is_read = false;
            found.reader = None;
            found.wake();
            state.make_room();
            state.drop_if_done(place.stream);
        }
    }

    /// Forgets what is too old.
    pub fn expire(&self) {
        self.state().expire(Instant::now());
    }
}

impl State {
    /// Lets the oldest events go. Those stay that a connection has yet to hear.
    fn make_room(&mut self) {
        while self.events > MAX_EVENTS || self.bytes > MAX_BYTES {
            let oldest = self
                .streams
                .iter()
                .filter_map(|(id, stream)| Some((stream.oldest()?.since, *id)))
                .min();
            let Some((_, id)) = oldest else { return };
            self.forget(id);
        }
    }

    fn expire(&mut self, now: Instant) {
        let old = |event: &Event| now.duration_since(event.since) >= KEPT_FOR;
        let ids: Vec<StreamId> = self.streams.keys().copied().collect();
        for id in ids {
            while let Some(stream) = self.streams.get(&id)
                && stream.oldest().is_some_and(old)
            {
                self.forget(id);
            }
        }
    }

    /// Forgets a stream's oldest event.
    fn forget(&mut self, id: StreamId) {
        let event = self.streams.get_mut(&id).and_then(|it| it.kept.pop_front());
        if let Some(event) = event {
            self.events -= 1;
            self.bytes -= event.text.len();
        }
        self.drop_if_done(id);
    }

    /// A stream without events is remembered as long as one side may still say or hear something.
    fn drop_if_done(&mut self, id: StreamId) {
        let stream = self.streams.get(&id);
        if stream.is_some_and(|it| it.kept.is_empty() && it.is_done()) {
            self.streams.remove(&id);
        }
    }
}

impl Stream {
    /// The number of the first event that is kept.
    fn first(&self) -> u64 {
        self.next - self.kept.len() as u64
    }

    /// How many events the connection that reads has not heard.
    fn waiting(&self) -> usize {
        usize::try_from(self.next - self.unheard).unwrap_or(usize::MAX)
    }

    /// The oldest event, unless a connection has yet to hear it.
    fn oldest(&self) -> Option<&Event> {
        self.kept
            .front()
            .filter(|_| !self.is_read || self.first() < self.unheard)
    }

    /// The next event for the connection that reads.
    fn hear(&mut self) -> Option<Bytes> {
        self.unheard = self.unheard.max(self.first());
        let index = usize::try_from(self.unheard - self.first()).ok()?;
        let text = self.kept.get(index)?.text.clone();
        self.unheard += 1;
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
        Some(text)
    }

    fn is_done(&self) -> bool {
        !self.is_read && (self.is_over || self.kind == Kind::Session)
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

/// The parts of an id of ours.
fn parse(id: &str) -> Option<(u32, Kind, StreamId, u64)> {
    let mut parts = id.split('-');
    let run = u32::from_str_radix(parts.next()?, 16).ok()?;
    let stream = parts.next()?;
    let event = parts.next()?.parse().ok()?;
    let (kind, stream) = match stream.split_at_checked(1)? {
        ("c", stream) => (Kind::Call, stream),
        ("s", stream) => (Kind::Session, stream),
        _ => return None,
    };
    parts
        .next()
        .is_none()
        .then_some((run, kind, stream.parse().ok()?, event))
}

#[cfg(test)]
mod tests;
