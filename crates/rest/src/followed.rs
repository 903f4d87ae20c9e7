//! A followed call (`Accept: text/event-stream`). The response is a stream of server-sent events:
//! progress and log messages of the server, then the answer. A caller that disconnects before the
//! answer cancels the call.

use std::{sync::Arc, time::Duration};

use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use mainstay_api as api;
use mainstay_core::message::{self, MessageKind, Method};
use mainstay_gateway::calls::{CallClient, CallSink, CallStream, Calls};
use mainstay_transport::Frame;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep_until},
};

use super::event_stream;

/// Interval of keep-alive comments. Proxies close a stream that is silent for longer.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The reason for the cancellation when the caller has disconnected.
const GONE: &str = "the caller does not wait for the answer";

/// The call's side of the stream.
#[derive(Debug)]
pub struct Follower {
    pub sink: CallSink,
    pub cancelled: oneshot::Receiver<String>,
}

/// The caller's side of the stream. Dropping it before the answer cancels the call.
pub struct Followed {
    messages: CallStream,
    cancel: Option<oneshot::Sender<String>>,
}

impl Follower {
    pub fn new(client: Arc<CallClient>) -> (Self, Followed) {
        let (sink, messages) = CallSink::new(client, None);
        let (cancel, cancelled) = oneshot::channel();
        let followed = Followed {
            messages,
            cancel: Some(cancel),
        };
        (Self { sink, cancelled }, followed)
    }
}

impl Followed {
    /// Runs the call in the background, and responds with its events. `answering` resolves to the
    /// response that the caller would get without following.
    pub fn response(
        self,
        calls: &Calls,
        answering: impl Future<Output = Response> + Send + 'static,
    ) -> Response {
        let (answer_sender, answer) = oneshot::channel();
        calls.in_background(async move {
            // An error means that the caller has disconnected.
            answer_sender.send(answering.await).ok();
        });
        let followed_stream = FollowedStream {
            followed: self,
            answer: Some(answer),
            silent_until: Instant::now() + KEEP_ALIVE,
        };
        event_stream::response(stream::unfold(
            followed_stream,
            |mut followed_stream| async move { Some((followed_stream.next().await?, followed_stream)) },
        ))
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        if let Some(cancel) = self.cancel.take() {
            // An error means that the call has already ended.
            cancel.send(GONE.to_owned()).ok();
        }
    }
}

struct FollowedStream {
    followed: Followed,
    /// `None` once the answer is sent.
    answer: Option<oneshot::Receiver<Response>>,
    silent_until: Instant,
}

/// The cause of the next text in the stream.
enum StreamEvent {
    Message(String),
    /// The call has ended. `None` if the daemon stopped before the answer.
    Over(Option<Response>),
    Silence,
}

impl FollowedStream {
    /// The next text of the stream; `None` after the answer.
    async fn next(&mut self) -> Option<String> {
        loop {
            let answer = self.answer.as_mut()?;
            let due = tokio::select! {
                biased;
                Some(message) = self.followed.messages.next() => StreamEvent::Message(message),
                answer = answer => StreamEvent::Over(answer.ok()),
                () = sleep_until(self.silent_until) => StreamEvent::Silence,
            };
            self.silent_until = Instant::now() + KEEP_ALIVE;
            match due {
                StreamEvent::Message(message) => {
                    if let Some(event) = event_of(message) {
                        return Some(event);
                    }
                }
                StreamEvent::Silence => return Some(": keep-alive\n\n".to_owned()),
                StreamEvent::Over(answer) => {
                    self.answer = None;
                    self.followed.cancel = None;
                    // `None` ends the stream without an answer.
                    return Some(last_event(answer?).await);
                }
            }
        }
    }
}

/// Encodes a notification of the server as an event with its `params`. `None` for other messages.
fn event_of(message: String) -> Option<String> {
    let frame = Frame::read(message.into()).ok()?;
    let MessageKind::Notification { .. } = frame.envelope().kind else {
        return None;
    };
    let kind = match frame.method()? {
        Method::Progress => api::PROGRESS,
        Method::LogMessage => api::LOG_MESSAGE,
        _ => return None,
    };
    let params = message::one_line(frame.params().unwrap_or("{}"));
    Some(format!("event: {kind}\ndata: {params}\n\n"))
}

/// Encodes the answer and its HTTP status as the last event.
async fn last_event(answer: Response) -> String {
    use http_body_util::BodyExt as _;
    let status = answer.status().as_u16();
    let body = match answer.into_body().collect().await {
        Ok(body) => body.to_bytes(),
        // The body is in memory, so it can always be read.
        Err(_) => Bytes::new(),
    };
    let body = String::from_utf8_lossy(&body);
    let body = message::one_line(body.trim());
    let body = if body.is_empty() { "null" } else { &body };
    let kind = api::ANSWER;
    format!("event: {kind}\ndata: {{\"status\":{status},\"body\":{body}}}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_are_events_and_nothing_else_is() {
        let progress =
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}"#;
        assert_eq!(
            event_of(progress.to_owned()).as_deref(),
            Some("event: progress\ndata: {\"progress\":1}\n\n")
        );
        for other in [
            r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            "no JSON",
        ] {
            assert_eq!(event_of(other.to_owned()), None, "{other}");
        }
    }
}
