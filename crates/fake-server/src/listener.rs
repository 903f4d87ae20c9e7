//! The loopback listener of the HTTP transports, and its connections: one task
//! owns both, and takes commands.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::events::{Cut, Events};
use crate::script::Script;
use crate::service::{Received, Service};
use crate::{http, sse};

pub(crate) type Reply = Response<BoxBody<Bytes, Cut>>;

/// The transport spoken on a listener.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Door {
    Http,
    Sse,
}

pub(crate) enum Command {
    /// Closes the listener and all connections, or listens again; answers when done.
    Refuse(bool, oneshot::Sender<io::Result<()>>),
    /// Breaks every connection.
    Cut,
    Stop,
}

enum Event {
    Accepted(io::Result<TcpStream>),
    Commanded(Option<Command>),
    Ended,
}

/// Binds a loopback port; 0 takes a free one.
pub(crate) async fn bind(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await
}

/// Serves until told to stop, or until nobody can tell.
pub(crate) async fn serve(
    door: Door,
    service: Arc<Service>,
    listener: TcpListener,
    mut commands: mpsc::UnboundedReceiver<Command>,
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
            Event::Commanded(Some(Command::Refuse(refuse, done))) => {
                let outcome = if refuse {
                    listener = None;
                    connections.shutdown().await;
                    Ok(())
                } else {
                    bind(address.port()).await.map(|it| listener = Some(it))
                };
                // The test may not wait for it.
                let _ = done.send(outcome);
            }
            Event::Commanded(Some(Command::Cut)) => connections.shutdown().await,
            Event::Commanded(Some(Command::Stop) | None) => {
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
    // Without it small answers wait for the peer's acknowledgement; a failure costs only time.
    let _ = stream.set_nodelay(true);
    let answer = service_fn(|request| {
        let service = Arc::clone(&service);
        async move { Ok::<_, Infallible>(answer(door, &service, request).await) }
    });
    // A connection that breaks is what clients do; a stream that is cut is what tests ask for.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), answer)
        .await;
}

async fn answer(door: Door, service: &Arc<Service>, request: Request<Incoming>) -> Reply {
    let (head, body) = request.into_parts();
    let Ok(body) = body.collect().await else {
        return plain(StatusCode::BAD_REQUEST, "the body broke off");
    };
    let received = Received {
        verb: head.method.to_string(),
        path: head.uri.to_string(),
        headers: head.headers,
        body: String::from_utf8_lossy(&body.to_bytes()).into_owned(),
    };
    service.record(received.clone());
    let script = service.script();
    if let Some(refusal) = refuse(&script, &received) {
        return refusal;
    }
    match door {
        Door::Http => http::answer(service, &script, &received).await,
        Door::Sse => sse::answer(service, &received),
    }
}

/// Refusals that ask for no session.
fn refuse(script: &Script, received: &Received) -> Option<Reply> {
    if let Some(required) = &script.require_header
        && header(&received.headers, &required.name) != Some(&required.value)
    {
        let mut reply = plain(StatusCode::UNAUTHORIZED, "unauthorized");
        let scheme = HeaderValue::from_static("Bearer");
        reply.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        return Some(reply);
    }
    let status = script.status.filter(|_| received.verb == "POST")?;
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Some(plain(status, "as scripted"))
}

pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

pub(crate) fn plain(status: StatusCode, text: &str) -> Reply {
    reply(status, "text/plain", Full::from(text.to_owned()))
}

pub(crate) fn json(status: StatusCode, text: String) -> Reply {
    reply(status, "application/json", Full::from(text))
}

pub(crate) fn stream(events: Events) -> Reply {
    let mut reply = Response::new(events.boxed());
    let kind = HeaderValue::from_static("text/event-stream");
    reply.headers_mut().insert(CONTENT_TYPE, kind);
    reply
}

pub(crate) fn not_allowed(allowed: &'static str) -> Reply {
    let mut reply = plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed");
    let allowed = HeaderValue::from_static(allowed);
    reply.headers_mut().insert(ALLOW, allowed);
    reply
}

fn reply(status: StatusCode, kind: &'static str, body: Full<Bytes>) -> Reply {
    let mut reply = Response::new(body.map_err(|never| match never {}).boxed());
    *reply.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    reply.headers_mut().insert(CONTENT_TYPE, kind);
    reply
}
