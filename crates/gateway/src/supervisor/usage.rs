//! Counts the users of an isolated session. A session in use is not closed to make room for another
//! session.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use mainstay_transport::UpstreamSession;
use tokio::time::Instant;

/// The bit in `users` that marks the session as closed. It is in the same atomic as the count, so
/// that one operation can check for users and close the session.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// The state that the supervisor of an isolated session and its callers share.
#[derive(Debug)]
pub struct Usage {
    current: ArcSwapOption<UpstreamSession>,
    /// True when the client has released the session.
    released: AtomicBool,
    since: Instant,
    /// Number of users, and the bit [`CLOSED`].
    users: AtomicUsize,
    /// Time at which the last use ended, in milliseconds after `since`.
    last_used: AtomicU64,
}

impl Usage {
    pub fn new() -> Self {
        Self {
            current: ArcSwapOption::empty(),
            released: AtomicBool::new(false),
            since: Instant::now(),
            users: AtomicUsize::new(0),
            last_used: AtomicU64::new(0),
        }
    }

    /// Adds a user until the guard is dropped. Meanwhile, the session is not closed to make room. If
    /// the session is already closed, the caller must reopen it.
    pub fn begin(self: &Arc<Self>) -> UseGuard {
        self.users.fetch_add(1, Ordering::SeqCst);
        UseGuard(Arc::clone(self))
    }

    /// The session, if it is open and may be used.
    pub fn live_session(&self) -> Option<Arc<UpstreamSession>> {
        let session = self.current.load_full()?;
        (!self.is_closed() && !session.is_over()).then_some(session)
    }

    pub fn is_current(&self, session: &Arc<UpstreamSession>) -> bool {
        let current = self.current.load();
        current
            .as_ref()
            .is_some_and(|current| Arc::ptr_eq(current, session))
    }

    pub fn set_current(&self, session: Arc<UpstreamSession>) {
        self.current.store(Some(session));
    }

    fn is_closed(&self) -> bool {
        self.users.load(Ordering::SeqCst) & CLOSED != 0
    }

    /// Marks the session as closed if it has no user. Returns true if it did.
    pub fn close_if_unused(&self) -> bool {
        let closed = self
            .users
            .compare_exchange(0, CLOSED, Ordering::SeqCst, Ordering::SeqCst);
        if closed.is_ok() {
            self.current.store(None);
        }
        closed.is_ok()
    }

    /// Marks the session as open again.
    pub fn reopened(&self) {
        self.users.fetch_and(!CLOSED, Ordering::SeqCst);
    }

    /// Sets whether the client has released the session. The supervisor gets a command, too. If its
    /// queue is full and the command is lost, the supervisor closes the session after its next
    /// command.
    pub fn release(&self, is_released: bool) {
        self.released.store(is_released, Ordering::SeqCst);
    }

    /// True if the supervisor must close the session: the client has released it, or it was marked as
    /// closed while idle and has no new user.
    pub fn is_over(&self) -> bool {
        self.released.load(Ordering::SeqCst) || self.users.load(Ordering::SeqCst) == CLOSED
    }

    pub fn is_used(&self) -> bool {
        self.users.load(Ordering::SeqCst) & !CLOSED > 0
    }

    /// Time at which the last use ended.
    pub fn last_used(&self) -> Instant {
        self.since + Duration::from_millis(self.last_used.load(Ordering::Relaxed))
    }

    /// True if the session has been idle for at least this time.
    pub fn is_idle(&self, idle: Duration) -> bool {
        !self.is_used() && self.last_used().elapsed() >= idle
    }
}

/// One use of an isolated session. Dropping it ends the use.
#[derive(Debug)]
pub struct UseGuard(Arc<Usage>);

impl Drop for UseGuard {
    fn drop(&mut self) {
        let now = u64::try_from(self.0.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.last_used.fetch_max(now, Ordering::Relaxed);
        self.0.users.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_session_in_use_is_not_closed() {
        let usage = Arc::new(Usage::new());
        let (one, two) = (usage.begin(), usage.begin());
        drop(one);
        assert!(!usage.close_if_unused() && !usage.is_idle(Duration::ZERO));
        drop(two);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert!(usage.is_idle(Duration::from_secs(5)) && !usage.is_idle(Duration::from_secs(6)));
        assert!(usage.close_if_unused() && usage.is_closed() && !usage.is_used());
        // A later caller sees that the session is closed, and reopens it.
        let late = usage.begin();
        assert!(usage.is_closed() && usage.is_used() && !usage.close_if_unused());
        usage.reopened();
        assert!(!usage.is_closed() && usage.is_used());
        drop(late);
        assert!(usage.close_if_unused());
    }
}
