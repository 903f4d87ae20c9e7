//! One upstream session with its lifecycle, and the means to carry out the lifecycle's effects.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use mainstay_core::{
    ids::Epoch,
    lifecycle::{Effect, Event, Lifecycle, Policy, SessionStatus},
};
use mainstay_transport::{Listener, Stop, UpstreamSession};
use tokio::time::Instant;

pub struct ManagedSession {
    lifecycle: Lifecycle,
    pub policy: Policy,
    pub stop: Stop,
    /// The session, while it is up.
    pub session: Option<Arc<UpstreamSession>>,
    /// The `initialize` parameters for the next attempt.
    pub initialize: Arc<str>,
    /// The `initialize` parameters of the latest attempt.
    pub begun_with: Arc<str>,
    pub listener: Arc<dyn Listener>,
}

impl ManagedSession {
    pub fn new(policy: Policy, initialize: Arc<str>, listener: Arc<dyn Listener>) -> Self {
        Self {
            lifecycle: Lifecycle::default(),
            policy,
            stop: Stop::default(),
            session: None,
            begun_with: Arc::clone(&initialize),
            initialize,
            listener,
        }
    }

    /// Replaces the lifecycle by a new one whose epochs are all later than `past`.
    #[must_use]
    pub fn after(self, past: Epoch) -> Self {
        Self {
            lifecycle: Lifecycle::after(past),
            ..self
        }
    }

    pub fn step(&mut self, event: Event) -> Option<Effect> {
        let lifecycle = std::mem::take(&mut self.lifecycle);
        let (lifecycle, effect) = lifecycle.step(event, Instant::now().into_std(), &self.policy);
        self.lifecycle = lifecycle;
        effect
    }

    pub fn status(&self) -> SessionStatus {
        self.lifecycle.status(&self.policy)
    }

    pub fn epoch(&self) -> Epoch {
        self.lifecycle.epoch()
    }

    pub fn deadline(&self) -> Option<Instant> {
        let deadline = self.lifecycle.deadline(&self.policy).map(Instant::from_std);
        deadline.map(|deadline| shared_tick(deadline, self.lifecycle.leeway(&self.policy)))
    }
}

/// Interval of the ticks at which timers with a leeway fire. All servers share the ticks, because
/// waking the daemon costs more than a probe.
const TICK: Duration = Duration::from_secs(1);

/// The first tick at or after `due`, if it is within the leeway. Otherwise `due`.
fn shared_tick(due: Instant, leeway: Duration) -> Instant {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let since = due.saturating_duration_since(*START).as_micros();
    let until = (TICK.as_micros() - since % TICK.as_micros()) % TICK.as_micros();
    let wait = Duration::from_micros(u64::try_from(until).unwrap_or_default());
    if wait <= leeway { due + wait } else { due }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_may_wait_is_done_together() {
        let now = Instant::now();
        let ms = Duration::from_millis;
        let tick = shared_tick(now, TICK);
        for wait in [1, 250, 999] {
            let due = tick + ms(wait);
            let together = shared_tick(due, TICK);
            let (next, together) = (tick + TICK, together + ms(1));
            assert!(together > next && together < next + ms(2), "{wait}");
            // With too little leeway, the timer fires at `due`.
            assert_eq!(shared_tick(due, ms(999 - wait)), due, "{wait}");
        }
    }
}
