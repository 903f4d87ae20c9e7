//! Waits for conditions, with a time limit. Tests wait instead of sleeping.

use std::{pin::Pin, time::Duration};

use tokio::time::{Interval, MissedTickBehavior, error::Elapsed, interval, timeout};

use crate::limits::{GLANCE, PROGRAMS};

/// Waits for a future, and returns its value. Panics if the future takes longer than the limit.
pub fn soon<'f, T: 'f>(
    limit: Duration,
    awaited: &'f str,
    future: impl Future<Output = T> + 'f,
) -> impl Future<Output = T> {
    // Boxed, because waits are nested, and each wait would hold the inner future twice. `dyn`, so that
    // rustc does not compile the wait for hundreds of types.
    let future: Pin<Box<dyn Future<Output = T> + 'f>> = Box::pin(future);
    async move { timely(awaited, timeout(limit, future).await) }
}

fn timely<T>(awaited: &str, waited: Result<T, Elapsed>) -> T {
    waited.unwrap_or_else(|_| panic!("waited in vain for {awaited}"))
}

/// Like [`soon`], with the limit [`PROGRAMS`]. For tests whose name already describes the wait.
pub fn within<'f, T: 'f>(work: impl Future<Output = T> + 'f) -> impl Future<Output = T> {
    soon(PROGRAMS, "what the test is about", work)
}

/// Checks a condition repeatedly until it is true. Panics after the limit.
pub async fn until(limit: Duration, awaited: &str, condition: impl Fn() -> bool) {
    until_so(limit, awaited, &condition).await;
}

/// Like [`until`], but compiled only once.
async fn until_so(limit: Duration, awaited: &str, condition: &dyn Fn() -> bool) {
    found(limit, awaited, async || condition().then_some(())).await;
}

/// Calls `look` repeatedly until it returns a value, and returns the value. Panics after the limit.
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

/// An interval for repeated checks. A slow check delays later checks, so that other tasks can run
/// between two checks.
pub fn glances(pause: Duration) -> Interval {
    let mut glances = interval(pause);
    glances.set_missed_tick_behavior(MissedTickBehavior::Delay);
    glances
}
