//! What a server says outside of calls, on its way to the supervisor's task.

use mainstay_core::ids::ServerName;
use tokio::sync::mpsc::{self, error::TrySendError};

use crate::transport::{Listener, Notice, Question};

/// Notifications of a server that may wait to be handled.
pub const MAX_NOTICES: usize = 1024;

/// Brings the shared session's notices to the supervisor's task.
#[derive(Debug)]
pub struct Inbox {
    pub server: ServerName,
    pub unasked: mpsc::Sender<Unasked>,
}

/// What a server says outside of calls.
pub enum Unasked {
    Notice(Notice),
    Question(Question),
}

impl Listener for Inbox {
    /// A full queue drops the notice: a server must not be held up by its readers.
    fn hear(&self, notice: Notice) {
        if let Err(TrySendError::Full(Unasked::Notice(notice))) =
            self.unasked.try_send(Unasked::Notice(notice))
        {
            tracing::warn!(server = %self.server, method = notice.method.name(), "a notification was dropped: too many are waiting");
        }
    }

    /// One that finds the queue full is refused: it is dropped.
    fn ask(&self, question: Question) {
        self.unasked.try_send(Unasked::Question(question)).ok();
    }
}
