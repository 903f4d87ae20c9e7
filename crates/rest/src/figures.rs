//! `GET /api/figures`: what each server did in the last minutes, and what its processes hold. Processes are looked at
//! only while somebody asks.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{Extension, Json, extract::State};
use mainstay_api as api;
use mainstay_doorway::json_views::servers::millis;
use mainstay_gateway::{
    metrics::{Point, Recent, STEP},
    supervisor::Server,
};
use mainstay_platform::blocking::off_the_runtime;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{RestDoor, metrics::Held};

/// How long a look at the processes is good for.
const FRESH: Duration = Duration::from_secs(2);

/// On a machine with a great many processes a look is good for so many times as long as it took, so that
/// looking takes no more than half a percent of a processor. That of a thousand servers takes 60 ms.
const PATIENCE: u32 = 200;

/// What the last look at the processes found. The mutex is locked on threads that may block, while processes are
/// looked at.
#[derive(Clone, Debug, Default)]
pub struct SharedProcesses(Arc<Mutex<Processes>>);

/// What the processes of servers hold.
#[derive(Debug, Default)]
struct Processes {
    held: Arc<Held>,
    /// Until when `held` is good.
    held_until: Option<Instant>,
}

pub async fn figures(
    State(door): State<RestDoor>,
    Extension(SharedProcesses(processes)): Extension<SharedProcesses>,
) -> Json<api::Figures> {
    // Reads /proc, a few files for each process.
    let read = off_the_runtime(move || {
        let held = processes.lock().look(&door);
        let servers = door.gateway.registry.servers();
        let moment = (Instant::now(), SystemTime::now());
        api::Figures {
            servers: servers.iter().map(|it| of(it, &held, moment)).collect(),
            series_step_ms: millis(STEP),
        }
    });
    Json(read.await)
}

impl Processes {
    fn look(&mut self, door: &RestDoor) -> Arc<Held> {
        let now = Instant::now();
        if self.held_until.is_none_or(|until| until <= now) {
            self.held = Arc::new(Held::now(&door.gateway.lineage.marks_of_all().entries()));
            let took = now.elapsed();
            self.held_until = Some(now + took + FRESH.max(took * PATIENCE));
        }
        Arc::clone(&self.held)
    }
}

/// The figures of a server at this moment, by both clocks.
fn of(server: &Server, held: &Held, (now, today): (Instant, SystemTime)) -> api::ServerFigures {
    let (totals, recent) = server.figures.recent(now);
    let heard = server.heard().map(Instant::from_std);
    let answered = heard.max(recent.answered);
    let ago = |at: Instant| now.saturating_duration_since(at);
    let held = held.servers.get(server.name.as_str());
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
        series: Some(series(&recent.series)).filter(|it| !it.calls.is_empty()),
        processes: held.map(|(processes, _)| *processes),
        memory_bytes: held.map(|(_, memory)| *memory),
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

/// Tenths of milliseconds, rounded up, are short, and none is zero.
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
