//! The task that reads the counters of all servers every [`STEP`], so that a query for the last
//! minute gets complete data.

use std::sync::Arc;

use tokio::{
    task::{JoinHandle, yield_now},
    time::{Instant, MissedTickBehavior, interval_at},
};
use tokio_util::sync::CancellationToken;

use super::{Figures, window::STEP};

/// Number of servers that are read before the task yields to other tasks. A server takes less than a
/// microsecond.
const CHUNK: usize = 128;

/// A handle of the task that reads the counters of all servers.
#[derive(Debug)]
pub struct Readings {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Readings {
    /// Reads the counters of `servers` until [`Self::stop`], or until `servers` returns `None`.
    pub fn start<F>(servers: F) -> Self
    where
        F: Fn() -> Option<Vec<Arc<Figures>>> + Send + 'static,
    {
        let stop = CancellationToken::new();
        Self {
            task: tokio::spawn(run(servers, stop.clone())),
            stop,
        }
    }

    /// Stops the task, and returns when it has ended.
    pub async fn stop(self) {
        self.stop.cancel();
        if let Err(error) = self.task.await {
            tracing::error!(%error, "reading the figures failed");
        }
    }
}

async fn run<F>(servers: F, stop: CancellationToken)
where
    F: Fn() -> Option<Vec<Arc<Figures>>>,
{
    let mut ticks = interval_at(Instant::now() + STEP, STEP);
    // After a delay, take one reading instead of several at the same time.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while let Some(now) = stop.run_until_cancelled(ticks.tick()).await {
        let Some(servers) = servers() else { return };
        for chunk in servers.chunks(CHUNK) {
            for figures in chunk {
                figures.take_reading(now);
            }
            yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mainstay_core::message::Method;

    use super::{
        super::{CallEnd, Count},
        *,
    };

    #[tokio::test(start_paused = true)]
    async fn counters_are_read_without_being_asked() {
        let figures = Arc::new(Figures::default());
        let all = Arc::downgrade(&figures);
        let readings = Readings::start(move || Some(vec![all.upgrade()?]));
        let started_at = std::time::Instant::now();
        Count::begin(&figures, (Method::PromptsGet, ""), started_at, 0, |_| false).end(
            CallEnd::Ok,
            Duration::ZERO,
            Duration::from_millis(20),
            0,
        );
        tokio::time::sleep(STEP * 3).await;
        let (totals, recent) = figures.recent(Instant::now());
        assert_eq!((totals.calls, recent.calls), (1, 1));
        assert_eq!(recent.series[0].calls, 1);
        assert!(recent.series.len() >= 2, "{recent:?}");
        readings.stop().await;
    }

    /// If a gateway is dropped without being stopped, the task ends by itself.
    #[tokio::test(start_paused = true)]
    async fn nothing_is_read_when_the_servers_are_gone() {
        let readings = Readings::start(|| None);
        readings.task.await.expect("it ends by itself");
    }
}
