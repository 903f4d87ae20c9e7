//! Shutdown, as calls see it: first new calls are refused, then the remaining calls are ended.

use std::sync::atomic::{AtomicBool, Ordering};

use mainstay_core::failure::{Failure, FailureKind};
use tokio_util::sync::CancellationToken;

/// Why Mainstay itself cancels calls.
pub const SHUTTING_DOWN: &str = "Mainstay is shutting down";

/// How far the end has come.
#[derive(Debug, Default)]
pub struct Closing {
    has_begun: AtomicBool,
    over: CancellationToken,
}

impl Closing {
    /// From now on calls are refused.
    pub fn begin(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    pub fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// Ends the remaining calls. The outcome of those that were sent stays unknown.
    pub fn end(&self) {
        self.begin();
        self.over.cancel();
    }

    pub fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Resolves when the calls that are left are to end.
    pub async fn over(&self) {
        self.over.cancelled().await;
    }

    /// Why no call is taken any more.
    pub fn refusal() -> Failure {
        Failure::new(FailureKind::ShuttingDown, SHUTTING_DOWN)
    }
}
