//! The HTTP listener: MCP on its own paths, everything else to the REST router.

use std::{
    convert::Infallible,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::response::IntoResponse as _;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use mainstay_core::{era, message};
use tokio::{
    net::TcpListener,
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower_service::Service as _;

use super::{
    entrance::{Entrance, Unauthorized, Visit},
    guard::{Forbidden, Guard},
    mcp::{self, Hub, ResponseBody, Scope, Visitor, sse},
    rare::Rare,
    rest::Refusal,
};

/// Connections at once, idle ones included; more wait to be accepted.
const MAX_CONNECTIONS: usize = 4096;

/// After an error of the listener itself, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Answers in progress may take this long when the door closes.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// How often a connection is looked at: one timer for a connection costs less than one for every
/// request. One that says nothing until the first look, or so many times in a row, is closed.
const IDLE_LOOK: Duration = Duration::from_secs(30);
const MAX_QUIET_LOOKS: u32 = 4;

/// What the listener needs to serve a request.
#[derive(Debug)]
pub struct Door {
    pub hub: Arc<Hub>,
    pub rest: axum::Router,
    pub guard: Guard,
    pub entrance: Entrance,
}

/// Accepts connections until `stop`; returns when they have ended, or were given up.
pub async fn serve(listener: TcpListener, door: Arc<Door>, stop: CancellationToken) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept(&listener, &permits) => accepted,
        };
        match accepted {
            Ok((stream, address, permit)) => {
                let (door, stop) = (Arc::clone(&door), stop.clone());
                connections.spawn(async move {
                    connection(stream, address, door, stop).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    connections.close();
    if timeout(CLOSE_LIMIT, connections.wait()).await.is_err() {
        tracing::warn!("connections were still open at the end");
    }
}

async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> std::io::Result<(
    tokio::net::TcpStream,
    IpAddr,
    tokio::sync::OwnedSemaphorePermit,
)> {
    let permit = Arc::clone(permits)
        .acquire_owned()
        .await
        .map_err(std::io::Error::other)?;
    let (stream, address) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, address.ip(), permit))
}

/// Serves one connection until its client ends it, `stop`, or it is left idle.
async fn connection(
    stream: tokio::net::TcpStream,
    address: IpAddr,
    door: Arc<Door>,
    stop: CancellationToken,
) {
    let client = Arc::new(Client {
        door,
        address,
        requests: AtomicU64::new(0),
        visit: Visit::default(),
    });
    let service = service_fn({
        let client = Arc::clone(&client);
        move |request| {
            client.requests.fetch_add(1, Ordering::Relaxed);
            let client = Arc::clone(&client);
            async move { Ok::<_, Infallible>(client.serve(request).await) }
        }
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        leave = Rare::new(reason_to_leave(&client, &stop)) => match leave {
            Leave::Now => return,
            Leave::Soon => {
                connection.as_mut().graceful_shutdown();
                let Ok(ended) = timeout(CLOSE_LIMIT, connection).await else {
                    return;
                };
                ended
            }
            Leave::AfterTheAnswer => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        },
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended with an error");
    }
}

/// Who is at the other end of a connection.
struct Client {
    door: Arc<Door>,
    address: IpAddr,
    requests: AtomicU64,
    visit: Visit,
}

impl Client {
    async fn serve(&self, request: Request<Incoming>) -> Response<ResponseBody> {
        self.door.serve(request, &self.visit, self.address).await
    }
}

/// How a connection is to be ended by us.
enum Leave {
    Now,
    /// An answer in progress has [`CLOSE_LIMIT`].
    Soon,
    /// One that is still being sent is sent to its end.
    AfterTheAnswer,
}

/// Waits for `stop`, or until nothing has been asked for too long, or who asked may be told nothing more.
async fn reason_to_leave(client: &Client, stop: &CancellationToken) -> Leave {
    let mut changes = client.door.entrance.changes();
    let (mut seen, mut quiet) = (0, 0);
    while quiet < MAX_QUIET_LOOKS {
        let is_due = tokio::select! {
            () = stop.cancelled() => break,
            Ok(()) = changes.changed() => false,
            () = sleep(IDLE_LOOK) => true,
        };
        if !client.door.entrance.is_open_to(&client.visit) {
            return Leave::Soon;
        }
        if !is_due {
            continue;
        }
        let now = client.requests.load(Ordering::Relaxed);
        if now == 0 {
            // It has not even said what it wants.
            return Leave::Now;
        }
        quiet = if now == seen { quiet + 1 } else { 0 };
        seen = now;
    }
    Leave::AfterTheAnswer
}

impl Door {
    async fn serve(
        &self,
        request: Request<Incoming>,
        visit: &Visit,
        address: IpAddr,
    ) -> Response<ResponseBody> {
        let endpoint = self.endpoint(request.uri().path());
        if let Err(forbidden) = self.guard.check(request.uri(), request.headers()) {
            let status = match forbidden {
                Forbidden::Malformed => StatusCode::BAD_REQUEST,
                Forbidden::Host | Forbidden::Origin => StatusCode::FORBIDDEN,
            };
            return match endpoint {
                Some(_) => refuse(status, &forbidden.to_string()),
                None => refuse_plainly(forbidden.into()),
            };
        }
        let origin = request.headers().get(header::ORIGIN).cloned();
        let mut response = match endpoint {
            Some(_) if request.method() == Method::OPTIONS => preflight(request.headers()),
            Some(endpoint) => {
                let (demand, headers) = (self.entrance.mcp, request.headers());
                match self.entrance.admit(demand, headers, visit) {
                    Ok(principal) => {
                        let visitor = Visitor {
                            principal,
                            address: Some(address),
                        };
                        self.mcp(endpoint, visitor, request).await
                    }
                    Err(why) => unauthorized(why),
                }
            }
            None => self.other(request, visit).await,
        };
        if let Some(origin) = origin {
            share(response.headers_mut(), origin);
        }
        response
    }

    async fn mcp(
        &self,
        endpoint: Result<(Scope, Endpoint), String>,
        visitor: Visitor,
        request: Request<Incoming>,
    ) -> Response<ResponseBody> {
        match endpoint {
            Ok((scope, Endpoint::Streamable)) => {
                mcp::http::serve(&self.hub, scope, visitor, request).await
            }
            Ok((scope, Endpoint::Sse(endpoint))) => {
                mcp::sse::serve(&self.hub, scope, visitor, endpoint, request).await
            }
            Err(reason) => mcp::http::nowhere(&self.hub, visitor, request, &reason).await,
        }
    }

    /// REST, and what is for machines.
    async fn other(&self, request: Request<Incoming>, visit: &Visit) -> Response<ResponseBody> {
        if request.uri().path() == "/metrics" {
            let (demand, headers) = (self.entrance.metrics, request.headers());
            if let Err(why) = self.entrance.admit(demand, headers, visit) {
                return refuse_plainly(why.into());
            }
        } else {
            self.entrance.note(request.headers(), visit);
        }
        let mut rest = self.rest.clone();
        let Ok(response) = rest.call(request.map(axum::body::Body::new)).await;
        response.map(ResponseBody::Other)
    }

    /// The MCP endpoint that a path names; `None` if it names none.
    fn endpoint(&self, path: &str) -> Option<Result<(Scope, Endpoint), String>> {
        let path = path.strip_prefix('/')?;
        let (server, endpoint) = match path.strip_prefix("servers/") {
            Some(path) => path
                .split_once('/')
                .map(|(name, path)| (Some(name), path))?,
            None => (None, path),
        };
        let (profile, endpoint) = match (server, endpoint.split_once('/')) {
            (None, Some(("mcp", name))) if !name.is_empty() && !name.contains('/') => {
                (Some(name), "mcp")
            }
            _ => (None, endpoint),
        };
        let endpoint = match endpoint {
            "mcp" => Endpoint::Streamable,
            "sse" => Endpoint::Sse(sse::Endpoint::Stream),
            "sse/message" => Endpoint::Sse(sse::Endpoint::Message),
            _ => return None,
        };
        let registry = &self.hub.registry;
        let scope = match (server, profile) {
            (Some(name), _) => registry.server(name).map(Scope::One),
            (None, Some(name)) => registry.profile(name).map(Scope::Profile),
            (None, None) => Ok(Scope::Profile(registry.default_profile())),
        };
        let scope = scope.map_err(|failure| failure.message);
        Some(scope.map(|scope| (scope, endpoint)))
    }
}

/// What an MCP path leads to.
enum Endpoint {
    Streamable,
    Sse(sse::Endpoint),
}

/// In MCP's words.
fn refuse(status: StatusCode, reason: &str) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::from(message::error_response(
        None, -32600, reason, None,
    )));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

/// In REST's (M13): of what is no MCP endpoint.
fn refuse_plainly(why: Refusal) -> Response<ResponseBody> {
    why.into_response().map(ResponseBody::Other)
}

fn unauthorized(why: Unauthorized) -> Response<ResponseBody> {
    let mut response = refuse(StatusCode::UNAUTHORIZED, &why.to_string());
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, why.challenge());
    response
}

/// The headers that a page of an allowed origin may send. Those of a tool's parameters have names of
/// their own: the page says which.
const SHARED: &str = "authorization, content-type, accept, last-event-id, mcp-session-id, \
    mcp-protocol-version, mcp-method, mcp-name";

/// The answer to a browser that asks whether it may call us.
fn preflight(asked: &HeaderMap) -> Response<ResponseBody> {
    let wanted = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS);
    let wanted = wanted.and_then(|wanted| wanted.to_str().ok());
    let of_tools = wanted
        .unwrap_or_default()
        .split(',')
        .map(|name| name.trim().to_ascii_lowercase())
        .filter(|name| name.starts_with(era::headers::PARAM_PREFIX));
    let allowed = of_tools.fold(SHARED.to_owned(), |allowed, name| allowed + ", " + &name);
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static("GET, POST, DELETE"),
    );
    if let Ok(allowed) = HeaderValue::from_str(&allowed) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    }
    headers.insert(
        header::ACCESS_CONTROL_MAX_AGE,
        HeaderValue::from_static("600"),
    );
    response
}

/// Lets a page of an allowed origin read the answer, session id included.
fn share(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static("mcp-session-id"),
    );
    headers.append(header::VARY, HeaderValue::from_static("origin"));
}
