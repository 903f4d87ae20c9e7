//! The loopback listener of the HTTP transports. One task owns the listener and its connections,
//! and receives commands.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::reply::{HttpReply, full, header, plain};
use crate::script::Script;
use crate::service::{ListenerCommand, Received, Service};
use crate::{bent, http, sse};

/// The transport of a listener.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Door {
    Http,
    Sse,
}

enum Event {
    Accepted(io::Result<TcpStream>),
    Commanded(Option<ListenerCommand>),
    Ended,
}

/// Binds a loopback port. Port 0 selects a free one.
pub(crate) async fn bind(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await
}

/// Serves until the stop command, or until the sender is dropped.
pub(crate) async fn serve(
    door: Door,
    service: Arc<Service>,
    listener: TcpListener,
    mut commands: mpsc::UnboundedReceiver<ListenerCommand>,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    let mut listener = Some(listener);
    let mut connections = JoinSet::new();
    loop {
        let event = tokio::select! {
            stream = accept(listener.as_ref()) => Event::Accepted(stream),
            command = commands.recv() => Event::Commanded(command),
            Some(_) = connections.join_next() => Event::Ended,
        };
        match event {
            Event::Accepted(stream) => {
                connections.spawn(connection(door, Arc::clone(&service), stream?));
            }
            Event::Ended => {}
            Event::Commanded(Some(ListenerCommand::Refuse(refuse, done))) => {
                let outcome = if refuse {
                    listener = None;
                    connections.shutdown().await;
                    Ok(())
                } else {
                    bind(address.port())
                        .await
                        .map(|bound| listener = Some(bound))
                };
                // The caller may have stopped waiting.
                let _ = done.send(outcome);
            }
            Event::Commanded(Some(ListenerCommand::Cut)) => connections.shutdown().await,
            Event::Commanded(Some(ListenerCommand::Stop) | None) => {
                connections.shutdown().await;
                return Ok(());
            }
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> io::Result<TcpStream> {
    match listener {
        Some(listener) => Ok(listener.accept().await?.0),
        None => std::future::pending().await,
    }
}

async fn connection(door: Door, service: Arc<Service>, stream: TcpStream) {
    // Avoids the delay of small writes. A failure only adds latency.
    let _ = stream.set_nodelay(true);
    let answer = service_fn(|request| {
        let service = Arc::clone(&service);
        async move { Ok::<_, Infallible>(answer(door, &service, request).await) }
    });
    // Errors are expected, because clients disconnect and tests cut streams.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), answer)
        .await;
}

async fn answer(door: Door, service: &Arc<Service>, request: Request<Incoming>) -> HttpReply {
    let (head, body) = request.into_parts();
    let Ok(body) = body.collect().await else {
        return plain(StatusCode::BAD_REQUEST, "the body broke off");
    };
    let mut received_request = Received {
        at: Instant::now(),
        verb: head.method.to_string(),
        path: head.uri.to_string(),
        headers: head.headers,
        body: String::from_utf8_lossy(&body.to_bytes()).into_owned(),
    };
    service.record(received_request.clone());
    let turn = service.turn().await;
    let script = service.script();
    if let Some(refusal) = refuse(service, &script, &received_request) {
        return refusal;
    }
    if let Some(reply) = bent::answer(&script, &mut received_request) {
        return reply;
    }
    let mut reply = match door {
        Door::Http => http::answer(service, &script, &received_request, turn).await,
        // The modern era has no HTTP+SSE.
        Door::Sse if !script.is_legacy() => plain(StatusCode::NOT_FOUND, "not found"),
        Door::Sse => sse::answer(service, &received_request, turn),
    };
    bent::change(&script, &received_request, &mut reply);
    reply
}

/// Refuses a request before its session is looked up.
fn refuse(service: &Service, script: &Script, received_request: &Received) -> Option<HttpReply> {
    if let Some(required_header) = &script.require_header
        && header(&received_request.headers, &required_header.name) != Some(&required_header.value)
    {
        let mut reply = plain(StatusCode::UNAUTHORIZED, "unauthorized");
        let scheme = HeaderValue::from_static("Bearer");
        reply.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        return Some(reply);
    }
    if !service.takes_scripted_status(received_request.verb == "POST") {
        let health = (received_request.path == "/health").then_some(script.health)??;
        return Some(scripted(health));
    }
    let mut reply = scripted(script.status?);
    if let Some(body) = &script.status_body {
        let kind = match body.as_bytes().first() {
            Some(b'{') => "application/json",
            Some(b'<') => "text/html",
            _ => "text/plain",
        };
        reply
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        *reply.body_mut() = full(body.clone());
    }
    if let Some(location) = &script.location {
        let location = HeaderValue::from_str(location).expect("a script's header is one");
        reply.headers_mut().insert(LOCATION, location);
    }
    if let Some(seconds) = &script.retry_after {
        let seconds = HeaderValue::from_str(seconds).expect("a script's header is one");
        reply.headers_mut().insert(RETRY_AFTER, seconds);
    }
    Some(reply)
}

fn scripted(status: u16) -> HttpReply {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    plain(status, "as scripted")
}
