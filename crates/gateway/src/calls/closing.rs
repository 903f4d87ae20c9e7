//! The shutdown of calls: first new calls are refused, then the remaining calls are cancelled.

use std::sync::atomic::{AtomicBool, Ordering};

use mainstay_core::failure::{Failure, FailureKind};
use tokio_util::sync::CancellationToken;

/// The reason with which Mainstay cancels calls at shutdown.
pub const SHUTTING_DOWN: &str = "Mainstay is shutting down";

/// The progress of the shutdown.
#[derive(Debug, Default)]
pub struct Closing {
    has_begun: AtomicBool,
    over: CancellationToken,
}

impl Closing {
    /// Refuses new calls from now on.
    pub fn begin(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    pub fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// Cancels the remaining calls. The outcome of calls that were sent is unknown.
    pub fn end(&self) {
        self.begin();
        self.over.cancel();
    }

    pub fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Resolves when the remaining calls must end.
    pub async fn over(&self) {
        self.over.cancelled().await;
    }

    /// The failure of a call that is refused during shutdown.
    pub fn refusal() -> Failure {
        Failure::new(FailureKind::ShuttingDown, SHUTTING_DOWN)
    }
}
