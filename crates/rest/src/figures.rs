//! `GET /api/figures`: recent calls of each server, and the resources of its processes. Processes
//! are measured only for a request.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{Extension, Json, extract::State};
use mainstay_api as api;
use mainstay_doorway::json_views::servers::millis;
use mainstay_gateway::{
    metrics::{Point, Recent, STEP},
    supervisor::ServerHandle,
};
use mainstay_platform::blocking::off_the_runtime;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{RestDoor, metrics::ProcessUsage};

/// Minimum time for which a measurement of processes is reused.
const FRESH: Duration = Duration::from_secs(2);

/// A measurement is reused for at least this multiple of its own duration. Measuring then takes at
/// most 0.5 % of a CPU. A thousand servers take 60 ms.
const REUSE_FACTOR: u32 = 200;

/// The last measurement of processes. Blocking threads hold the lock while they measure.
#[derive(Clone, Debug, Default)]
pub struct SharedProcesses(Arc<Mutex<Processes>>);

/// A measurement of the processes of all servers.
#[derive(Debug, Default)]
struct Processes {
    usage: Arc<ProcessUsage>,
    /// Time until which `usage` is reused.
    usage_valid_until: Option<Instant>,
}

pub async fn figures(
    State(door): State<RestDoor>,
    Extension(SharedProcesses(processes)): Extension<SharedProcesses>,
) -> Json<api::Figures> {
    // Reads some files in /proc for each process.
    let read = off_the_runtime(move || {
        let usage = processes.lock().measure(&door);
        let servers = door.gateway.registry.servers();
        let moment = (Instant::now(), SystemTime::now());
        api::Figures {
            servers: servers
                .iter()
                .map(|server| server_figures(server, &usage, moment))
                .collect(),
            series_step_ms: millis(STEP),
        }
    });
    Json(read.await)
}

impl Processes {
    fn measure(&mut self, door: &RestDoor) -> Arc<ProcessUsage> {
        let now = Instant::now();
        if self.usage_valid_until.is_none_or(|until| until <= now) {
            self.usage = Arc::new(ProcessUsage::now(
                &door.gateway.lineage.marks_of_all().entries(),
            ));
            let elapsed = now.elapsed();
            self.usage_valid_until = Some(now + elapsed + FRESH.max(elapsed * REUSE_FACTOR));
        }
        Arc::clone(&self.usage)
    }
}

/// The figures of one server. The time is given on the monotonic clock and on the system's clock.
fn server_figures(
    server: &ServerHandle,
    usage: &ProcessUsage,
    (now, today): (Instant, SystemTime),
) -> api::ServerFigures {
    let (totals, recent) = server.figures.recent(now);
    let last_message_at = server.last_message_at().map(Instant::from_std);
    let answered = last_message_at.max(recent.answered);
    let ago = |at: Instant| now.saturating_duration_since(at);
    let usage = usage.servers.get(server.name.as_str());
    api::ServerFigures {
        name: server.name.to_string(),
        calls: totals.calls,
        errors: totals.errors,
        calls_waiting: server.figures.waiting(),
        calls_in_flight: server.figures.in_flight(),
        recent: wire(&recent),
        answered_at: answered
            .and_then(|at| today.checked_sub(ago(at)))
            .and_then(|at| at.duration_since(UNIX_EPOCH).ok())
            .map(millis),
        series: Some(series(&recent.series)).filter(|series| !series.calls.is_empty()),
        processes: usage.map(|(processes, _)| *processes),
        memory_bytes: usage.map(|(_, memory)| *memory),
    }
}

fn wire(recent: &Recent) -> api::RecentCalls {
    let exact = |span: Duration| span.as_secs_f64() * 1000.0;
    api::RecentCalls {
        span_ms: millis(recent.span),
        calls: recent.calls,
        errors: recent.errors,
        calls_per_second: recent.calls_per_second,
        p50_ms: recent.p50.map(exact),
        p95_ms: recent.p95.map(exact),
    }
}

/// Converts points to JSON. Percentiles are rounded up to 0.1 ms, so that texts are short and no
/// percentile is zero.
fn series(points: &[Point]) -> api::CallSeries {
    let tenths = |point: &Point| f64::from(point.p95_micros.div_ceil(100)) / 10.0;
    api::CallSeries {
        calls: points.iter().map(|point| point.calls).collect(),
        p95_ms: points
            .iter()
            .map(|point| (point.calls > 0).then(|| tenths(point)))
            .collect(),
    }
}
