//! Which session answers a call.

use std::sync::Arc;

use mainstay_core::{era::Era, failure::Failure};
use mainstay_transport::Session;
use tokio::time::Instant;

use crate::supervisor::{IsolatedSession, Server, UseGuard};

/// Which session answers a call.
#[derive(Clone, Debug)]
pub enum Upstream {
    Shared(Arc<Server>),
    IsolatedSession(Arc<IsolatedSession>),
}

impl Upstream {
    pub fn server(&self) -> &Arc<Server> {
        match self {
            Self::Shared(server) => server,
            Self::IsolatedSession(isolated_session) => &isolated_session.server,
        }
    }

    /// Keeps a client's own session from making room for another while the guard is there.
    pub(super) fn begin(&self) -> Option<UseGuard> {
        match self {
            Self::Shared(_) => None,
            Self::IsolatedSession(isolated_session) => Some(isolated_session.begin()),
        }
    }

    /// The session that a caller of this era uses, if it is open and there is nothing to wait for.
    pub(super) fn live_session(&self, era: Era) -> Option<Arc<Session>> {
        match self {
            Self::Shared(server) => {
                let session = server.live_session()?;
                (era == Era::Modern || !session.is_stateless()).then_some(session)
            }
            // Its use is noted where it is taken.
            Self::IsolatedSession(_) => None,
        }
    }

    /// The session for a caller of this era.
    pub(super) async fn session(
        &self,
        era: Era,
        deadline: Instant,
    ) -> Result<Arc<Session>, Failure> {
        match self {
            Self::Shared(server) => server.session(era, deadline).await,
            Self::IsolatedSession(isolated_session) => isolated_session.session(deadline).await,
        }
    }
}
