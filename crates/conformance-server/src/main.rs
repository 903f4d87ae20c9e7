//! The test server of `tests/conformance`, never shipped: a Streamable HTTP
//! server on `rmcp` that passes every server scenario of the conformance suite
//! when asked directly, so that whatever fails through a gateway is the
//! gateway's doing.
//!
//! `PORT` (0: a free one) chooses the port on 127.0.0.1; the endpoint is printed
//! on stdout once it is bound.

mod catalog;
mod input;
mod prompts;
mod reconnect;
mod server;
mod tools;

use std::{env, sync::Arc};

use anyhow::Context as _;
use axum::{Router, middleware};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};
use tokio::net::TcpListener;

use crate::server::{Conformance, Shared};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let port: u16 = env::var("PORT")
        .context("PORT is not set")?
        .parse()
        .context("PORT is not a port number")?;
    let listener = TcpListener::bind(("127.0.0.1", port))
        .await
        .with_context(|| format!("cannot listen on 127.0.0.1:{port}"))?;
    announce(&listener)?;
    axum::serve(listener, router(&Arc::new(Shared::new()?))).await?;
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
    Router::new()
        .route_service("/mcp", service)
        .layer(middleware::from_fn_with_state(
            Arc::clone(shared),
            reconnect::layer,
        ))
}

#[expect(clippy::print_stdout, reason = "the caller learns the port from it")]
fn announce(listener: &TcpListener) -> std::io::Result<()> {
    println!("listening on http://{}/mcp", listener.local_addr()?);
    Ok(())
}
