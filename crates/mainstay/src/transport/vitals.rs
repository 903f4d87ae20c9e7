//! Signs of life of one connection: written by whoever reads and calls, read by whoever judges.
//!
//! They are touched on every message, so they are a few atomics.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use mainstay_core::health::Fault;
use tokio::time::Instant;

use super::{Frame, Interruption, InterruptionKind};

#[derive(Debug)]
pub struct Vitals {
    opened: Instant,
    /// When a message of the protocol came last; times are milliseconds since `opened`.
    heard: AtomicU64,
    /// Calls in a row, since then, that got something else than an answer.
    failed: AtomicU32,
    /// What the last of them got. Held for a copy only, and by calls that fail only.
    fault: Mutex<Option<Fault>>,
    in_flight: AtomicU32,
    /// The latest deadline of the calls that the server may be at work on.
    busy_until: AtomicU64,
    hang_after: Duration,
}

impl Vitals {
    /// Silence of `hang_after` makes the calls that follow it no excuse any more.
    pub fn new(hang_after: Duration) -> Self {
        Self {
            opened: Instant::now(),
            heard: AtomicU64::new(0),
            failed: AtomicU32::new(0),
            fault: Mutex::default(),
            in_flight: AtomicU32::new(0),
            busy_until: AtomicU64::new(0),
            hang_after,
        }
    }

    fn millis(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.opened);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    /// A message of the protocol came from the server.
    pub fn hear(&self) {
        self.heard
            .store(self.millis(Instant::now()), Ordering::Relaxed);
        if self.failed.load(Ordering::Relaxed) != 0 {
            self.failed.store(0, Ordering::Relaxed);
        }
    }

    /// The same if this is one: an answer, or an error without an id under an HTTP status.
    pub fn weigh(&self, answer: &Result<Frame, Interruption>) {
        let is_message = match answer {
            Ok(_) => true,
            Err(Interruption { kind, .. }) => matches!(
                kind,
                InterruptionKind::Refused {
                    is_message: true,
                    ..
                }
            ),
        };
        if is_message {
            self.hear();
        }
    }

    /// How many calls in a row have got something else than an answer, and what the last one got.
    pub fn failed(&self) -> (u32, Option<Fault>) {
        let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        (self.failed.load(Ordering::Relaxed), fault.clone())
    }

    /// When something came last.
    pub fn heard(&self) -> Instant {
        self.opened + Duration::from_millis(self.heard.load(Ordering::Relaxed))
    }

    /// Notes a call that may take until `deadline`.
    pub fn call(self: &Arc<Self>, deadline: Instant) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        // What is sent into a long silence says nothing for the server: else calls that keep coming
        // would hide a hang for ever.
        if self.heard().elapsed() < self.hang_after {
            self.busy_until
                .fetch_max(self.millis(deadline), Ordering::Relaxed);
        }
        InFlight(Arc::clone(self))
    }

    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Whether the server may be at work on a call that is within its deadline.
    pub fn may_be_at_work(&self) -> bool {
        self.in_flight() > 0
            && self.millis(Instant::now()) < self.busy_until.load(Ordering::Relaxed)
    }
}

/// A call in flight, until it is dropped.
#[derive(Debug)]
pub struct InFlight(Arc<Vitals>);

impl InFlight {
    /// The call ends without an answer.
    pub fn interrupted(&self, why: &Interruption) {
        let Some(fault) = why.fault() else { return };
        let vitals = &self.0;
        *vitals.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
        vitals.failed.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Design section 6: a call protects its server until its deadline, and no longer.
    #[tokio::test(start_paused = true)]
    async fn a_server_at_work_is_excused_until_the_calls_deadline() {
        let vitals = Arc::new(Vitals::new(SECOND * 120));
        let call = vitals.call(Instant::now() + SECOND * 30);
        assert!(vitals.may_be_at_work());
        tokio::time::advance(SECOND * 31).await;
        assert!(!vitals.may_be_at_work());
        drop(call);
        assert_eq!(vitals.in_flight(), 0);
    }

    /// Only a message forgives calls that failed.
    #[tokio::test(start_paused = true)]
    async fn calls_that_fail_in_a_row_are_counted() {
        let vitals = Arc::new(Vitals::new(SECOND * 120));
        let call = vitals.call(Instant::now() + SECOND * 30);
        let refused = |is_message| {
            Interruption::sent(InterruptionKind::Refused {
                status: 503,
                body: String::new(),
                is_message,
            })
        };
        for failed in 1..=2 {
            call.interrupted(&refused(false));
            call.interrupted(&refused(true));
            vitals.weigh(&Err(refused(false)));
            let (found, fault) = vitals.failed();
            assert_eq!(found, failed);
            assert_eq!(
                fault.expect("a fault").reason,
                "the server answered HTTP 503"
            );
        }
        vitals.weigh(&Err(refused(true)));
        assert_eq!(vitals.failed().0, 0);
    }

    /// Calls that keep coming must not hide a hang.
    #[tokio::test(start_paused = true)]
    async fn calls_sent_into_a_long_silence_are_no_excuse() {
        let vitals = Arc::new(Vitals::new(SECOND * 120));
        tokio::time::advance(SECOND * 120).await;
        let _call = vitals.call(Instant::now() + SECOND * 30);
        assert!(!vitals.may_be_at_work());
        vitals.hear();
        let _call = vitals.call(Instant::now() + SECOND * 30);
        assert!(vitals.may_be_at_work());
    }
}
