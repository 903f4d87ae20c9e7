//! A daemon's stream of events, as a command reads it.

use std::{fmt, io, pin::Pin, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use sse_stream::SseByteStream;
use tokio::{task::JoinSet, time::timeout};

use super::{Event, MISSED, SNAPSHOT, Servers};

/// A daemon says at least that it is there every 15 s; one that is silent for longer is not.
const SILENCE: Duration = Duration::from_secs(45);

type Chunks = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// Reads what a daemon tells.
pub struct EventStream {
    events: SseByteStream<Chunks>,
    /// The last one's id.
    place: Option<String>,
    /// Does the connection's work; ends with us.
    _connection: JoinSet<()>,
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

/// What a daemon tells.
#[derive(Debug)]
pub enum Told {
    Snapshot(Servers),
    Missed,
    Event(Event),
}

impl EventStream {
    pub(super) fn new(body: Incoming, connection: JoinSet<()>) -> Self {
        let chunks = stream::unfold(body, async |mut body| {
            let frame = match timeout(SILENCE, body.frame()).await {
                Err(_) => Err(io::ErrorKind::TimedOut.into()),
                Ok(None) => return None,
                Ok(Some(frame)) => frame.map_err(io::Error::other),
            };
            Some((
                frame.map(|frame| frame.into_data().unwrap_or_default()),
                body,
            ))
        });
        Self {
            events: SseByteStream::new(Box::pin(chunks)),
            place: None,
            _connection: connection,
        }
    }

    /// Where to go on from with another stream.
    pub fn place(&self) -> Option<&str> {
        self.place.as_deref()
    }

    /// What comes next; `None` when the stream has ended, however it did: there is always another.
    pub async fn next(&mut self) -> Option<Told> {
        loop {
            let sse = match self.events.next().await? {
                Ok(sse) => sse,
                Err(error) => {
                    tracing::debug!(%error, "the stream of events broke off");
                    return None;
                }
            };
            if let Some(id) = sse.id {
                self.place = Some(id);
            }
            let data = sse.data.unwrap_or_default();
            let told = match sse.event.as_deref() {
                None => continue,
                Some(MISSED) => Ok(Told::Missed),
                Some(SNAPSHOT) => serde_json::from_str(&data).map(Told::Snapshot),
                Some(_) => serde_json::from_str(&data).map(Told::Event),
            };
            match told {
                Ok(told) => return Some(told),
                Err(error) => tracing::warn!(%error, "an event could not be read"),
            }
        }
    }
}
