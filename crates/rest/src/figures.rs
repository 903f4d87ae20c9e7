//! `GET /api/figures`: what each server did in the last minute, and what its processes hold. Nothing is
//! read while nobody asks.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::{Json, extract::State};
use mainstay_api as api;
use mainstay_gateway::metrics::{Recent, Window};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{RestDoor, metrics::Held};

/// How long a look at the processes is good for.
const FRESH: Duration = Duration::from_secs(2);

/// On a machine with a great many processes a look is good for so many times as long as it took, so that
/// looking takes no more than a twentieth of a processor.
const PATIENCE: u32 = 20;

/// What the route needs.
#[derive(Clone, Debug)]
pub struct FiguresRoute {
    door: RestDoor,
    /// Locked on threads that may block, while figures are read.
    readings: Arc<Mutex<Readings>>,
}

impl FiguresRoute {
    pub fn new(door: &RestDoor) -> Self {
        Self {
            door: door.clone(),
            readings: Arc::default(),
        }
    }
}

/// What was read before.
#[derive(Debug, Default)]
struct Readings {
    windows: HashMap<String, Window>,
    held: Held,
    /// Until when `held` is good.
    held_until: Option<Instant>,
}

pub async fn figures(
    State(FiguresRoute { door, readings }): State<FiguresRoute>,
) -> Json<api::Figures> {
    // Reads /proc, a few files for each process.
    let read = tokio::task::spawn_blocking(move || readings.lock().read(&door));
    let read = read.await;
    Json(read.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic())))
}

impl Readings {
    fn read(&mut self, door: &RestDoor) -> api::Figures {
        let now = Instant::now();
        if self.held_until.is_none_or(|until| until <= now) {
            self.held = Held::now(&door.gateway.lineage.marks_of_all().entries());
            let took = now.elapsed();
            self.held_until = Some(now + took + FRESH.max(took * PATIENCE));
        }
        let mut before = std::mem::take(&mut self.windows);
        let servers = door.gateway.registry.servers();
        let servers = servers.iter().map(|server| {
            let name = server.name.to_string();
            // The windows of servers that are gone go.
            let mut window = before.remove(&name).unwrap_or_default();
            let totals = server.figures.totals();
            let recent = window.read(now, &totals);
            let held = self.held.servers.get(&name);
            let figures = api::ServerFigures {
                name: name.clone(),
                calls: totals.calls,
                errors: totals.errors,
                calls_waiting: server.figures.waiting(),
                calls_in_flight: server.figures.in_flight(),
                recent: wire(&recent),
                processes: held.map(|(processes, _)| *processes),
                memory_bytes: held.map(|(_, memory)| *memory),
            };
            self.windows.insert(name, window);
            figures
        });
        api::Figures {
            servers: servers.collect(),
        }
    }
}

fn wire(recent: &Recent) -> api::RecentCalls {
    let millis = |span: Duration| span.as_secs_f64() * 1000.0;
    api::RecentCalls {
        span_ms: u64::try_from(recent.span.as_millis()).unwrap_or(u64::MAX),
        calls: recent.calls,
        errors: recent.errors,
        calls_per_second: recent.calls_per_second,
        p50_ms: recent.p50.map(millis),
        p95_ms: recent.p95.map(millis),
    }
}
