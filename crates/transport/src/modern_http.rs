//! Servers behind Streamable HTTP of 2026-07-28: one POST for each request, and no session. There is no
//! connection that could be lost: only a request shows that the server is gone.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use mainstay_core::{
    config::HttpLaunch,
    era::{Era, Eras, headers::InvalidHeader},
    ids::ServerName,
    lifecycle::Loss,
    message::{self, Method},
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    Asker, Budget, Exchange, Frame, Interruption, InterruptionKind, MAX_GREETING, MAX_LIST_BYTES,
    Opening, Running, Session,
    detect::{self, Evidence, Found, Unopened},
    exchange::Way,
    http_client::{self, Target, Template},
    http1::{self, Responding},
    listening::Listening,
    message_router::MessageRouter,
    modern_exchange::{ModernExchange, Posted},
    refusals,
    session::Link,
    tool_headers::ToolHeaders,
    vitals::Vitals,
};

/// Pages of `tools/list` that are read again for one refused call.
const MAX_PAGES: usize = 100;

/// What that may take.
const REFRESH_LIMIT: Duration = Duration::from_secs(30);

/// The sending side.
pub struct ModernLink {
    pub(super) server: ServerName,
    target: Target,
    next_id: AtomicU64,
    pub(super) tools: ToolHeaders,
    pub(super) router: MessageRouter,
    pub(super) max_message_bytes: usize,
    pub(super) vitals: Arc<Vitals>,
    over: OnceLock<Loss>,
    /// Cancelled when the server is lost. Calls in flight go on: each has its own connection.
    lost: CancellationToken,
}

impl std::fmt::Debug for ModernLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModernLink")
            .field("uri", &self.target.uri)
            .finish_non_exhaustive()
    }
}

/// Why a server is not spoken to in this way.
#[derive(Debug)]
pub enum NotModern {
    /// It knows no better: `initialize` is next. `known` is what it named, or what silence shows.
    Legacy(Eras),
    /// No evidence of anything: `initialize` may fare better, and if not, this is why.
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

/// Asks the server what it speaks. One that may be legacy has `limit` for its answer.
pub async fn open(
    opening: &Opening,
    launch: &HttpLaunch,
    limit: Option<Duration>,
) -> Result<(Session, Running), NotModern> {
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
        Found::Modern(greeting) => greeting,
        Found::Legacy(eras) => return Err(NotModern::Legacy(eras)),
        Found::Refused(unopened) => return Err(NotModern::Refused(unopened)),
    };
    let listening = Arc::new(Listening::new(greeting.capabilities));
    let session = Session {
        eras: detect::eras_of(&greeting),
        greeting,
        initialize_answer: answer,
        pid: None,
        vitals: Arc::clone(&link.vitals),
        server: opening.server.clone(),
        link: Link::Modern(Arc::clone(&link)),
        listening: Some(Arc::clone(&listening)),
    };
    Ok((session, Box::pin(run(link, listening, opening.clone()))))
}

/// What silence shows.
fn silent() -> Eras {
    match Evidence::None.settle() {
        Found::Legacy(eras) => eras,
        Found::Modern(_) | Found::Refused(_) => Eras::UNKNOWN,
    }
}

async fn discover(
    opening: &Opening,
    launch: &HttpLaunch,
) -> Result<(Arc<ModernLink>, Frame, Evidence), NotModern> {
    let target = Target::new(launch, Some(opening.lineage.chain()))
        .map_err(|error| Loss::Misconfigured(error.to_string()))?;
    let body = detect::own_request(Era::Modern, "0", Method::Discover, None);
    let posted = Posted::of(body, &ToolHeaders::default())
        .map_err(|error| Loss::Rejected(error.to_string()))?;
    let uri = target.uri.clone();
    let sent = target
        .follow("POST", &posted.headers(), Some(posted.body()))
        .await;
    let (response, target) = sent.map_err(|error| {
        let loss = refusals::unanswered(&uri, &error);
        match error {
            http1::Error::Connect(_) => NotModern::from(loss),
            // A server may drop a client that it does not understand.
            _ => NotModern::Unclear(loss),
        }
    })?;
    match response.head.status {
        401 | 403 => return Err(refusals::unauthorized(&response.head, launch).into()),
        429 => {
            let asked = Method::Discover.name();
            return Err(http_client::unavailable(&target.uri, response, asked)
                .await
                .into());
        }
        // As for `initialize`: the server does not know it, or it is a Mainstay led back to itself.
        501 | 508 => {}
        500.. => {
            return Err(
                match http_client::unavailable(&target.uri, response, Method::Discover.name()).await
                {
                    // One that says when to come back is not asked before.
                    loss @ Loss::Unavailable { .. } => loss.into(),
                    loss => NotModern::Unclear(loss),
                },
            );
        }
        _ => {}
    }
    let link = Arc::new(ModernLink {
        server: opening.server.clone(),
        target,
        next_id: AtomicU64::new(0),
        tools: ToolHeaders::default(),
        router: MessageRouter::new(
            opening.server.clone(),
            Arc::clone(&opening.listener),
            Arc::clone(&opening.log),
        ),
        max_message_bytes: opening.max_message_bytes,
        vitals: Arc::new(Vitals::new(opening.hang_after)),
        over: OnceLock::new(),
        lost: CancellationToken::new(),
    });
    let budget = Budget::new(MAX_GREETING);
    let first = ModernExchange::answered(
        Arc::clone(&link),
        0,
        Method::Discover,
        response,
        budget.clone(),
    );
    let knows_no_better = |_| NotModern::Legacy(silent());
    let mut answer = Exchange::over(Way::Modern(Box::new(first)), 0)
        .response()
        .await
        .map_err(knows_no_better)?;
    let mut evidence = detect::evidence(&answer);
    if evidence.is_offer() {
        let again = link.start(None, |id| {
            detect::own_request(Era::Modern, id, Method::Discover, None)
        });
        let mut again = again.map_err(knows_no_better)?;
        let again = again.answer_within(&budget).await;
        answer = again.map_err(|why| Loss::Rejected(why.to_string()))?;
        evidence = detect::evidence(&answer);
    }
    Ok((link, answer, evidence))
}

impl ModernLink {
    pub fn start(
        self: &Arc<Self>,
        asker: Option<Asker>,
        render: impl FnOnce(&str) -> String,
    ) -> Result<Exchange, Interruption> {
        self.post_by(Target::send_body, asker.is_none(), render)
    }

    /// Over a connection of its own.
    pub fn start_afresh(
        self: &Arc<Self>,
        render: impl FnOnce(&str) -> String,
    ) -> Result<Exchange, Interruption> {
        self.post_by(Target::send_body_afresh, true, render)
    }

    fn post_by(
        self: &Arc<Self>,
        send: impl FnOnce(&Target, &Template, &str) -> Responding,
        is_own: bool,
        render: impl FnOnce(&str) -> String,
    ) -> Result<Exchange, Interruption> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed) + 1;
        let posted =
            Posted::of(render(&id.to_string()), &self.tools).map_err(|error| invalid(&error))?;
        let response = send(&self.target, &self.template(&posted), posted.body());
        let exchange = ModernExchange::new(Arc::clone(self), id, is_own, posted, response);
        Ok(Exchange::over(Way::Modern(Box::new(exchange)), id))
    }

    fn template(&self, posted: &Posted) -> Template {
        self.target.template("POST", &posted.headers())
    }

    /// Posts the same once more, with the headers that the server's tools have by now.
    pub(super) fn repeat(&self, posted: &mut Posted) -> Result<Responding, InvalidHeader> {
        posted.refresh(&self.tools)?;
        Ok(self.target.send_body(&self.template(posted), posted.body()))
    }

    /// Reads the tools again, up to the one that is wanted.
    pub(super) async fn refresh(self: Arc<Self>, tool: String) {
        let budget = Budget::new(MAX_LIST_BYTES);
        let reading = async {
            let mut params = None::<String>;
            for _ in 0..MAX_PAGES {
                let mut asked = self.start(None, |id| {
                    detect::own_request(Era::Modern, id, Method::ToolsList, params.as_deref())
                })?;
                let page = asked.answer_within(&budget).await?;
                let result = page.result().unwrap_or("{}");
                let tools = message::member(result, "tools").and_then(message::items);
                let found = tools.into_iter().flatten().any(|listed| {
                    message::text_member(listed, "name").is_some_and(|name| name == tool)
                });
                let Some(cursor) = message::member(result, "nextCursor").filter(|_| !found) else {
                    break;
                };
                params = Some(format!(r#"{{"cursor":{cursor}}}"#));
            }
            Ok::<_, Interruption>(())
        };
        match timeout(REFRESH_LIMIT, reading).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::debug!(server = %self.server, %error, "tools were not read again")
            }
            Err(_) => tracing::debug!(server = %self.server, "tools were not read again in time"),
        }
    }

    /// Posts a notification.
    pub async fn send(&self, text: String) {
        if let Ok(posted) = Posted::of(text, &self.tools) {
            http_client::deliver(&self.target, &self.template(&posted), posted.body()).await;
        }
    }

    /// No connection that stands is used again.
    pub fn forget_connections(&self) {
        self.target.forget_connections();
    }

    /// The server is lost; the first reason counts.
    pub fn lose(&self, loss: Loss) {
        if self.over.set(loss).is_ok() {
            self.lost.cancel();
        }
    }

    pub fn is_over(&self) -> bool {
        self.over.get().is_some()
    }
}

pub(super) fn invalid(error: &impl std::fmt::Display) -> Interruption {
    Interruption::not_sent(InterruptionKind::InvalidTool(error.to_string()))
}

/// Lasts until the server is lost or not wanted any more.
async fn run(link: Arc<ModernLink>, listening: Arc<Listening>, opening: Opening) -> Loss {
    let way = Link::Modern(Arc::clone(&link));
    tokio::select! {
        () = opening.stop.close.cancelled() => link.lose(Loss::Disconnected("stopped".to_owned())),
        () = link.lost.cancelled() => {}
        () = listening.run(&opening.server, &way, &*opening.listener, &opening.turns) => {}
    }
    link.over
        .get()
        .cloned()
        .unwrap_or_else(|| Loss::Disconnected("its task ended".to_owned()))
}
