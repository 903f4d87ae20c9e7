//! The state that all calls share.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use mainstay_journal::Journal;
use mainstay_transport::{Exchange, UpstreamSession};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use super::{closing::Closing, detachable::Detachable};
use crate::{metrics::Failures, traces::Tracer};

/// Maximum number of concurrent searches for the owner of a resource. One request may name any
/// number of resources, and each search queries many servers. The time limit of a search includes
/// the wait for its turn.
const SEARCHES: usize = 8;

/// A semaphore that limits concurrent searches. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Searches(pub Arc<Semaphore>);

impl Default for Searches {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(SEARCHES)))
    }
}

/// Cancels a call, with a reason. If the sender is dropped, the call continues.
pub type Cancel = oneshot::Sender<String>;

/// The state that all calls share. Clones share the same state.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// The tasks of calls whose client has gone, and of cancellations that are being sent.
    background: TaskTracker,
    pub(super) journal: Option<Arc<Journal>>,
    pub(super) tracer: Option<Arc<Tracer>>,
    /// Counts calls that were not forwarded.
    pub(super) refused: Arc<Failures>,
    pub(super) searches: Searches,
    pub(super) closing: Arc<Closing>,
}

impl Calls {
    /// The state of calls that are recorded in this journal and traced by this tracer.
    pub fn new(journal: Option<Arc<Journal>>, tracer: Option<Arc<Tracer>>) -> Self {
        Self {
            background: TaskTracker::new(),
            journal,
            tracer,
            refused: Arc::default(),
            searches: Searches::default(),
            closing: Arc::default(),
        }
    }

    pub fn tracer(&self) -> Option<&Arc<Tracer>> {
        self.tracer.as_ref()
    }

    /// The number of calls that were not forwarded, by kind of failure.
    pub fn refused(&self) -> &Failures {
        &self.refused
    }

    pub fn journal(&self) -> Option<&Arc<Journal>> {
        self.journal.as_ref()
    }

    /// The progress of the shutdown.
    pub fn closing(&self) -> &Closing {
        &self.closing
    }

    /// Wraps a future so that it continues in the background if it is dropped. A closed HTTP stream
    /// does not cancel a call (specification, "Transports", "Sending Messages to the Server").
    pub fn detachable<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Detachable<T> {
        Detachable::new(Box::pin(future), self.background.clone())
    }

    /// Waits up to `limit` for the background tasks: calls whose client has gone, and cancellations
    /// that are being sent.
    pub async fn drain(&self, limit: Duration) {
        self.background.close();
        if tokio::time::timeout(limit, self.background.wait())
            .await
            .is_err()
        {
            tracing::warn!("calls were still in flight at the end");
        }
    }

    /// Runs a future in the background. Only shutdown waits for it.
    pub fn in_background(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.background.spawn(future.boxed());
    }

    /// The background tasks. Only shutdown waits for them.
    pub fn background(&self) -> &TaskTracker {
        &self.background
    }

    /// Cancels a request at its server.
    pub(super) fn cancel(
        &self,
        session: &Arc<UpstreamSession>,
        exchange: Exchange,
        reason: String,
    ) {
        let session = Arc::clone(session);
        let cancelling = async move { session.cancel(exchange, &reason).await };
        self.background.spawn(cancelling.in_current_span().boxed());
    }
}
