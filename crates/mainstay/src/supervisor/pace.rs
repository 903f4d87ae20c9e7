//! What the attempts of all servers share: turns on the network, and slots for starting processes.

use std::{sync::Arc, time::Duration};

use mainstay_core::config::Launch;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::transport::Turns;

/// How long a starting process may hold its slot: one that hangs in its handshake blocks nobody
/// (design section 12).
pub const SLOT_LIMIT: Duration = Duration::from_secs(2);

/// When an attempt may begin.
#[derive(Debug)]
pub struct Pace {
    pub turns: Arc<Turns>,
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
            turns: Arc::new(Turns::new(attempts_per_second)),
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
                self.turns.take().await;
                Slot(None)
            }
            Launch::Broken(_) => Slot(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use mainstay_core::config::StdioLaunch;

    use super::*;

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
