//! Waits for a condition, with a limit. Tests do not sleep.

use std::{pin::Pin, time::Duration};

use tokio::time::{Interval, MissedTickBehavior, error::Elapsed, interval, timeout};

use crate::limits::{GLANCE, PROGRAMS};

/// Returns the future's value. The test fails if it takes longer than the limit.
pub fn soon<'f, T: 'f>(
    limit: Duration,
    awaited: &'f str,
    future: impl Future<Output = T> + 'f,
) -> impl Future<Output = T> {
    // Boxed, because waits are nested and each would hold the inner one twice. Without its type, because
    // there are hundreds of types to compile.
    let future: Pin<Box<dyn Future<Output = T> + 'f>> = Box::pin(future);
    async move { timely(awaited, timeout(limit, future).await) }
}

fn timely<T>(awaited: &str, waited: Result<T, Elapsed>) -> T {
    waited.unwrap_or_else(|_| panic!("waited in vain for {awaited}"))
}

/// Like [`soon`], with the limit of a program, for tests whose name tells what is awaited.
pub fn within<'f, T: 'f>(work: impl Future<Output = T> + 'f) -> impl Future<Output = T> {
    soon(PROGRAMS, "what the test is about", work)
}

/// Waits for a condition by checking it repeatedly.
pub async fn until(limit: Duration, awaited: &str, condition: impl Fn() -> bool) {
    until_so(limit, awaited, &condition).await;
}

/// Like [`until`], compiled once.
async fn until_so(limit: Duration, awaited: &str, condition: &dyn Fn() -> bool) {
    found(limit, awaited, async || condition().then_some(())).await;
}

/// Calls `look` repeatedly until it returns a value, and returns that.
pub async fn found<T>(
    limit: Duration,
    awaited: &str,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> T {
    let mut glance = glances(GLANCE);
    let finding: Pin<Box<dyn Future<Output = T>>> = Box::pin(async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            glance.tick().await;
        }
    });
    timely(awaited, timeout(limit, finding).await)
}

/// An interval for repeated checks. Other tasks get their turn even if a check takes long.
pub fn glances(pause: Duration) -> Interval {
    let mut glances = interval(pause);
    glances.set_missed_tick_behavior(MissedTickBehavior::Delay);
    glances
}
