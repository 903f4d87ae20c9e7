//! The REST door.

use std::sync::Arc;

use axum::{Router, routing::get};

use super::mcp::Hub;

pub fn router(hub: Arc<Hub>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route(
            "/readyz",
            get(move || {
                let hub = Arc::clone(&hub);
                async move {
                    if hub.registry.is_settled() {
                        (http::StatusCode::OK, "ready\n")
                    } else {
                        (http::StatusCode::SERVICE_UNAVAILABLE, "servers are starting\n")
                    }
                }
            }),
        )
}
