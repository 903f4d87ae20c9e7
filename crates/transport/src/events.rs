//! Server-sent events of a response body, each bounded in size.

use bytes::Bytes;
use mainstay_platform::event_stream::{Event, EventParser, TooLarge};

use super::http1::{self, Response};

#[derive(Debug, thiserror::Error)]
pub enum StreamBroken {
    /// One event; the stream goes on after it.
    #[error("an event exceeds {limit} bytes")]
    TooLarge { limit: usize, head: Bytes },
    #[error(transparent)]
    Broken(#[from] http1::Error),
}

/// The events of one response.
#[derive(Debug)]
pub struct Events {
    response: Response,
    parser: EventParser,
}

impl Events {
    pub fn new(response: Response, limit: usize) -> Self {
        Self {
            response,
            parser: EventParser::new(limit),
        }
    }

    /// The next event; `None` when the server has ended the stream. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Event, StreamBroken>> {
        loop {
            if let Some(event) = self.parser.next_event() {
                let limit = self.parser.limit();
                return Some(
                    event.map_err(|TooLarge { head }| StreamBroken::TooLarge { limit, head }),
                );
            }
            match self.response.data().await? {
                Ok(data) => self.parser.push(data),
                Err(error) => return Some(Err(error.into())),
            }
        }
    }

    /// What follows is of no interest: the connection is kept for the next request.
    pub fn finish(self) {
        self.response.linger();
    }
}
