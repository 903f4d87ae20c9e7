//! Servers behind Streamable HTTP (revisions 2025-03-26 to 2025-11-25): a POST for each message, a GET stream
//! for messages that belong to no call, and a session id for all requests.

use std::{pin::pin, sync::Arc, time::Duration};

use mainstay_core::{config::HttpLaunch, era::Eras, lifecycle::Loss};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    Budget, Exchange, Frame, Opening, RunningConnection, Unopened, UpstreamSession,
    detect::{read_greeting, refused_initialize},
    exchanges::{
        link::UpstreamLink,
        per_request::{PerRequest, PerRequestExchange},
    },
    http::{
        http_client::{self, HttpTarget, POST_HEADERS},
        http1, refusals,
    },
    opening::MAX_GREETING,
    sessions::initialize::Initialize,
    streamable::{
        get_stream::GetStream,
        http_exchange::HttpExchange,
        http_link::{DELETE_LIMIT, HttpLink, SESSION_ID},
    },
};

/// The time that a new session waits for its GET stream. Some servers send no head before the first event.
const STREAM_LIMIT: Duration = Duration::from_secs(1);

/// The maximum number of queued answers to a server's requests.
const MAX_OUTGOING: usize = 64;

/// The reason that no session was opened.
#[derive(Debug)]
pub enum NotOpened {
    /// The URL may not be a Streamable HTTP endpoint.
    NotSpoken(refusals::HttpRefusal),
    Unopened(Unopened),
}

impl NotOpened {
    /// The text of a refusal. Empty if the server has not refused the session.
    fn words(&self) -> &str {
        match self {
            Self::NotSpoken(refusal) => &refusal.answer,
            Self::Unopened(Unopened {
                loss: Loss::Rejected(reason) | Loss::ConnectFailed(reason),
                ..
            }) => reason,
            Self::Unopened(_) => "",
        }
    }
}

impl From<NotOpened> for Unopened {
    fn from(refused: NotOpened) -> Self {
        match refused {
            NotOpened::NotSpoken(refusal) => Self {
                loss: Loss::ConnectFailed(refusal.with_advice()),
                eras: Eras {
                    modern: None,
                    legacy: Some(false),
                },
            },
            NotOpened::Unopened(unopened) => unopened,
        }
    }
}

impl From<Loss> for NotOpened {
    fn from(loss: Loss) -> Self {
        Self::Unopened(loss.into())
    }
}

pub async fn open(
    opening: &Opening,
    launch: &HttpLaunch,
) -> Result<(UpstreamSession, RunningConnection), NotOpened> {
    let mut greeting = pin!(greet_server(opening, launch));
    tokio::select! {
        opened = &mut greeting => return opened,
        () = opening.stop.close.cancelled() => {}
    }
    // The server may have opened a session. Wait for the answer, because only the answer has the id that ends
    // the session.
    let ending = async {
        if let Ok((_, running)) = greeting.await {
            running.await;
        }
    };
    timeout(DELETE_LIMIT, ending).await.ok();
    Err(Loss::Disconnected("stopped".to_owned()).into())
}

/// Sends `initialize`. If the server refuses the revision, sends it again with another one.
async fn greet_server(
    opening: &Opening,
    launch: &HttpLaunch,
) -> Result<(UpstreamSession, RunningConnection), NotOpened> {
    let mut initialize = Initialize::for_opening(opening);
    let mut first_refusal = None;
    loop {
        match greet_once(opening, launch, &initialize).await {
            Err(refused) if initialize.step_down(refused.words()) => {
                first_refusal.get_or_insert(refused);
            }
            // The first refusal names the revisions that the server speaks.
            Err(refused) => return Err(first_refusal.unwrap_or(refused)),
            opened => return opened,
        }
    }
}

async fn greet_once(
    opening: &Opening,
    launch: &HttpLaunch,
    initialize: &Initialize,
) -> Result<(UpstreamSession, RunningConnection), NotOpened> {
    let target = HttpTarget::of_server(opening, launch)
        .map_err(|error| Loss::Misconfigured(error.to_string()))?;
    let post = target.template("POST", &POST_HEADERS);
    let response = target
        .follow(&post, Some(&initialize.request("0")))
        .await
        .map_err(|error| refusals::unanswered(&target.uri(), &error))?;
    let uri = target.uri();
    let status = response.head.status;
    let session_id = response.head.get(SESSION_ID).map(str::to_owned);
    let (outgoing, answers) = mpsc::channel(MAX_OUTGOING);
    let link = Arc::new(HttpLink::new(opening, target, outgoing));
    match status {
        200..300 if is_page(&response.head) => {
            let text = http_client::error_text(response).await;
            let refusal = refusals::HttpRefusal::new(&uri, status, "initialize", &text);
            return Err(NotOpened::NotSpoken(refusal));
        }
        200..300 => {}
        401 | 403 => return Err(refusals::unauthorized(&response.head, launch).into()),
        508 => return Err(refusals::loop_loss(&uri, response).await.into()),
        400 | 404 | 405 | 406 | 415 | 501 => {
            let text = http_client::error_text(response).await;
            if let Some(loss) = refusals::tls_loss(&uri, &text) {
                return Err(loss.into());
            }
            if let Some(refused) = refused_by_error(&text) {
                return Err(refused);
            }
            let refusal = refusals::HttpRefusal::new(&uri, status, "initialize", &text);
            return Err(NotOpened::NotSpoken(refusal));
        }
        409 | 422 | 500 => {
            let text = http_client::error_text(response).await;
            if let Some(refused) = refused_by_error(&text) {
                return Err(refused);
            }
            let refusal = refusals::HttpRefusal::new(&uri, status, "initialize", &text);
            return Err(Loss::ConnectFailed(refusal.with_advice()).into());
        }
        _ => {
            let loss = http_client::unavailable(&uri, response, "initialize").await;
            return Err(loss.into());
        }
    }
    let exchange =
        HttpExchange::answered(Arc::clone(&link), 0, response, Budget::new(MAX_GREETING));
    let answer = Exchange::from(PerRequestExchange::from(exchange))
        .response()
        .await;
    let answer = answer.map_err(|interruption| {
        let refusal = refusals::HttpRefusal::unreadable(&uri, interruption.to_string());
        NotOpened::NotSpoken(refusal)
    })?;
    let greeting = read_greeting(&answer)
        .map_err(|loss| NotOpened::Unopened(refused_initialize(&answer, loss)))?;
    link.set_greeted(session_id, &greeting);

    let session = UpstreamSession {
        greeting,
        initialize_answer: answer,
        eras: Eras {
            modern: None,
            legacy: Some(true),
        },
        avoids_probe: false,
        is_probed: false,
        pid: None,
        liveness: Arc::clone(&link.liveness),
        server: opening.server.clone(),
        link: UpstreamLink::PerRequest(PerRequest::Legacy(Arc::clone(&link))),
        listening: None,
    };
    session.send_initialized().await;
    // Wait for the stream: a server may send a request of its own after the first request, and many servers
    // drop messages while the stream is not open.
    let (unanswered, answered) = oneshot::channel();
    let mut running: RunningConnection =
        Box::pin(run(link, answers, opening.stop.close.clone(), unanswered));
    tokio::select! {
        loss = &mut running => return Err(loss.into()),
        _ = timeout(STREAM_LIMIT, answered) => {}
    }
    Ok((session, running))
}

/// Reads the refusal from a JSON-RPC error. Such an error shows that the server speaks MCP.
fn refused_by_error(text: &str) -> Option<NotOpened> {
    let frame = Frame::of_server(text.to_owned().into()).ok()?;
    let loss = Loss::Rejected(frame.error()?.to_owned());
    Some(NotOpened::Unopened(refused_initialize(&frame, loss)))
}

fn is_page(head: &http1::Head) -> bool {
    let kind = head.get("content-type");
    kind.is_some_and(|kind| kind.trim_start().starts_with("text/html"))
}

/// Runs a session until it is lost or closed.
async fn run(
    link: Arc<HttpLink>,
    mut answers: mpsc::Receiver<String>,
    close: CancellationToken,
    unanswered: oneshot::Sender<()>,
) -> Loss {
    let posting = async {
        while let Some(text) = answers.recv().await {
            link.send(text).await;
        }
    };
    let listening = async {
        GetStream::new(Arc::clone(&link)).run(unanswered).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = close.cancelled() => {
            link.lose(Loss::Disconnected("stopped".to_owned()));
            link.delete_session().await;
        }
        () = link.lost() => {}
        () = posting => {}
        () = listening => {}
    }
    link.reason()
}
