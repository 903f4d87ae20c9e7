//! A call that its caller follows (`Accept: text/event-stream`): the server's progress and log messages,
//! then the answer, as server-sent events. A caller that goes away before the answer cancels the call.

use std::{sync::Arc, time::Duration};

use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use mainstay_api as api;
use mainstay_core::message::{self, Kind, Method};
use mainstay_gateway::calls::{CallSink, CallStream, Calls, Client};
use mainstay_transport::Frame;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep_until},
};

use super::event_stream;

/// Intermediaries cut off a stream that is silent for longer.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Why a call is cancelled whose caller has gone.
const GONE: &str = "the caller does not wait for the answer";

/// The call's end of a stream.
#[derive(Debug)]
pub struct Follower {
    pub sink: CallSink,
    pub cancelled: oneshot::Receiver<String>,
}

/// The caller's end of it. Dropped before the answer, it cancels the call.
pub struct Followed {
    messages: CallStream,
    cancel: Option<oneshot::Sender<String>>,
}

impl Follower {
    pub fn new(client: Arc<Client>) -> (Self, Followed) {
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
    /// Carries the call out in the background, and tells of it. `answering` is the call, and its answer as it
    /// would be sent to a caller that does not follow.
    pub fn response(
        self,
        calls: &Calls,
        answering: impl Future<Output = Response> + Send + 'static,
    ) -> Response {
        let (tell, told) = oneshot::channel();
        calls.in_background(async move {
            // The caller may have gone.
            tell.send(answering.await).ok();
        });
        let telling = Telling {
            followed: self,
            told: Some(told),
            silent_until: Instant::now() + KEEP_ALIVE,
        };
        event_stream::response(stream::unfold(telling, |mut telling| async move {
            Some((telling.next().await?, telling))
        }))
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        if let Some(cancel) = self.cancel.take() {
            // The call may be over.
            cancel.send(GONE.to_owned()).ok();
        }
    }
}

struct Telling {
    followed: Followed,
    /// `None` once the answer is sent.
    told: Option<oneshot::Receiver<Response>>,
    silent_until: Instant,
}

/// What is to be told.
enum Due {
    Message(String),
    /// The call is over.
    Over(Option<Response>),
    Silence,
}

impl Telling {
    /// What to send next; `None` after the answer.
    async fn next(&mut self) -> Option<String> {
        loop {
            let told = self.told.as_mut()?;
            let due = tokio::select! {
                biased;
                Some(message) = self.followed.messages.next() => Due::Message(message),
                told = told => Due::Over(told.ok()),
                () = sleep_until(self.silent_until) => Due::Silence,
            };
            self.silent_until = Instant::now() + KEEP_ALIVE;
            match due {
                Due::Message(message) => {
                    if let Some(event) = event_of(message) {
                        return Some(event);
                    }
                }
                Due::Silence => return Some(": keep-alive\n\n".to_owned()),
                Due::Over(answer) => {
                    self.told = None;
                    self.followed.cancel = None;
                    // Without one the daemon has stopped.
                    return Some(last_event(answer?).await);
                }
            }
        }
    }
}

/// The notification of a server as an event: its `params`, which have no line breaks.
fn event_of(message: String) -> Option<String> {
    let frame = Frame::read(message.into()).ok()?;
    let Kind::Notification { .. } = frame.envelope().kind else {
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

/// The answer with its status.
async fn last_event(answer: Response) -> String {
    use http_body_util::BodyExt as _;
    let status = answer.status().as_u16();
    let body = match answer.into_body().collect().await {
        Ok(body) => body.to_bytes(),
        // It is in memory.
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
