//! A response body of server-sent events from a channel.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::sync::mpsc;

use crate::session::Outgoing;

/// The error of a connection that is broken on purpose.
#[derive(Debug, thiserror::Error)]
#[error("stream cut")]
pub(crate) struct Cut;

/// The state of a deliberate cut.
enum End {
    Open,
    /// Cuts after the earlier messages are written.
    Soon,
    Now,
}

pub(crate) struct EventBody {
    source: mpsc::UnboundedReceiver<Outgoing>,
    /// A message that was sent before the stream was opened.
    first: Option<Outgoing>,
    /// Encoded text that is not yet written.
    chunk: String,
    /// True to write everything in one chunk at the end.
    coalesce: bool,
    end: End,
    /// True to write messages without framing, as one JSON document.
    bare: bool,
    /// True to omit the last blank line.
    unfinished: bool,
}

impl EventBody {
    pub fn new(source: mpsc::UnboundedReceiver<Outgoing>) -> Self {
        Self {
            source,
            first: None,
            chunk: String::new(),
            coalesce: false,
            end: End::Open,
            bare: false,
            unfinished: false,
        }
    }

    /// Sends the first half of a JSON document, then breaks the connection.
    pub fn broken_json(half_text: String) -> Self {
        let (_, empty_channel) = mpsc::unbounded_channel();
        Self {
            bare: true,
            ..Self::new(empty_channel).starting_with(Some(Outgoing::Half(half_text)))
        }
    }

    /// Sends this text, then ends.
    pub fn ended(text: &str) -> Self {
        let (_, empty_channel) = mpsc::unbounded_channel();
        Self {
            chunk: text.to_owned(),
            ..Self::new(empty_channel)
        }
    }

    /// Omits the blank line after the last message.
    pub fn unfinished(mut self, is_unfinished: bool) -> Self {
        self.unfinished = is_unfinished;
        self
    }

    pub fn starting_with(mut self, first: Option<Outgoing>) -> Self {
        self.first = first;
        self
    }

    pub fn coalesced(mut self, coalesce: bool) -> Self {
        self.coalesce = coalesce;
        self
    }

    /// Adds the `endpoint` event of the 2024-11-05 transport.
    pub fn with_endpoint(mut self, url: &str) -> Self {
        self.chunk = format!("event: endpoint\ndata: {url}\n\n");
        self
    }

    fn next(&mut self, context: &mut Context) -> Poll<Option<Outgoing>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(first)),
            None => self.source.poll_recv(context),
        }
    }

    fn flush(&mut self) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let chunk = std::mem::take(&mut self.chunk);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(chunk)))))
    }
}

impl Body for EventBody {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let this = self.get_mut();
        match this.end {
            End::Open => {}
            End::Soon => {
                this.end = End::Now;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            End::Now => return Poll::Ready(Some(Err(Cut))),
        }
        loop {
            if !this.chunk.is_empty() && !this.coalesce {
                return this.flush();
            }
            match ready!(this.next(context)) {
                Some(Outgoing::Message { text, last }) => {
                    this.chunk.push_str("event: message\n");
                    for line in text.split('\n') {
                        this.chunk.push_str("data: ");
                        this.chunk.push_str(line);
                        this.chunk.push('\n');
                    }
                    if !(last && this.unfinished) {
                        this.chunk.push('\n');
                    }
                }
                Some(Outgoing::Half(text)) => {
                    if !this.bare {
                        this.chunk.push_str("event: message\ndata: ");
                    }
                    this.chunk.push_str(&text);
                    this.end = End::Soon;
                    return this.flush();
                }
                Some(Outgoing::Cut) => {
                    this.end = End::Now;
                    return Poll::Ready(Some(Err(Cut)));
                }
                None if this.chunk.is_empty() => return Poll::Ready(None),
                None => return this.flush(),
            }
        }
    }
}
