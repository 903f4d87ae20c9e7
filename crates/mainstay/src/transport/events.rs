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
    #[error("an event exceeds {0} bytes")]
    TooLarge(usize),
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
        let unparsed = self.meter.unparsed.swap(0, Ordering::Relaxed);
        Some(match event {
            Err(_) if unparsed > self.limit => Err(StreamBroken::TooLarge(self.limit)),
            other => other.map_err(StreamBroken::from),
        })
    }

    /// What follows is of no interest: the connection is kept for the next request.
    pub fn finish(self) {
        self.meter.finished.store(true, Ordering::Relaxed);
    }
}

/// Counts what was read since the last event, and breaks the stream off where that is too much: the
/// parser itself has no bound.
struct Metered {
    response: Option<Response>,
    meter: Arc<Meter>,
    limit: usize,
}

#[derive(Debug, thiserror::Error)]
enum MeterError {
    #[error("too large")]
    TooLarge,
    #[error(transparent)]
    Body(#[from] http1::Error),
}

impl Stream for Metered {
    type Item = Result<Bytes, MeterError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(response) = &mut self.response else {
            return Poll::Ready(None);
        };
        let polled = response.poll_data(context);
        if let Poll::Ready(Some(Ok(data))) = &polled {
            let length = data.len();
            if self.meter.unparsed.fetch_add(length, Ordering::Relaxed) + length > self.limit {
                return Poll::Ready(Some(Err(MeterError::TooLarge)));
            }
        }
        polled.map(|data| data.map(|data| data.map_err(MeterError::from)))
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
