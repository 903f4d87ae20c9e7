//! Server-sent events of a response body, each bounded in size.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use sse_stream::{Sse, SseByteStream};

use super::http1::{self, Response};

#[derive(Debug, thiserror::Error)]
pub enum StreamBroken {
    /// One event; the stream goes on after it.
    #[error("an event exceeds {limit} bytes")]
    TooLarge { limit: usize, head: String },
    #[error(transparent)]
    Broken(#[from] sse_stream::Error),
}

/// The events of one response.
pub struct Events {
    stream: SseByteStream<Metered>,
    meter: Arc<Meter>,
    limit: usize,
}

#[derive(Debug, Default)]
struct Meter {
    /// Bytes read since the last event.
    unparsed: AtomicUsize,
    /// The event that comes next was cut off at the limit.
    cut: AtomicBool,
    /// Whether nothing of interest is left: the connection may be used again.
    finished: AtomicBool,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl Events {
    pub fn new(response: Response, limit: usize) -> Self {
        let meter = Arc::new(Meter::default());
        let metered = Metered {
            response: Some(response),
            meter: Arc::clone(&meter),
            limit,
            skipping: None,
        };
        Self {
            stream: SseByteStream::new(metered),
            meter,
            limit,
        }
    }

    /// The next event; `None` when the server has ended the stream. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Sse, StreamBroken>> {
        let event = self.stream.next().await?;
        self.meter.unparsed.store(0, Ordering::Relaxed);
        if self.meter.cut.swap(false, Ordering::Relaxed) {
            let data = event.ok().and_then(|event| event.data).unwrap_or_default();
            return Some(Err(StreamBroken::TooLarge {
                limit: self.limit,
                head: data.chars().take(KEPT_HEAD).collect(),
            }));
        }
        Some(event.map_err(StreamBroken::from))
    }

    /// What follows is of no interest: the connection is kept for the next request.
    pub fn finish(self) {
        self.meter.finished.store(true, Ordering::Relaxed);
    }
}

/// How much of an oversized event is kept, to say whose answer it was.
const KEPT_HEAD: usize = 1024;

/// Counts what was read since the last event, and cuts an event off at the limit: the parser itself
/// has no bound.
struct Metered {
    response: Option<Response>,
    meter: Arc<Meter>,
    limit: usize,
    /// Inside the rest of an event that was cut off: whether a line has just ended.
    skipping: Option<bool>,
}

impl Metered {
    /// What the parser shall see of `data`: the rest of an oversized event is left out up to the
    /// blank line that ends it.
    fn pass(&mut self, mut data: Bytes) -> Bytes {
        let Some(line_ended) = &mut self.skipping else {
            let length = data.len();
            if self.meter.unparsed.fetch_add(length, Ordering::Relaxed) + length <= self.limit {
                return data;
            }
            self.meter.cut.store(true, Ordering::Relaxed);
            self.skipping = Some(false);
            return self.pass(data);
        };
        for (index, byte) in data.iter().enumerate() {
            match byte {
                b'\n' if *line_ended => {
                    self.skipping = None;
                    let mut rest = b"\n\n".to_vec();
                    rest.extend_from_slice(&data.split_off(index + 1));
                    return rest.into();
                }
                b'\n' => *line_ended = true,
                b'\r' => {}
                _ => *line_ended = false,
            }
        }
        Bytes::new()
    }
}

impl Stream for Metered {
    type Item = Result<Bytes, http1::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let Some(response) = &mut self.response else {
                return Poll::Ready(None);
            };
            match std::task::ready!(response.poll_data(context)) {
                Some(Ok(data)) => {
                    let data = self.pass(data);
                    if !data.is_empty() {
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
                end => return Poll::Ready(end),
            }
        }
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        if self.meter.finished.load(Ordering::Relaxed)
            && let Some(response) = self.response.take()
        {
            response.linger();
        }
    }
}
