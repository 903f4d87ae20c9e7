//! Servers behind HTTP+SSE, the transport of revision 2024-11-05: one event stream for all messages of the
//! server, and a POST for every message to it.

use std::sync::Arc;

use http::Uri;
use mainstay_core::{
    config::HttpLaunch,
    era::{Era, Eras, Greeting},
    lifecycle::Loss,
    message::Method,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    Budget, Frame, Interruption, InterruptionKind, Liveness, Opening, RunningConnection,
    UpstreamSession,
    detect::read_greeting,
    exchanges::{
        interruption::advice, link::UpstreamLink, message_router::MessageRouter,
        reply_sink::ReplyQueue,
    },
    http::{
        events::{EventReader, StreamBroken},
        http_client::{self, HttpTarget},
        refusals,
        urls::{resolve, same_origin},
    },
    http_sse::sse_link::SseLink,
    logs::pause,
    opening::MAX_GREETING,
    sessions::initialize::Initialize,
};

/// The maximum number of queued answers to a server's requests.
const MAX_OUTGOING: usize = 64;

pub async fn open(
    opening: &Opening,
    launch: &HttpLaunch,
) -> Result<(UpstreamSession, RunningConnection), Loss> {
    let close = opening.stop.close.clone();
    tokio::select! {
        opened = greet_server(opening, launch) => opened,
        () = close.cancelled() => Err(Loss::Disconnected("stopped".to_owned())),
    }
}

async fn greet_server(
    opening: &Opening,
    launch: &HttpLaunch,
) -> Result<(UpstreamSession, RunningConnection), Loss> {
    let target = HttpTarget::of_server(opening, launch)
        .map_err(|error| Loss::Misconfigured(error.to_string()))?;
    let mut events = subscribe(&target, launch, opening.max_message_bytes).await?;
    let endpoint = target.at(endpoint(&mut events, &target.uri()).await?);

    let liveness = Arc::new(Liveness::new(opening.hang_after));
    let (outgoing, answers) = mpsc::channel(MAX_OUTGOING);
    let link = Arc::new(SseLink::new(
        opening.server.clone(),
        endpoint,
        Arc::clone(&opening.log),
    ));
    let stream = Stream {
        events,
        link: Arc::clone(&link),
        liveness: Arc::clone(&liveness),
        router: MessageRouter::new(
            opening.reply_sink(ReplyQueue::Posts(outgoing)),
            Arc::clone(&opening.listener),
            Arc::clone(&opening.log),
        ),
    };
    // From here on a task reads the stream. After a failure, return only after that task has ended.
    let close = opening.stop.close.child_token();
    let running = tokio::spawn(stream.run(answers, close.clone()));
    let ended = async move {
        running
            .await
            .unwrap_or_else(|error| Loss::Disconnected(format!("its task failed: {error}")))
    };

    let session_link = UpstreamLink::Multiplexed(Arc::clone(&link).into());
    let greeted = greet(&session_link, Initialize::for_opening(opening)).await;
    match greeted {
        Ok((greeting, initialize_answer)) => {
            let session = UpstreamSession {
                greeting,
                initialize_answer,
                eras: Eras::only(Era::Legacy),
                avoids_probe: false,
                is_probed: false,
                pid: None,
                liveness,
                server: opening.server.clone(),
                link: session_link,
                listening: None,
            };
            session.send_initialized().await;
            Ok((session, Box::pin(ended)))
        }
        Err(loss) => {
            close.cancel();
            ended.await;
            Err(loss)
        }
    }
}

/// Sends `initialize`. If the server refuses the revision, sends it again with another revision,
/// until one is accepted or none is left.
async fn greet(link: &UpstreamLink, mut initialize: Initialize) -> Result<(Greeting, Frame), Loss> {
    let mut first_refusal = None;
    loop {
        let refused = match handshake(link, &initialize).await {
            Ok(answer) => match read_greeting(&answer) {
                Ok(greeting) => return Ok((greeting, answer)),
                Err(loss) => loss,
            },
            Err(Interruption {
                kind:
                    InterruptionKind::Refused {
                        status: status @ (401 | 403),
                        ..
                    },
                ..
            }) => {
                let advice = advice(status);
                return Err(Loss::Unauthorized(format!("HTTP {status}{advice}")));
            }
            Err(Interruption {
                kind: InterruptionKind::NoCredentials(reason),
                ..
            }) => return Err(Loss::Unauthorized(reason)),
            Err(interruption) => Loss::ConnectFailed(interruption.kind.reason()),
        };
        let words = match &refused {
            Loss::Rejected(reason) | Loss::ConnectFailed(reason) => reason.as_str(),
            _ => "",
        };
        // The first refusal names the revisions that the server speaks.
        if !initialize.step_down(words) {
            return Err(first_refusal.unwrap_or(refused));
        }
        first_refusal.get_or_insert(refused);
    }
}

async fn handshake(link: &UpstreamLink, initialize: &Initialize) -> Result<Frame, Interruption> {
    let render = |id: &str| initialize.request(id);
    link.ask(Method::Initialize, render)
        .await?
        .answer_within(&Budget::new(MAX_GREETING))
        .await
}

async fn subscribe(
    target: &HttpTarget,
    launch: &HttpLaunch,
    limit: usize,
) -> Result<EventReader, Loss> {
    let get = target.template("GET", &[("accept", "text/event-stream")]);
    let response = target
        .follow(&get, None)
        .await
        .map_err(|error| refusals::unanswered(&target.uri(), &error))?;
    match response.head.status {
        401 | 403 => Err(refusals::unauthorized(&response.head, launch)),
        508 => Err(refusals::loop_loss(&target.uri(), response).await),
        200..300 if response.head.is_event_stream => Ok(EventReader::new(response, limit)),
        status @ 200..300 => {
            let body = http_client::error_text(response).await;
            let mut refusal = refusals::HttpRefusal::new(&target.uri(), status, "GET", &body);
            if !refusal.answer.starts_with("a web page") {
                "the answer to GET is no event stream".clone_into(&mut refusal.answer);
            }
            Err(Loss::ConnectFailed(refusal.with_advice()))
        }
        _ => Err(http_client::unavailable(&target.uri(), response, "GET").await),
    }
}

/// Reads the first event, which names the URL for POSTs. The URL must have the same origin, because the
/// configured headers are sent to it.
async fn endpoint(events: &mut EventReader, stream: &Uri) -> Result<Uri, Loss> {
    while let Some(Ok(event)) = events.next().await {
        if event.name.as_deref() == Some("endpoint") {
            let data = event.data.unwrap_or_default();
            let data = String::from_utf8_lossy(&data);
            return match resolve(stream, data.trim()) {
                Some(uri) if same_origin(stream, &uri) => Ok(uri),
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

/// The receiving side of one connection.
struct Stream {
    events: EventReader,
    link: Arc<SseLink>,
    liveness: Arc<Liveness>,
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
            () = link.expired.cancelled() => Loss::SessionExpired,
            () = posting => Loss::Disconnected("its task ended".to_owned()),
        };
        link.pending.end();
        loss
    }

    async fn read(&mut self) -> Loss {
        loop {
            let event = match self.events.next().await {
                None => return Loss::Disconnected("the server ended the event stream".to_owned()),
                Some(Err(StreamBroken::TooLarge { limit, head })) => {
                    let id = self.link.pending.break_off_too_large(&head, limit);
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
            let bytes = data.len();
            let wait = match Frame::of_server_aside(data.clone()).await {
                Ok(frame) => {
                    self.liveness.note_message();
                    self.router.route(frame, &self.link.pending)
                }
                Err(error) => {
                    self.link
                        .pending
                        .break_off_unreadable(&data, &error.to_string());
                    self.router.skip(bytes, &error)
                }
            };
            pause(wait).await;
        }
    }
}
