//! Detects that the machine has slept, and notifies the servers.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use mainstay_platform::clock::SleepClock;
use tokio_util::sync::CancellationToken;

use super::servers::Servers;

/// Interval at which the clock is read, and the shortest suspension that counts as sleep.
const CLOCK_LOOK: Duration = Duration::from_secs(1);
const SHORTEST_SLEEP: Duration = Duration::from_secs(1);

/// Notifies every server when the machine has slept.
pub(super) async fn wake(
    servers: Arc<ArcSwap<Servers>>,
    clock: SleepClock,
    stop: CancellationToken,
) {
    let mut slept = clock.slept();
    let mut look = tokio::time::interval(CLOCK_LOOK);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = look.tick() => {}
        }
        let now = clock.slept();
        if now.saturating_sub(slept) >= SHORTEST_SLEEP {
            tracing::info!(slept = ?now.saturating_sub(slept), "the machine slept");
            for server in &servers.load().list {
                server.resumed();
            }
        }
        slept = now;
    }
}
