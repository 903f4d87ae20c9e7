//! Isolated upstream sessions: one per client session (design section 9).

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use mainstay_core::failure::{Failure, FailureKind};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use super::{Command, PrivateId, Server};
use crate::transport::{Listener, Session};

/// One client session's own upstream session: opened at its first use, opened anew when it was lost,
/// closed when this handle is dropped.
#[derive(Debug)]
pub struct Private {
    pub server: Arc<Server>,
    id: PrivateId,
    initialize: Arc<str>,
    listener: Arc<dyn Listener>,
    current: ArcSwapOption<Session>,
}

impl Private {
    pub(super) fn new(
        server: Arc<Server>,
        id: PrivateId,
        initialize: Arc<str>,
        listener: Arc<dyn Listener>,
    ) -> Self {
        Self {
            server,
            id,
            initialize,
            listener,
            current: ArcSwapOption::empty(),
        }
    }

    /// The session, if it is open.
    pub fn live_session(&self) -> Option<Arc<Session>> {
        self.current
            .load_full()
            .filter(|session| !session.is_over())
    }

    /// The live session; opens one if there is none.
    pub async fn session(&self, deadline: Instant) -> Result<Arc<Session>, Failure> {
        if let Some(session) = self.live_session() {
            return Ok(session);
        }
        let (reply, answer) = oneshot::channel();
        let open = Command::OpenPrivate {
            id: self.id,
            initialize: Arc::clone(&self.initialize),
            listener: Arc::clone(&self.listener),
            reply,
        };
        let opening = async {
            self.server
                .commands
                .send(open)
                .await
                .map_err(|_| shutting_down())?;
            answer.await.map_err(|_| shutting_down())?
        };
        let session = timeout_at(deadline, opening).await.unwrap_or_else(|_| {
            let message = format!(
                "Server '{}' did not open a session in time",
                self.server.name
            );
            Err(Failure::new(FailureKind::ConnectFailed, message).of_server(&self.server.name))
        })?;
        self.current.store(Some(Arc::clone(&session)));
        Ok(session)
    }

    /// Closes the upstream session, if one is open; the next use opens another.
    pub fn close(&self) {
        if self.current.swap(None).is_some() {
            self.server.tell(Command::ClosePrivate(self.id));
        }
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        self.server.tell(Command::ClosePrivate(self.id));
    }
}

fn shutting_down() -> Failure {
    Failure::new(FailureKind::ShuttingDown, "Mainstay is shutting down")
}
