//! The HTTP listener. It serves MCP at the MCP paths. Other requests (REST, the web page) go to the
//! REST router.

use std::{
    convert::Infallible,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{body::HttpBody as _, response::IntoResponse as _};
use futures_util::FutureExt as _;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version, header};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use mainstay_core::{config::AddressRange, era, message, principal::Principal};
use mainstay_doorway::{
    authenticator::{Authenticator, Unauthorized, Visit},
    forwarded,
    guard::{Forbidden, Guard, is_from_unnamed_origin},
    peer::{OverTls, Visitor},
};
use mainstay_gateway::registry::unknown_server;
use mainstay_transport::logs::Throttle;
use serde_json::json;
use tokio::{
    net::TcpStream,
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower_service::Service as _;

use crate::{
    client_stream::ClientStream,
    connections::{ConnectionGuard, Connections},
    cors::{preflight, share},
    half_closed::{AnswerStage, AwaitedClient},
    listen::Listeners,
    mcp::{
        EndpointScope, Mcp, ResponseBody,
        wire::{self, sse},
    },
    tls::ServerTls,
    traffic::{Counted, Traffic},
    unread::{Share, UnreadAnswers},
    woken_only::WokenOnly,
};

/// Delay after a failed accept, for example with too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Time limit for the current answers when the listener closes.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// Number of checks ([`HttpServer::look`]) without a new request after which a connection ends with
/// its current answer. A timer for each connection is cheaper than one for each request.
const MAX_QUIET_CHECKS: u32 = 4;

/// The minimum rate at which a client must read an answer, as an average between two checks.
const MIN_BYTES_PER_SECOND: u64 = 8 * 1024;

/// The state that a listener's connections share.
#[derive(Debug)]
pub struct HttpServer {
    pub mcp: Arc<Mcp>,
    pub rest: axum::Router,
    pub guard: Guard,
    pub authenticator: Authenticator,
    pub connections: Arc<Connections>,
    pub unread: Arc<UnreadAnswers>,
    /// `None` serves plain HTTP.
    pub tls: Option<Arc<ServerTls>>,
    /// Proxies whose forwarding headers are believed.
    pub trusted_proxies: Vec<AddressRange>,
    /// Interval of connection checks.
    pub look: Duration,
}

/// Accepts connections until `stop`. Returns when all connections have ended, or at
/// `CLOSE_LIMIT`.
pub async fn serve(listeners: Listeners, door: Arc<HttpServer>, stop: CancellationToken) {
    let connections = TaskTracker::new();
    let mut accept_failures = Throttle::default();
    loop {
        let accept_result = tokio::select! {
            () = stop.cancelled() => break,
            accept_result = listeners.accept() => accept_result,
        };
        match accept_result {
            Ok((stream, address)) => {
                let is_proxy = forwarded::is_trusted(&door.trusted_proxies, address);
                let place = if is_proxy {
                    door.connections.enter_proxy(address)
                } else {
                    door.connections.enter(address)
                };
                let client = ConnectedClient {
                    door: Arc::clone(&door),
                    address,
                    is_proxy,
                    place,
                    requests: AtomicU64::new(0),
                    visit: Visit::default(),
                };
                connections.spawn(connection(stream, client, stop.clone()).boxed());
            }
            Err(error) => {
                if let Some(times) = accept_failures.again() {
                    tracing::warn!(%error, times, "a connection could not be accepted");
                }
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listeners);
    connections.close();
    if timeout(CLOSE_LIMIT, connections.wait()).await.is_err() {
        tracing::warn!("connections were still open at the end");
    }
}

/// Serves one connection until the client closes it, or until there is a reason to end it
/// ([`Leave`]).
async fn connection(stream: TcpStream, client: ConnectedClient, stop: CancellationToken) {
    let stream = match &client.door.tls {
        None => ClientStream::Plain(stream),
        // Boxed, so that plain connections do not reserve the size of a handshake.
        Some(tls) => match encrypted(tls, stream, &client, &stop).boxed().await {
            Some(stream) => stream,
            None => return,
        },
    };
    let client = Arc::new(client);
    let traffic = Arc::new(Traffic::default());
    let service = service_fn({
        let client = Arc::clone(&client);
        let answer_stage = Arc::clone(&traffic.answering);
        move |request: Request<Incoming>| {
            client.requests.fetch_add(1, Ordering::Relaxed);
            answer_stage.set(match request.version() {
                Version::HTTP_11 => AnswerStage::Awaited,
                _ => AnswerStage::AwaitedOverHttp10,
            });
            let (client, answer_stage) = (Arc::clone(&client), Arc::clone(&answer_stage));
            // Boxed, because hyper keeps space for the future as long as the connection lives.
            Box::pin(async move {
                let mut response = client.serve(request).await;
                match response.body_mut() {
                    ResponseBody::Events(events) if events.outlasts_its_client() => {
                        events.await_client(AwaitedClient::new(&answer_stage));
                    }
                    body if is_stream(body) => answer_stage.set(AnswerStage::Sent),
                    _ => answer_stage.set(AnswerStage::Made),
                }
                Ok::<_, Infallible>(response)
            })
        }
    });
    let unread_share = Share::new(Arc::clone(&client.door.unread));
    let give_up_signal = unread_share.given_up();
    let stream = TokioIo::new(Counted::new(stream, Arc::clone(&traffic), unread_share));
    let connection = http1::Builder::new().serve_connection(stream, service);
    let mut connection = std::pin::pin!(connection);
    let mut watch = ConnectionWatch {
        changes: client.door.authenticator.changes(),
        client: &client,
        stop: &stop,
        traffic: &traffic,
        given_up: &give_up_signal,
        requests: 0,
        quiet: 0,
        blocked_at: None,
        leaving: false,
    };
    let result = loop {
        tokio::select! {
            biased;
            result = connection.as_mut() => break result,
            leave = WokenOnly::new(watch.reason_to_leave()) => match leave {
                Leave::Now => return,
                Leave::Reset => {
                    traffic.reset();
                    return;
                }
                Leave::Soon => {
                    connection.as_mut().graceful_shutdown();
                    let Ok(result) = timeout(CLOSE_LIMIT, connection).await else {
                        return;
                    };
                    break result;
                }
                Leave::AfterTheAnswer => connection.as_mut().graceful_shutdown(),
            },
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended with an error");
    }
}

/// Encrypts a connection, which occupies its place meanwhile. `None` if it ends before its first request.
async fn encrypted(
    tls: &ServerTls,
    stream: TcpStream,
    client: &ConnectedClient,
    stop: &CancellationToken,
) -> Option<ClientStream> {
    tokio::select! {
        stream = tls.open(stream, client.address, client.door.look) => stream,
        () = client.place.evicted() => None,
        () = stop.cancelled() => None,
    }
}

fn is_stream(body: &ResponseBody) -> bool {
    match body {
        ResponseBody::Whole(_) => false,
        ResponseBody::Events(_) => true,
        ResponseBody::Other(body) => body.size_hint().exact().is_none(),
    }
}

/// The client of one connection, with the connection's place and its last principal.
struct ConnectedClient {
    door: Arc<HttpServer>,
    address: IpAddr,
    /// True if the address is that of a trusted proxy.
    is_proxy: bool,
    place: ConnectionGuard,
    requests: AtomicU64,
    visit: Visit,
}

impl ConnectedClient {
    /// Answers a request. A reserved connection is closed after one request outside of MCP.
    async fn serve(&self, request: Request<Incoming>) -> Response<ResponseBody> {
        let is_reserved = self.place.note_request();
        let mut response = self.door.serve(request, self, is_reserved).await;
        if is_reserved && !self.place.is_client() {
            response.headers_mut().insert(header::CONNECTION, CLOSE);
        }
        response
    }
}

/// The way in which a connection ends.
enum Leave {
    Now,
    /// At once and with a reset, because the client does not read the answer.
    Reset,
    /// After the current answer, within [`CLOSE_LIMIT`].
    Soon,
    /// After the current answer, as long as the client reads it.
    AfterTheAnswer,
}

/// Checks one connection at intervals.
struct ConnectionWatch<'a> {
    client: &'a ConnectedClient,
    stop: &'a CancellationToken,
    traffic: &'a Traffic,
    given_up: &'a CancellationToken,
    changes: watch::Receiver<()>,
    /// Number of requests at the last check, and number of checks since then without a new one.
    requests: u64,
    quiet: u32,
    /// Bytes written at the last check, if the client was not reading then.
    blocked_at: Option<u64>,
    /// True if the connection is to end after its current answer.
    leaving: bool,
}

impl ConnectionWatch<'_> {
    /// Waits for a reason to end the connection: `stop`, no new request, an unread answer, lost
    /// access, or eviction.
    async fn reason_to_leave(&mut self) -> Leave {
        loop {
            let is_due = tokio::select! {
                () = self.stop.cancelled(), if !self.leaving => {
                    self.leaving = true;
                    return Leave::AfterTheAnswer;
                }
                () = self.client.place.evicted() => return Leave::Now,
                () = self.given_up.cancelled() => {
                    tracing::debug!(address = %self.client.address, "an answer is not read, and others need its memory");
                    return Leave::Reset;
                }
                Ok(()) = self.changes.changed() => false,
                () = sleep(self.client.door.look) => true,
            };
            if !self
                .client
                .door
                .authenticator
                .is_open_to(&self.client.visit)
            {
                return Leave::Soon;
            }
            if is_due && let Some(reason) = self.check() {
                return reason;
            }
        }
    }

    fn check(&mut self) -> Option<Leave> {
        let requests = self.client.requests.load(Ordering::Relaxed);
        if requests == 0 {
            // The client has sent nothing since it connected.
            return Some(Leave::Now);
        }
        let written_bytes = self.traffic.written();
        let was_blocked_at = self.blocked_at.take();
        if self.traffic.is_blocked() {
            let min_bytes =
                u128::from(MIN_BYTES_PER_SECOND) * self.client.door.look.as_millis() / 1000;
            if was_blocked_at
                .is_some_and(|bytes_before| u128::from(written_bytes - bytes_before) < min_bytes)
            {
                tracing::debug!(address = %self.client.address, "an answer is not read");
                return Some(Leave::Reset);
            }
            self.blocked_at = Some(written_bytes);
        }
        self.quiet = if requests == self.requests {
            self.quiet + 1
        } else {
            0
        };
        self.requests = requests;
        if self.quiet >= MAX_QUIET_CHECKS && !self.leaving {
            self.leaving = true;
            return Some(Leave::AfterTheAnswer);
        }
        None
    }
}

impl HttpServer {
    async fn serve(
        &self,
        mut request: Request<Incoming>,
        client: &ConnectedClient,
        is_reserved: bool,
    ) -> Response<ResponseBody> {
        let mut address = client.address;
        let mut is_tls = self.tls.is_some();
        // A page that rebinds its name to a trusted address can write the proxy's headers, but not `Host`.
        let mut checked = self.guard.check(request.uri(), request.headers());
        if client.is_proxy {
            address = forwarded::visitor(&self.trusted_proxies, address, request.headers());
            is_tls = forwarded::is_https(request.headers()).unwrap_or(is_tls);
            forwarded::restore_host(request.headers_mut());
            checked = checked.and_then(|()| self.guard.check(request.uri(), request.headers()));
        }
        let endpoint = self.endpoint(request.uri().path());
        if let Err(violation) = checked {
            let (status, code) = match violation {
                Forbidden::Malformed => (StatusCode::BAD_REQUEST, "invalid_request"),
                Forbidden::Host | Forbidden::Origin => (StatusCode::FORBIDDEN, "forbidden"),
            };
            let reason = violation.to_string();
            return match endpoint {
                Some(_) => refuse(status, &reason),
                None => not_sniffed(refuse_plainly(status, code, &reason)),
            };
        }
        let origin = request.headers().get(header::ORIGIN).cloned();
        let mut response = match endpoint {
            // Browsers omit `Origin` only with GET, and with HEAD, which no endpoint serves.
            Some(_)
                if request.method() == Method::GET && is_from_unnamed_origin(request.headers()) =>
            {
                let reason = "a page of another site has to say its Origin";
                refuse(StatusCode::FORBIDDEN, reason)
            }
            Some(_) if request.method() == Method::OPTIONS => preflight(request.headers()),
            Some(endpoint) => {
                let (demand, headers) = (self.authenticator.mcp, request.headers());
                match self.authenticator.admit(demand, headers, &client.visit) {
                    Ok(principal) => {
                        let endpoint = self.admitted(endpoint, &principal);
                        let visitor = Visitor {
                            principal,
                            address: Some(address),
                        };
                        if is_reserved && !client.place.admit() {
                            wire::http::too_many_connections(&self.mcp, visitor, request).await
                        } else {
                            self.mcp(endpoint, visitor, request).await
                        }
                    }
                    Err(reason) => unauthorized(reason),
                }
            }
            None => {
                if is_tls {
                    request.extensions_mut().insert(OverTls);
                }
                not_sniffed(self.other(request, &client.visit).await)
            }
        };
        if let Some(origin) = origin {
            share(response.headers_mut(), origin);
        }
        response
    }

    async fn mcp(
        &self,
        endpoint: Result<(EndpointScope, Endpoint), String>,
        visitor: Visitor,
        request: Request<Incoming>,
    ) -> Response<ResponseBody> {
        match endpoint {
            Ok((scope, Endpoint::Streamable)) => {
                wire::http::serve(&self.mcp, scope, visitor, request).await
            }
            Ok((scope, Endpoint::Sse(endpoint))) => {
                wire::sse::serve(&self.mcp, scope, visitor, endpoint, request).await
            }
            Err(reason) => wire::http::nowhere(&self.mcp, visitor, request, &reason).await,
        }
    }

    /// Answers a request for REST, the web page or `/metrics`.
    async fn other(&self, request: Request<Incoming>, visit: &Visit) -> Response<ResponseBody> {
        if request.uri().path() == "/metrics" {
            let (demand, headers) = (self.authenticator.metrics, request.headers());
            match self.authenticator.admit(demand, headers, visit) {
                Err(reason) => {
                    let status = StatusCode::UNAUTHORIZED;
                    let refusal = refuse_plainly(status, "unauthorized", &reason.to_string());
                    return challenged(refusal, reason);
                }
                Ok(principal) if !self.mcp.gateway().access.is_unlimited(&principal) => {
                    let reason = "the metrics name every server, and the rules of access limit this client; use the control token, or a token that may use everything";
                    return refuse_plainly(StatusCode::FORBIDDEN, "forbidden", reason);
                }
                Ok(_) => {}
            }
        } else {
            self.authenticator.note(request.headers(), visit);
        }
        let mut rest = self.rest.clone();
        let Ok(response) = rest.call(request.map(axum::body::Body::new)).await;
        response.map(ResponseBody::Other)
    }

    /// Returns the endpoint if the principal may use it. A forbidden server and an unknown one get
    /// the same error.
    fn admitted(
        &self,
        endpoint: Result<(EndpointScope, Endpoint), UnknownEndpoint>,
        principal: &Principal,
    ) -> Result<(EndpointScope, Endpoint), String> {
        let gateway = self.mcp.gateway();
        let access = &gateway.access;
        let unknown_profile = |name: &str| {
            let is_open = |profile: &_| access.opens(principal, Some(profile));
            gateway.registry.unknown_profile(name, is_open).message
        };
        let (scope, endpoint) = endpoint.map_err(|endpoint| match endpoint {
            UnknownEndpoint::Server(name) => unknown_server(&name).message,
            UnknownEndpoint::Profile(name) => unknown_profile(&name),
        })?;
        match &scope {
            EndpointScope::One(server) if !access.allows_server(principal, None, &server.name) => {
                Err(unknown_server(server.name.as_str()).message)
            }
            EndpointScope::Profile(profile) if !access.opens(principal, Some(&profile.name)) => {
                Err(unknown_profile(profile.name.as_str()))
            }
            EndpointScope::One(_) | EndpointScope::Profile(_) => Ok((scope, endpoint)),
        }
    }

    /// The MCP endpoint at a path; `None` if the path is not one of MCP.
    fn endpoint(&self, path: &str) -> Option<Result<(EndpointScope, Endpoint), UnknownEndpoint>> {
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
            "sse" => Endpoint::Sse(sse::SseEndpoint::Stream),
            "sse/message" => Endpoint::Sse(sse::SseEndpoint::Message),
            _ => return None,
        };
        let registry = &self.mcp.gateway().registry;
        let scope = match (server, profile) {
            (Some(name), _) => registry
                .server(name)
                .map(EndpointScope::One)
                .map_err(|_| UnknownEndpoint::Server(name.to_owned())),
            (None, Some(name)) => registry
                .profile(name)
                .map(EndpointScope::Profile)
                .map_err(|_| UnknownEndpoint::Profile(name.to_owned())),
            (None, None) => Ok(EndpointScope::Profile(registry.default_profile())),
        };
        Some(scope.map(|scope| (scope, endpoint)))
    }
}

const CLOSE: HeaderValue = HeaderValue::from_static("close");

/// The transport of an MCP endpoint.
enum Endpoint {
    Streamable,
    Sse(sse::SseEndpoint),
}

/// The name in the path of an endpoint that does not exist.
enum UnknownEndpoint {
    Server(String),
    Profile(String),
}

/// Refuses with a JSON-RPC error.
fn refuse(status: StatusCode, reason: &str) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::from(message::error_response(
        None,
        era::code::INVALID_REQUEST,
        reason,
        None,
    )));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

/// Refuses a request outside of MCP with an error in the format of REST.
fn refuse_plainly(status: StatusCode, code: &str, reason: &str) -> Response<ResponseBody> {
    let body = axum::Json(json!({"error": code, "message": reason}));
    (status, body).into_response().map(ResponseBody::Other)
}

/// Sets headers against content sniffing and against use by pages of other origins.
fn not_sniffed(mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    let headers = response.headers_mut();
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    headers
        .entry("cross-origin-resource-policy")
        .or_insert(HeaderValue::from_static("same-origin"));
    response
}

fn unauthorized(reason: Unauthorized) -> Response<ResponseBody> {
    challenged(
        refuse(StatusCode::UNAUTHORIZED, &reason.to_string()),
        reason,
    )
}

fn challenged(
    mut response: Response<ResponseBody>,
    reason: Unauthorized,
) -> Response<ResponseBody> {
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, reason.challenge());
    response
}
