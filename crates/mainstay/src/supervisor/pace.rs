//! What the attempts of all servers share: turns on the network, and slots for starting processes.

use std::{sync::Arc, time::Duration};

use mainstay_core::config::Launch;
use tokio::{
    sync::{Mutex, OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep_until},
};

/// How long a starting process may hold its slot: one that hangs in its handshake blocks nobody
/// (design section 12).
pub const SLOT_LIMIT: Duration = Duration::from_secs(2);

/// So many attempts as a second may have take this long. An attempt reaches its server a little later
/// than it begins, now more, now less; at the servers, too, a second shall not have too many.
const SPAN: Duration = Duration::from_millis(1100);

/// A fleet that was lost at once comes back in order, not all at once.
#[derive(Debug)]
pub struct Pace {
    /// Between two attempts over the network.
    gap: Duration,
    /// Held by whoever is next, until the turn comes: a turn that comes late delays those after it,
    /// and does not let them follow in a heap.
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
            gap: SPAN / attempts_per_second.max(1),
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
                let mut next = self.next_turn.lock().await;
                sleep_until(*next).await;
                *next = Instant::now() + self.gap;
                Slot(None)
            }
            Launch::Broken(_) => Slot(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, StreamExt as _, stream::FuturesOrdered};
    use mainstay_core::config::{HttpLaunch, HttpTransport, StdioLaunch};

    use super::*;

    fn remote() -> Launch {
        Launch::Http(HttpLaunch {
            url: "http://127.0.0.1:1/mcp".to_owned(),
            headers: Vec::new(),
            transport: HttpTransport::Detect,
        })
    }

    /// Design section 5: `maxAttemptsPerSecond` holds over any second.
    #[tokio::test(start_paused = true)]
    async fn attempts_over_the_network_take_turns() {
        let pace = Pace::new(50, None);
        let start = Instant::now();
        for turn in 0..100u32 {
            pace.turn(&remote()).await;
            assert!(start.elapsed() >= Duration::from_millis(22) * turn);
        }
        assert!(start.elapsed() < Duration::from_millis(2300));
    }

    /// A machine that stood still for a while does not make up for it.
    #[tokio::test(start_paused = true)]
    async fn turns_that_come_late_do_not_come_in_a_heap() {
        let (pace, remote) = (Pace::new(50, None), remote());
        let mut taken = Vec::new();
        let turn = || async {
            pace.turn(&remote).await;
            Instant::now()
        };
        let mut turns: FuturesOrdered<_> = (0..3).map(|_| turn()).collect();
        taken.extend(turns.next().await);
        assert!(turns.next().now_or_never().is_none());
        tokio::time::advance(Duration::from_secs(10)).await;
        while let Some(at) = turns.next().await {
            assert!(taken.last().is_none_or(|last| at >= *last + pace.gap));
            taken.push(at);
        }
        assert_eq!(taken.len(), 3);
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
