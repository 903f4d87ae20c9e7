//! The echo backend over Streamable HTTP: raw hyper, one thread, connections kept for ever.
//!
//! Sessions are named but not kept: a backend that remembers nothing costs the same for every
//! proxy in front of it. Prints its URL once it listens.

use std::convert::Infallible;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use clap::Parser;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, server::conn::http1};
use hyper_util::rt::TokioIo;
use mainstay_bench::{
    Era,
    echo::{self, Handled},
};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A minimal MCP server over Streamable HTTP, with one tool: echo.
#[derive(Parser)]
struct Args {
    /// Where to listen; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: std::net::SocketAddr,
    /// Which revisions it speaks
    #[arg(long, value_enum, default_value_t)]
    era: Era,
}

// One thread is the cheapest for the machine as a whole: it takes no core from the proxy.
#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let Args { listen, era } = Args::parse();
    let listener = TcpListener::bind(listen).await?;
    writeln!(std::io::stdout(), "http://{}/mcp", listener.local_addr()?)?;
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => drop(connections.spawn(serve(accepted?.0, era))),
            Some(served) = connections.join_next() => served?,
        }
    }
}

async fn serve(stream: TcpStream, era: Era) {
    if stream.set_nodelay(true).is_err() {
        return; // gone already
    }
    // An error here is the client's: it left, or it does not speak HTTP.
    let _ = http1::Builder::new()
        .serve_connection(
            TokioIo::new(stream),
            service_fn(|request| respond(request, era)),
        )
        .await;
}

async fn respond(
    request: Request<Incoming>,
    era: Era,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let status = match *request.method() {
        Method::POST => return Ok(post(request, era).await),
        Method::DELETE if era == Era::Legacy => StatusCode::OK,
        _ => StatusCode::METHOD_NOT_ALLOWED,
    };
    Ok(empty(status))
}

async fn post(request: Request<Incoming>, era: Era) -> Response<Full<Bytes>> {
    static SESSIONS: AtomicU64 = AtomicU64::new(1);

    let Ok(body) = request.into_body().collect().await else {
        return empty(StatusCode::BAD_REQUEST);
    };
    let mut out = Vec::with_capacity(256);
    let handled = echo::answer(era, &body.to_bytes(), &mut out);
    if handled == Handled::Accepted {
        return empty(StatusCode::ACCEPTED);
    }
    let mut response = Response::new(Full::from(out));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if handled == Handled::Opened {
        let session = SESSIONS.fetch_add(1, Ordering::Relaxed);
        headers.insert("mcp-session-id", HeaderValue::from(session));
    }
    response
}

fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::default();
    *response.status_mut() = status;
    response
}
