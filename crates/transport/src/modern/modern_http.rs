//! Servers behind Streamable HTTP of 2026-07-28: one POST for each request, and no session. No lasting
//! connection exists, so only a request shows that the server is gone.

use std::{sync::Arc, time::Duration};

use mainstay_core::{
    config::HttpLaunch,
    era::{Era, Eras},
    lifecycle::Loss,
    message::Method,
};
use tokio::time::timeout;

use crate::{
    Budget, Exchange, Frame, Opening, RunningConnection, Unopened, UpstreamSession,
    detect::{self, DetectedEra, Evidence},
    exchanges::{
        link::UpstreamLink,
        per_request::{PerRequest, PerRequestExchange},
    },
    http::{
        http_client::{self, HttpTarget},
        http1, refusals,
    },
    modern::{
        modern_exchange::ModernExchange, modern_link::ModernLink, modern_post::ModernPost,
        tool_headers::ToolHeaders,
    },
    opening::MAX_GREETING,
    sessions::listening::Listening,
};

/// The reason that no modern session was opened.
#[derive(Debug)]
pub enum NotModern {
    /// The server is legacy: `initialize` is next. Contains the eras as far as the server's answer, or its
    /// silence, shows them.
    Legacy(Eras),
    /// The reply does not tell the era. The caller tries `initialize` next, and reports this loss if
    /// that fails too.
    Unclear(Loss),
    Refused(Unopened),
}

impl From<Loss> for NotModern {
    fn from(loss: Loss) -> Self {
        Self::Refused(loss.into())
    }
}

impl From<NotModern> for Unopened {
    fn from(not_modern: NotModern) -> Self {
        match not_modern {
            NotModern::Legacy(eras) => Self {
                loss: Loss::Rejected("the server does not answer server/discover".to_owned()),
                eras,
            },
            NotModern::Unclear(loss) => loss.into(),
            NotModern::Refused(unopened) => unopened,
        }
    }
}

/// Opens a modern session with `server/discover`. `limit` is the time limit for the answer of a server that
/// may be legacy.
pub async fn open(
    opening: &Opening,
    launch: &HttpLaunch,
    limit: Option<Duration>,
) -> Result<(UpstreamSession, RunningConnection), NotModern> {
    let discovering = async {
        match limit {
            Some(limit) => timeout(limit, discover(opening, launch)).await.ok(),
            None => Some(discover(opening, launch).await),
        }
    };
    let discovered = tokio::select! {
        discovered = discovering => discovered,
        () = opening.stop.close.cancelled() => {
            return Err(Loss::Disconnected("stopped".to_owned()).into());
        }
    };
    let (link, answer, evidence) = match discovered {
        Some(discovered) => discovered?,
        None => return Err(NotModern::Legacy(silent())),
    };
    let greeting = match evidence.settle() {
        DetectedEra::Modern(greeting) => greeting,
        DetectedEra::Legacy(eras) => return Err(NotModern::Legacy(eras)),
        DetectedEra::Refused(unopened) => return Err(NotModern::Refused(unopened)),
    };
    let listening = Arc::new(Listening::new(greeting.capabilities));
    let session = UpstreamSession {
        eras: detect::eras_of(&greeting),
        greeting,
        initialize_answer: answer,
        avoids_probe: false,
        is_probed: false,
        pid: None,
        liveness: Arc::clone(&link.liveness),
        server: opening.server.clone(),
        link: UpstreamLink::PerRequest(PerRequest::Modern(Arc::clone(&link))),
        listening: Some(Arc::clone(&listening)),
    };
    Ok((session, Box::pin(run(link, listening, opening.clone()))))
}

/// The eras of a server that did not answer `server/discover`.
fn silent() -> Eras {
    match Evidence::None.settle() {
        DetectedEra::Legacy(eras) => eras,
        DetectedEra::Modern(_) | DetectedEra::Refused(_) => Eras::UNKNOWN,
    }
}

async fn discover(
    opening: &Opening,
    launch: &HttpLaunch,
) -> Result<(Arc<ModernLink>, Frame, Evidence), NotModern> {
    let target = HttpTarget::of_server(opening, launch)
        .map_err(|error| Loss::Misconfigured(error.to_string()))?;
    let body = detect::own_request(Era::Modern, "0", Method::Discover, None);
    let post = ModernPost::new(body, &ToolHeaders::default())
        .map_err(|error| Loss::Rejected(error.to_string()))?;
    let template = target.template("POST", &post.headers());
    let sent = target.follow(&template, Some(post.body())).await;
    let response = sent.map_err(|error| {
        let loss = refusals::unanswered(&target.uri(), &error);
        match error {
            http1::Error::Connect(_) => NotModern::from(loss),
            // A server may close the connection after a request that it does not understand.
            _ => NotModern::Unclear(loss),
        }
    })?;
    match response.head.status {
        // The server may forbid a method that it does not know. `initialize` shows if the server requires
        // credentials.
        401 | 403 => {
            let loss = refusals::unauthorized(&response.head, launch);
            return Err(NotModern::Unclear(loss));
        }
        429 => {
            let method = Method::Discover.name();
            return Err(http_client::unavailable(&target.uri(), response, method)
                .await
                .into());
        }
        508 => return Err(refusals::loop_loss(&target.uri(), response).await.into()),
        // Handled like an unknown method: `initialize` is next.
        501 => {}
        500.. => {
            return Err(
                match http_client::unavailable(&target.uri(), response, Method::Discover.name())
                    .await
                {
                    // If the server names a time to retry, send no request before that time.
                    loss @ Loss::Unavailable { .. } => loss.into(),
                    loss => NotModern::Unclear(loss),
                },
            );
        }
        _ => {}
    }
    let link = Arc::new(ModernLink::new(opening, target));
    let budget = Budget::new(MAX_GREETING);
    let first = ModernExchange::answered(
        Arc::clone(&link),
        0,
        Method::Discover,
        response,
        budget.clone(),
    );
    let is_legacy = |_| NotModern::Legacy(silent());
    let mut answer = Exchange::from(PerRequestExchange::from(first))
        .response()
        .await
        .map_err(is_legacy)?;
    let mut evidence = detect::evidence(&answer);
    if evidence.is_offer() {
        let again = ModernExchange::start(&link, true, |id| {
            detect::own_request(Era::Modern, id, Method::Discover, None)
        });
        let again = again.map_err(|_| NotModern::Legacy(silent()))?;
        let mut again = Exchange::from(PerRequestExchange::from(again));
        let again = again.answer_within(&budget).await;
        answer = again.map_err(|interruption| Loss::Rejected(interruption.to_string()))?;
        evidence = detect::evidence(&answer);
    }
    Ok((link, answer, evidence))
}

/// Runs until the server is lost or the session is closed.
async fn run(link: Arc<ModernLink>, listening: Arc<Listening>, opening: Opening) -> Loss {
    let session_link = UpstreamLink::PerRequest(PerRequest::Modern(Arc::clone(&link)));
    tokio::select! {
        () = opening.stop.close.cancelled() => link.lose(Loss::Disconnected("stopped".to_owned())),
        () = link.lost() => {}
        () = listening.run(&opening.server, &session_link, &*opening.listener, &opening.attempt_limiter) => {}
    }
    link.reason()
}
