//! Server-sent events of a response body, each bounded in size.

use std::{
    pin::Pin,
    sync::{Arc, atomic::{AtomicUsize, Ordering}},
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::StreamExt as _;
use http_body::{Body, Frame};
use hyper::body::Incoming;
use sse_stream::{Sse, SseStream};

#[derive(Debug, thiserror::Error)]
pub enum StreamBroken {
    #[error("an event exceeds {0} bytes")]
    TooLarge(usize),
    #[error(transparent)]
    Broken(#[from] sse_stream::Error),
}

/// The events of one response.
pub struct Events {
    stream: SseStream<Metered>,
    unparsed: Arc<AtomicUsize>,
    limit: usize,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl Events {
    pub fn new(body: Incoming, limit: usize) -> Self {
        let unparsed = Arc::new(AtomicUsize::new(0));
        let body = Metered { body, unparsed: Arc::clone(&unparsed), limit };
        Self { stream: SseStream::new(body), unparsed, limit }
    }

    /// The next event; `None` when the server has ended the stream. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Sse, StreamBroken>> {
        let event = self.stream.next().await?;
        let unparsed = self.unparsed.swap(0, Ordering::Relaxed);
        Some(match event {
            Err(_) if unparsed > self.limit => Err(StreamBroken::TooLarge(self.limit)),
            other => other.map_err(StreamBroken::from),
        })
    }
}

/// Counts what was read since the last event, and breaks the stream off where that is too much: the
/// parser itself has no bound.
struct Metered {
    body: Incoming,
    unparsed: Arc<AtomicUsize>,
    limit: usize,
}

#[derive(Debug, thiserror::Error)]
enum MeterError {
    #[error("too large")]
    TooLarge,
    #[error(transparent)]
    Body(#[from] hyper::Error),
}

impl Body for Metered {
    type Data = Bytes;
    type Error = MeterError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            let length = frame.data_ref().map_or(0, Bytes::len);
            if self.unparsed.fetch_add(length, Ordering::Relaxed) + length > self.limit {
                return Poll::Ready(Some(Err(MeterError::TooLarge)));
            }
        }
        polled.map_err(MeterError::from)
    }
}
