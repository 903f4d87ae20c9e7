//! The stream that a Streamable HTTP server opens on GET, for messages that belong to no call (specification
//! 2025-11-25, "Listening for Messages from the Server").

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use mainstay_core::lifecycle::Loss;
use tokio::{sync::oneshot, time::Instant};

use crate::{
    Frame,
    exchanges::pending::PendingRequests,
    http::{
        events::{EventReader, StreamBroken},
        http_client::{MAX_REDIRECTS, retry_after},
        http1::{Error, Head, Response},
    },
    logs::pause,
    streamable::{http_link::HttpLink, session_doubt::Refused},
};

/// The first and the longest wait before an ended or refused stream is opened again. The wait doubles with
/// each stream that ends soon.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LAST_WAIT: Duration = Duration::from_secs(30);

/// The longest wait after a refusal, even if the server names a longer one.
const LAST_REFUSED_WAIT: Duration = Duration::from_secs(300);

/// The lower bound of a wait that the server names after a stream that was not short-lived.
const MIN_RETRY: Duration = Duration::from_millis(100);

/// The minimum time from one opening to the next, after a stream that was not short-lived.
const MIN_CYCLE: Duration = Duration::from_secs(2);

/// A stream that ends before this time is short-lived.
const SHORT_LIVED: Duration = Duration::from_secs(1);

/// The state of the stream for messages that belong to no call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StreamState {
    #[default]
    Opening,
    Open,
    /// The stream is not open. The text is the reason.
    Closed(String),
}

impl StreamState {
    pub fn is_open(&self) -> bool {
        *self == Self::Open
    }

    /// The reason that the stream is not open.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Opening => Some("the server has not answered GET yet"),
            Self::Open => None,
            Self::Closed(reason) => Some(reason),
        }
    }
}

/// Decides when a stream is opened again.
#[derive(Debug)]
struct StreamPace {
    wait: Duration,
}

impl StreamPace {
    fn new() -> Self {
        Self { wait: FIRST_WAIT }
    }

    /// The wait after a stream that lasted `lived`. `retry` is the wait that the server named. If the server
    /// ends each stream at once, the waits grow, even if the server names shorter ones.
    fn after_end(&mut self, lived: Duration, retry: Option<Duration>) -> Duration {
        if lived >= SHORT_LIVED {
            self.wait = FIRST_WAIT;
            let rest = MIN_CYCLE.saturating_sub(lived);
            return retry
                .unwrap_or(FIRST_WAIT)
                .clamp(MIN_RETRY, LAST_WAIT)
                .max(rest);
        }
        self.grow(LAST_WAIT)
            .max(retry.unwrap_or_default().min(LAST_WAIT))
    }

    /// The wait after a refusal. `retry_after` is the wait that the server named.
    fn after_refusal(&mut self, retry_after: Option<Duration>) -> Duration {
        let wait = self.grow(LAST_REFUSED_WAIT);
        wait.max(retry_after.unwrap_or_default().min(LAST_REFUSED_WAIT))
    }

    fn grow(&mut self, most: Duration) -> Duration {
        let wait = self.wait.min(most);
        self.wait = (wait * 2).min(most);
        wait
    }
}

/// The next step after an attempt to open the stream.
enum Next {
    /// Open the stream again after this wait.
    Wait(Duration),
    /// Open the stream again at once, on a new connection.
    Again,
    /// Do not open the stream again: the server has none, or the session is lost.
    Never,
}

/// Reads the GET stream of one session.
pub struct GetStream {
    link: Arc<HttpLink>,
    /// Empty, because no call waits for a message of this stream.
    no_calls: PendingRequests,
    pace: StreamPace,
    last_event: Option<String>,
    /// True if the server has opened the stream before.
    was_open: bool,
    /// Consecutive redirects.
    redirects: usize,
}

impl GetStream {
    pub fn new(link: Arc<HttpLink>) -> Self {
        Self {
            no_calls: PendingRequests::new(link.router.server().clone()),
            link,
            pace: StreamPace::new(),
            last_event: None,
            was_open: false,
            redirects: 0,
        }
    }

    /// Reads the stream while the server offers one. Drops `unanswered` once the server has answered the
    /// first GET.
    pub async fn run(mut self, unanswered: oneshot::Sender<()>) {
        let mut unanswered = Some(unanswered);
        loop {
            let get = self.link.get_stream(self.last_event.as_deref());
            let answered = tokio::select! {
                answered = get => answered,
                () = self.link.forgotten.notified() => continue,
            };
            drop(unanswered.take());
            match self.follow(answered).await {
                Next::Never => return,
                Next::Again => {}
                Next::Wait(wait) => {
                    tokio::time::sleep(wait).await;
                    // Do not open the broken streams of many servers at the same time.
                    self.link.attempt_limiter.take().await;
                }
            }
        }
    }

    async fn follow(&mut self, answered: Result<Response, Error>) -> Next {
        match answered {
            Ok(response) if response.head.is_success() && response.head.is_event_stream => {
                (self.was_open, self.redirects) = (true, 0);
                self.show(StreamState::Open);
                let next = self.read(response).await;
                self.show(StreamState::Closed(
                    "the server ended the stream".to_owned(),
                ));
                next
            }
            Ok(response)
                if self.redirects < MAX_REDIRECTS
                    && self.link.stream_target.redirect(&response.head) =>
            {
                self.redirects += 1;
                Next::Again
            }
            Ok(response) => self.handle_refusal(&response.head).await,
            Err(
                error @ (Error::Unauthorized(_)
                | Error::Forbidden(_)
                | Error::CredentialsUnavailable(_)),
            ) => {
                self.show(StreamState::Closed(error.to_string()));
                Next::Wait(self.pace.after_refusal(None))
            }
            // The server is gone if it accepts no connection, or if it has opened a stream before. Otherwise
            // a server that accepts a connection and drops it may only lack support for GET.
            Err(error) if self.was_open || matches!(error, Error::Connect(_)) => {
                self.link.lose(Loss::Disconnected(error.to_string()));
                Next::Never
            }
            Err(error) => {
                self.show(StreamState::Closed(format!("no answer to GET: {error}")));
                Next::Wait(self.pace.after_refusal(None))
            }
        }
    }

    async fn handle_refusal(&mut self, head: &Head) -> Next {
        let status = head.status;
        self.show(StreamState::Closed(format!("HTTP {status} to GET")));
        let is_absent = match status {
            200..300 | 405 | 406 | 501 => true,
            // Some servers have no route for GET.
            404 => !self.was_open,
            _ => false,
        };
        if is_absent {
            return Next::Never;
        }
        if self.link.has_session()
            && let Some(refused) = Refused::of_status(status)
            && Arc::clone(&self.link).loses_session(refused, None).await
        {
            return Next::Never;
        }
        let retry_after = head
            .get("retry-after")
            .and_then(|value| retry_after(value, SystemTime::now()));
        Next::Wait(self.pace.after_refusal(retry_after))
    }

    /// Passes on the messages of the stream until it ends.
    async fn read(&mut self, response: Response) -> Next {
        let opened = Instant::now();
        let mut retry = None;
        let mut events = EventReader::new(response, self.link.max_message_bytes);
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = self.link.forgotten.notified() => return Next::Again,
            };
            let event = match event {
                Some(Ok(event)) => event,
                Some(Err(error @ StreamBroken::TooLarge { .. })) => {
                    if let Some(times) = self.link.router.fault() {
                        tracing::warn!(server = %self.link.router.server(), %error, times, "a notification was dropped");
                    }
                    continue;
                }
                Some(Err(StreamBroken::Broken(_))) | None => {
                    return Next::Wait(self.pace.after_end(opened.elapsed(), retry));
                }
            };
            retry = event.retry.map(Duration::from_millis).or(retry);
            self.last_event = event.id.or(self.last_event.take());
            if let Some(data) = event.data.filter(|data| !data.is_empty()) {
                let bytes = data.len();
                let wait = match Frame::of_server_aside(data).await {
                    Ok(frame) => {
                        self.link.liveness.note_message();
                        self.link.router.route(frame, &self.no_calls)
                    }
                    Err(error) => self.link.router.skip(bytes, &error),
                };
                pause(wait).await;
            }
        }
    }

    fn show(&self, state: StreamState) {
        *self.link.stream_state.lock() = state;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// The waits grow even if the server names `retry: 0`.
    #[test]
    fn a_stream_that_ends_at_once_is_opened_ever_more_rarely() {
        for retry in [None, Some(Duration::ZERO)] {
            let mut pace = StreamPace::new();
            let waits: Vec<_> = (0..7)
                .map(|_| pace.after_end(Duration::from_millis(5), retry).as_secs())
                .collect();
            assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
        }
        let mut pace = StreamPace::new();
        assert_eq!(pace.after_end(Duration::ZERO, Some(s(10))), s(10));
        assert_eq!(pace.after_end(Duration::ZERO, Some(s(1000))), LAST_WAIT);
    }

    #[test]
    fn a_stream_that_has_lived_is_opened_when_its_server_says() {
        let mut pace = StreamPace::new();
        for _ in 0..9 {
            pace.after_end(Duration::ZERO, None);
        }
        let half = Duration::from_millis(500);
        assert_eq!(pace.after_end(s(2), Some(half)), half);
        assert_eq!(pace.after_end(s(1), Some(Duration::ZERO)), s(1));
        assert_eq!(pace.after_end(s(9), Some(Duration::ZERO)), MIN_RETRY);
        assert_eq!(pace.after_end(s(1), Some(s(1000))), LAST_WAIT);
        assert_eq!(pace.after_end(s(9), None), FIRST_WAIT);
        assert_eq!(pace.after_end(Duration::ZERO, None), FIRST_WAIT);
    }

    #[test]
    fn a_refused_stream_is_tried_again_when_its_server_says() {
        let mut pace = StreamPace::new();
        let waits: Vec<_> = (0..11)
            .map(|_| pace.after_refusal(None).as_secs())
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        let mut pace = StreamPace::new();
        assert_eq!(pace.after_refusal(Some(s(20))), s(20));
        assert_eq!(pace.after_refusal(Some(s(2000))), LAST_REFUSED_WAIT);
    }
}
