//! Servers behind HTTP+SSE, the transport of revision 2024-11-05: one event stream for everything that
//! the server says, and a POST for every message to it.

use std::sync::Arc;

use http::Uri;
use mainstay_core::{
    config::HttpLaunch,
    era::{Era, Eras},
    lifecycle::Loss,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::logs::{MESSAGE, pause};

use super::{
    Asker, Budget, Exchange, Frame, Interruption, InterruptionKind, MAX_GREETING, Opening, Running,
    Said, Session,
    events::{Events, StreamBroken},
    exchange::Way,
    greet,
    http_client::{self, Target, Template},
    http1::{Error, Responding, Response},
    message_router::MessageRouter,
    pending::{Broken, Pending, Ticket},
    refusals,
    session::Link,
    vitals::Vitals,
};

/// Answers to a server's requests that may wait to be posted.
const MAX_OUTGOING: usize = 64;

/// The sending side of one connection.
pub struct SseLink {
    /// Where to post, as the server's `endpoint` event said.
    endpoint: Target,
    post: Template,
    pending: Arc<Pending>,
    outgoing: mpsc::Sender<String>,
}

impl std::fmt::Debug for SseLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SseLink")
            .field("endpoint", &self.endpoint.uri)
            .finish_non_exhaustive()
    }
}

pub async fn open(opening: &Opening, launch: &HttpLaunch) -> Result<(Session, Running), Loss> {
    let close = opening.stop.close.clone();
    tokio::select! {
        opened = greet_server(opening, launch) => opened,
        () = close.cancelled() => Err(Loss::Disconnected("stopped".to_owned())),
    }
}

async fn greet_server(opening: &Opening, launch: &HttpLaunch) -> Result<(Session, Running), Loss> {
    let target = Target::new(launch, Some(opening.lineage.chain()))
        .map_err(|error| Loss::Misconfigured(error.to_string()))?;
    let (mut events, target) = subscribe(target, launch, opening.max_message_bytes).await?;
    let endpoint = target.at(endpoint(&mut events, &target.uri).await?);

    let post = endpoint.template("POST", &[("content-type", "application/json")]);
    let pending = Arc::new(Pending::default());
    let vitals = Arc::new(Vitals::new(opening.hang_after));
    let (outgoing, answers) = mpsc::channel(MAX_OUTGOING);
    let link = Arc::new(SseLink {
        endpoint,
        post,
        pending: Arc::clone(&pending),
        outgoing,
    });
    let stream = Stream {
        events,
        link: Arc::clone(&link),
        vitals: Arc::clone(&vitals),
        router: MessageRouter::new(
            opening.server.clone(),
            opening.listener.clone(),
            Arc::clone(&opening.log),
        ),
    };
    // From here on the stream is read by its own task; before its end is known, nothing is returned.
    let close = opening.stop.close.child_token();
    let running = tokio::spawn(stream.run(answers, close.clone()));
    let ended = async move {
        running
            .await
            .unwrap_or_else(|error| Loss::Disconnected(format!("its task failed: {error}")))
    };

    let session_link = Link::Sse(Arc::clone(&link));
    let greeted = match handshake(&link, &opening.initialize).await {
        Ok(answer) => greet(&answer).map(|greeting| (greeting, answer)),
        Err(Interruption {
            kind:
                InterruptionKind::Refused {
                    status: status @ (401 | 403),
                    ..
                },
            ..
        }) => Err(Loss::Unauthorized(format!(
            "HTTP {status}{}",
            refusals::advice(status)
        ))),
        Err(interruption) => Err(Loss::ConnectFailed(interruption.kind.reason())),
    };
    match greeted {
        Ok((greeting, initialize_answer)) => {
            let session = Session {
                greeting,
                initialize_answer,
                eras: Eras::only(Era::Legacy),
                pid: None,
                vitals,
                server: opening.server.clone(),
                link: session_link,
                listening: None,
            };
            session.initialized().await;
            Ok((session, Box::pin(ended)))
        }
        Err(loss) => {
            close.cancel();
            ended.await;
            Err(loss)
        }
    }
}

async fn handshake(link: &Arc<SseLink>, params: &str) -> Result<Frame, Interruption> {
    let mut exchange = link
        .start(None, |id| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{params}}}"#)
        })
        .map_err(|_| Interruption::not_sent(InterruptionKind::Lost))?;
    exchange.answer_within(&Budget::new(MAX_GREETING)).await
}

async fn subscribe(
    target: Target,
    launch: &HttpLaunch,
    limit: usize,
) -> Result<(Events, Target), Loss> {
    let uri = target.uri.clone();
    let (response, target) = target
        .follow("GET", &[("accept", "text/event-stream")], None)
        .await
        .map_err(|error| refusals::unanswered(&uri, &error))?;
    match response.head.status {
        401 | 403 => Err(refusals::unauthorized(&response.head, launch)),
        200..300 if response.head.is_event_stream => Ok((Events::new(response, limit), target)),
        status @ 200..300 => {
            let body = http_client::error_text(response).await;
            let mut refusal = refusals::Refusal::new(&target.uri, status, "GET", &body);
            if !refusal.said.starts_with("a web page") {
                "the answer to GET is no event stream".clone_into(&mut refusal.said);
            }
            Err(Loss::ConnectFailed(refusal.whole()))
        }
        _ => Err(http_client::unavailable(&target.uri, response, "GET").await),
    }
}

/// The first event says where to post. It must be the same origin: our headers go there.
async fn endpoint(events: &mut Events, stream: &Uri) -> Result<Uri, Loss> {
    while let Some(Ok(event)) = events.next().await {
        if event.name.as_deref() == Some("endpoint") {
            let data = event.data.unwrap_or_default();
            let data = String::from_utf8_lossy(&data);
            return match http_client::resolve(stream, data.trim()) {
                Some(uri) if http_client::same_origin(stream, &uri) => Ok(uri),
                _ => Err(Loss::Rejected(format!(
                    "its endpoint {data:?} is no URL of the same origin"
                ))),
            };
        }
    }
    Err(Loss::ConnectFailed(
        "the event stream ended before its endpoint event".to_owned(),
    ))
}

impl SseLink {
    pub fn start(
        self: &Arc<Self>,
        asker: Option<Asker>,
        render: impl FnOnce(&str) -> String,
    ) -> Result<Exchange, Broken> {
        let ticket = self.pending.register(asker, None)?;
        let id = ticket.id;
        let post = self
            .endpoint
            .send_body(&self.post, &render(&id.to_string()));
        Ok(Exchange {
            in_flight: None,
            id,
            way: Way::Posted(Box::new(Posted {
                ticket,
                post: Some(post),
            })),
        })
    }

    pub async fn send(&self, text: String) {
        http_client::deliver(&self.endpoint, &self.post, &text).await;
    }

    /// Has a message posted by the stream's own task; `false` if too many wait already.
    pub fn send_later(&self, text: String) -> bool {
        self.outgoing.try_send(text).is_ok()
    }

    pub fn is_over(&self) -> bool {
        self.pending.is_ended()
    }
}

/// A request that was posted; its answer comes on the stream.
pub struct Posted {
    ticket: Ticket,
    /// The POST itself, until it has been answered.
    post: Option<Responding>,
}

impl std::fmt::Debug for Posted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Posted")
            .field("id", &self.ticket.id)
            .finish_non_exhaustive()
    }
}

impl Posted {
    /// The next message about this request. Cancel-safe.
    pub async fn next(&mut self) -> Result<Said, Interruption> {
        loop {
            let Some(post) = &mut self.post else {
                return self.heard().await;
            };
            let answered = tokio::select! {
                biased;
                frame = self.ticket.next() => return frame.map_err(|broken| Interruption::sent(broken.into())),
                answered = post => answered,
            };
            self.post = None;
            accepted(answered).await?;
        }
    }

    async fn heard(&mut self) -> Result<Said, Interruption> {
        self.ticket
            .next()
            .await
            .map_err(|broken| Interruption::sent(broken.into()))
    }
}

async fn accepted(answered: Result<Response, Error>) -> Result<(), Interruption> {
    let response = answered.map_err(|error| http_client::interruption(&error))?;
    let status = response.head.status;
    let body = http_client::error_text(response).await;
    if (200..300).contains(&status) {
        return Ok(());
    }
    let is_message = Frame::read(body.clone().into()).is_ok();
    let kind = InterruptionKind::Refused {
        status,
        body,
        is_message,
    };
    Err(match status {
        404 => Interruption::not_sent(InterruptionKind::SessionExpired),
        401 | 429 => Interruption::not_sent(kind),
        _ => Interruption::sent(kind),
    })
}

/// The receiving side of one connection.
struct Stream {
    events: Events,
    link: Arc<SseLink>,
    vitals: Arc<Vitals>,
    router: MessageRouter,
}

impl Stream {
    async fn run(mut self, mut answers: mpsc::Receiver<String>, close: CancellationToken) -> Loss {
        let link = Arc::clone(&self.link);
        let posting = async {
            while let Some(text) = answers.recv().await {
                link.send(text).await;
            }
        };
        let loss = tokio::select! {
            () = close.cancelled() => Loss::Disconnected("stopped".to_owned()),
            loss = self.read() => loss,
            () = posting => Loss::Disconnected("its task ended".to_owned()),
        };
        link.pending.end();
        loss
    }

    async fn read(&mut self) -> Loss {
        let link = Link::Sse(Arc::clone(&self.link));
        loop {
            let event = match self.events.next().await {
                None => return Loss::Disconnected("the server ended the event stream".to_owned()),
                Some(Err(StreamBroken::TooLarge { limit, head })) => {
                    let id = self.link.pending.too_large(&head, limit);
                    if let Some(times) = self.router.fault() {
                        tracing::warn!(server = %self.router.server(), id, limit, times, "an event exceeds maxMessageBytes");
                    }
                    continue;
                }
                Some(Err(StreamBroken::Broken(error))) => {
                    return Loss::Disconnected(format!("the event stream broke off: {error}"));
                }
                Some(Ok(event)) => event,
            };
            let Some(data) = event.data.filter(|data| !data.is_empty()) else {
                continue;
            };
            let length = data.len();
            let wait = match Frame::of_server_aside(data).await {
                Ok(frame) => {
                    self.vitals.hear();
                    self.router.sort(frame, &self.link.pending, &link)
                }
                Err(error) => {
                    tracing::debug!(server = %self.router.server(), %error, "an event that is no JSON-RPC message was skipped");
                    self.router.count(length + MESSAGE)
                }
            };
            pause(wait).await;
        }
    }
}
