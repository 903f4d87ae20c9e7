//! Server-sent events of a response body, each bounded in size.

use bytes::Bytes;
use mainstay_platform::event_stream::{EventParser, ServerSentEvent, TooLarge};

use crate::{
    Frame,
    http::http1::{self, Response},
};

#[derive(Debug, thiserror::Error)]
pub enum StreamBroken {
    /// One event is too large. The stream continues after it.
    #[error("an event exceeds {limit} bytes")]
    TooLarge { limit: usize, head: Bytes },
    #[error(transparent)]
    Broken(#[from] http1::Error),
}

/// The events of one response.
#[derive(Debug)]
pub struct EventReader {
    response: Response,
    parser: EventParser,
    ended: Option<StreamEnd>,
}

/// The end of the response, which follows the last event.
#[derive(Debug)]
enum StreamEnd {
    InOrder,
    Broken(http1::Error),
}

impl EventReader {
    pub fn new(response: Response, limit: usize) -> Self {
        Self {
            response,
            parser: EventParser::new(limit),
            ended: None,
        }
    }

    /// The next event. `None` after the server has ended the stream. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<ServerSentEvent, StreamBroken>> {
        loop {
            match self.ended.take() {
                Some(StreamEnd::InOrder) => return None,
                Some(StreamEnd::Broken(error)) => return Some(Err(error.into())),
                None => {}
            }
            if let Some(event) = self.parser.next_event() {
                let limit = self.parser.limit();
                return Some(
                    event.map_err(|TooLarge { head }| StreamBroken::TooLarge { limit, head }),
                );
            }
            let ended = match self.response.data().await {
                Some(Ok(data)) => {
                    self.parser.push(data);
                    continue;
                }
                None => StreamEnd::InOrder,
                Some(Err(error)) => StreamEnd::Broken(error),
            };
            self.ended = Some(ended);
            // Some servers omit the blank line after the last event.
            if let Some(event) = self.parser.last_event().filter(is_whole) {
                return Some(Ok(event));
            }
        }
    }

    /// Stops reading. The connection is reused once the rest of the stream has arrived.
    pub fn finish(self) {
        self.response.linger();
    }
}

/// True if an event without its final blank line holds a whole message.
fn is_whole(event: &ServerSentEvent) -> bool {
    let data = event.data.clone();
    data.is_some_and(|data| Frame::of_server(data).is_ok())
}
