//! `GET /api/health`: pings servers now, concurrently.

use std::{sync::Arc, time::Duration};

use axum::{Json, extract::State};
use futures_util::future::join_all;
use mainstay_api::{HealthReport, HealthStatus, ServerHealth};
use mainstay_core::message::Method;
use mainstay_gateway::supervisor::ServerHandle;
use tokio::time::{Instant, timeout};

use super::{
    RestDoor,
    address::Query,
    lists::ServerFilter,
    refusal::Refusal,
    servers::{millis, warnings},
    via::RequestView,
};

/// Time limit for a server's answer to a ping.
const PING_LIMIT: Duration = Duration::from_secs(5);

/// Answers `GET /api/health`. `?server=NAME` selects one server.
pub async fn report(
    State(door): State<RestDoor>,
    RequestView(client_view): RequestView,
    Query(filter): Query<ServerFilter>,
) -> Result<Json<HealthReport>, Refusal> {
    let gateway = &door.gateway;
    let servers = match filter.server() {
        Some(name) => vec![gateway.server(&client_view, name)?],
        None => gateway
            .servers_of(&client_view)
            .into_iter()
            .filter(|server| server.is_desired_up())
            .collect(),
    };
    Ok(Json(HealthReport {
        servers: join_all(servers.iter().map(check)).await,
        warnings: warnings(&door),
    }))
}

/// Pings a server in its live session. Does not open a session.
async fn check(server: &Arc<ServerHandle>) -> ServerHealth {
    let view = server.view();
    let status = &view.status;
    let since =
        |at: std::time::Instant| millis(Instant::now().into_std().saturating_duration_since(at));
    let health = status.health.as_ref();
    let mut found = ServerHealth {
        name: server.name.to_string(),
        status: HealthStatus::Error,
        ping_ms: None,
        last_success_ms: view.last_message_at().map(since),
        consecutive_failures: health.map_or(0, |health| health.failures),
        message: view.list_note(),
    };
    let Some(session) = view.session.as_ref().filter(|session| !session.is_over()) else {
        found.message = Some(server.explain_state(&view, view.state().as_str()));
        return found;
    };
    let ping_started_at = Instant::now();
    match timeout(PING_LIMIT, session.ask(Method::Ping, None)).await {
        Ok(Ok(_)) => {
            found.ping_ms = Some(millis(ping_started_at.elapsed()));
            let calls_fail = health.is_some_and(|health| health.failing_calls.is_some());
            if calls_fail {
                found.message.clone_from(&status.reason);
            } else {
                found.consecutive_failures = 0;
            }
            found.status = if calls_fail || view.has_bad_lists() {
                HealthStatus::Unhealthy
            } else {
                HealthStatus::Healthy
            };
        }
        Ok(Err(interruption)) => found.message = Some(interruption.to_string()),
        Err(_) => {
            let busy = match session.liveness.in_flight() {
                0 => String::new(),
                calls => format!("; {calls} in flight"),
            };
            found.status = if view.is_degraded() {
                HealthStatus::Unhealthy
            } else {
                HealthStatus::Timeout
            };
            let seconds = PING_LIMIT.as_secs();
            found.message = Some(format!("ping timed out after {seconds}s{busy}"));
        }
    }
    found
}
