//! What the attempts of all servers share: turns on the network, and slots for starting processes.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use mainstay_core::config::Launch;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep_until},
};

/// How long a starting process may hold its slot: one that hangs in its handshake blocks nobody
/// (design section 12).
pub const SLOT_LIMIT: Duration = Duration::from_secs(2);

/// A fleet that was lost at once comes back in order, not all at once.
#[derive(Debug)]
pub struct Pace {
    /// Between two attempts over the network.
    gap: Duration,
    next_turn: Mutex<Instant>,
    starts: Arc<Semaphore>,
}

/// Held while a process starts.
#[derive(Debug)]
pub struct Slot(
    #[expect(dead_code, reason = "given back when dropped")] Option<OwnedSemaphorePermit>,
);

impl Pace {
    /// At most so many attempts over the network per second, and processes starting at once.
    pub fn new(attempts_per_second: u32, concurrent_starts: Option<usize>) -> Self {
        let starts = concurrent_starts.unwrap_or_else(|| {
            2 * std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
        });
        Self {
            gap: Duration::from_secs(1) / attempts_per_second.max(1),
            next_turn: Mutex::new(Instant::now()),
            starts: Arc::new(Semaphore::new(starts.max(1))),
        }
    }

    /// Resolves when an attempt may begin.
    pub async fn turn(&self, launch: &Launch) -> Slot {
        match launch {
            Launch::Stdio(_) => {
                // The semaphore is never closed; if it were, nothing would hold attempts back.
                Slot(Arc::clone(&self.starts).acquire_owned().await.ok())
            }
            Launch::Http(_) => {
                let at = {
                    // Held for an addition, never across an await.
                    let mut next = self
                        .next_turn
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner);
                    let at = (*next).max(Instant::now());
                    *next = at + self.gap;
                    at
                };
                sleep_until(at).await;
                Slot(None)
            }
            Launch::Broken(_) => Slot(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use mainstay_core::config::{HttpLaunch, HttpTransport, StdioLaunch};

    use super::*;

    /// Design section 5: `maxAttemptsPerSecond` holds over any second.
    #[tokio::test(start_paused = true)]
    async fn attempts_over_the_network_take_turns() {
        let pace = Pace::new(50, None);
        let launch = Launch::Http(HttpLaunch {
            url: "http://127.0.0.1:1/mcp".to_owned(),
            headers: Vec::new(),
            transport: HttpTransport::Detect,
        });
        let start = Instant::now();
        for turn in 0..100u32 {
            pace.turn(&launch).await;
            assert!(start.elapsed() >= Duration::from_millis(20) * turn);
        }
        assert!(start.elapsed() < Duration::from_millis(2100));
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_processes_start_at_once_and_no_more() {
        let pace = Pace::new(50, Some(2));
        let launch = Launch::Stdio(StdioLaunch::default());
        let held = [pace.turn(&launch).await, pace.turn(&launch).await];
        let third = tokio::time::timeout(Duration::from_secs(60), pace.turn(&launch)).await;
        assert!(third.is_err());
        drop(held);
        pace.turn(&launch).await;
    }
}
