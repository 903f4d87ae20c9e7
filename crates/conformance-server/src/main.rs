//! The test server of `tests/conformance`, never shipped: a server on `rmcp`
//! that passes every server scenario of the conformance suite when asked
//! directly, so that whatever fails through a gateway is the gateway's doing.
//!
//! It speaks Streamable HTTP on 127.0.0.1 and prints the endpoint on stdout once
//! it is bound, or stdio with `--stdio`.

mod answer;
mod catalog;
mod era;
mod input;
mod prompts;
mod reconnect;
mod server;
mod skills;
mod state;
mod tasks;
mod tools;

use std::sync::Arc;

use anyhow::Context as _;
use axum::{Router, middleware};
use clap::Parser;
use rmcp::{
    ServiceExt as _,
    transport::{
        stdio,
        streamable_http_server::{
            StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
        },
    },
};
use tokio::net::TcpListener;

use crate::{
    era::{Era, LegacyOnly},
    state::{Conformance, Shared},
};

#[derive(Parser)]
struct Options {
    /// The revisions it speaks
    #[arg(long, value_enum, default_value = "both")]
    era: Era,
    /// The port on 127.0.0.1; 0: a free one
    #[arg(long, env, required_unless_present = "stdio")]
    port: Option<u16>,
    /// Speak on stdin and stdout instead
    #[arg(long, conflicts_with = "port")]
    stdio: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let shared = Arc::new(Shared::new(options.era)?);
    match options.port {
        Some(port) => serve_http(port, &shared).await,
        None => serve_stdio(shared).await,
    }
}

async fn serve_http(port: u16, shared: &Arc<Shared>) -> anyhow::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port))
        .await
        .with_context(|| format!("cannot listen on 127.0.0.1:{port}"))?;
    announce(&listener)?;
    axum::serve(listener, router(shared)).await?;
    Ok(())
}

async fn serve_stdio(shared: Arc<Shared>) -> anyhow::Result<()> {
    let era = shared.era;
    let server = Conformance::new(shared);
    match era {
        Era::Legacy => LegacyOnly(server).serve(stdio()).await?.waiting().await?,
        Era::Modern | Era::Both => server.serve(stdio()).await?.waiting().await?,
    };
    Ok(())
}

fn router(shared: &Arc<Shared>) -> Router {
    let per_session = Arc::clone(shared);
    let service = StreamableHttpService::new(
        move || Ok(Conformance::new(Arc::clone(&per_session))),
        Arc::new(LocalSessionManager::default()),
        // Hosts are loopback by default; origins are unchecked unless listed.
        StreamableHttpServerConfig::default().with_allowed_origins([
            "http://localhost:*",
            "http://127.0.0.1:*",
            "http://[::1]:*",
        ]),
    );
    let router =
        Router::new()
            .route_service("/mcp", service)
            .layer(middleware::from_fn_with_state(
                Arc::clone(shared),
                reconnect::layer,
            ));
    match shared.era {
        Era::Legacy => router.layer(middleware::from_fn(era::legacy_only)),
        Era::Modern | Era::Both => router,
    }
}

#[expect(clippy::print_stdout, reason = "the caller learns the port from it")]
fn announce(listener: &TcpListener) -> std::io::Result<()> {
    println!("listening on http://{}/mcp", listener.local_addr()?);
    Ok(())
}
