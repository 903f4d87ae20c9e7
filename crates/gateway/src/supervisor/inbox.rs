//! The inbox: queues a server's messages outside of calls for the supervisor's task.

use std::{collections::HashSet, sync::Arc, time::Instant};

use mainstay_core::{catalog::ListKind, ids::ServerName, message::Method};
use mainstay_transport::{
    Listener, Notice, ServerQuestion,
    logs::{ServerLog, Throttle, ThrottleVerdict},
};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc::{self, error::TrySendError};

/// Maximum number of queued messages of a server.
const MAX_NOTICES: usize = 1024;

/// The sending end, for the shared session.
#[derive(Debug)]
pub struct Inbox {
    server: ServerName,
    log: Arc<ServerLog>,
    // Boxed, because a tokio channel allocates its slots in blocks, even while it is empty.
    unsolicited: mpsc::Sender<Box<Unsolicited>>,
    waiting: Arc<Waiting>,
    full: Mutex<Throttle>,
}

/// The receiving end, for the supervisor's task.
#[derive(Debug)]
pub struct InboxReader {
    unsolicited: mpsc::Receiver<Box<Unsolicited>>,
    waiting: Arc<Waiting>,
}

/// The announcements that are in the queue. A second, equal announcement is not queued.
#[derive(Debug, Default)]
struct Waiting(Mutex<HashSet<Announcement>>);

/// The method of the announcement. For a changed resource, with its URI.
type Announcement = (Method, Option<String>);

impl Waiting {
    fn set(&self) -> MutexGuard<'_, HashSet<Announcement>> {
        // Held for one operation, never across an await.
        self.0.lock()
    }
}

/// A message of a server outside of calls.
#[derive(Debug)]
pub enum Unsolicited {
    Notice(Notice),
    Question(ServerQuestion),
}

/// The announcement in a notice. `None` for a notice that must be queued each time.
fn announcement(notice: &Notice) -> Option<Announcement> {
    let method = notice.method;
    if method == Method::ResourceUpdated {
        return Some((method, notice.frame.text_param("uri")));
    }
    let is_list = ListKind::ALL.iter().any(|kind| kind.changed() == method);
    is_list.then_some((method, None))
}

impl Inbox {
    pub fn new(server: ServerName, log: Arc<ServerLog>) -> (Self, InboxReader) {
        let (sender, receiver) = mpsc::channel(MAX_NOTICES);
        let waiting = Arc::new(Waiting::default());
        let inbox = Self {
            server,
            log,
            unsolicited: sender,
            waiting: Arc::clone(&waiting),
            full: Mutex::default(),
        };
        let reader = InboxReader {
            unsolicited: receiver,
            waiting,
        };
        (inbox, reader)
    }
}

impl InboxReader {
    /// Waits for the next message. Removes its announcement from the waiting announcements, so that a
    /// later announcement is queued again. Cancel-safe.
    pub async fn recv(&mut self) -> Option<Unsolicited> {
        let unsolicited = *self.unsolicited.recv().await?;
        if let Unsolicited::Notice(notice) = &unsolicited
            && let Some(announcement) = announcement(notice)
        {
            self.waiting.set().remove(&announcement);
        }
        Some(unsolicited)
    }
}

impl Listener for Inbox {
    /// Queues the notice. Drops it if the queue is full, so that a slow reader does not block the
    /// server.
    fn take_notice(&self, notice: Notice) {
        let announcement = announcement(&notice);
        if let Some(announcement) = &announcement
            && !self.waiting.set().insert(announcement.clone())
        {
            self.log.merged_notification();
            return;
        }
        let sent = self
            .unsolicited
            .try_send(Box::new(Unsolicited::Notice(notice)));
        if let Err(TrySendError::Full(unsolicited)) = sent
            && let Unsolicited::Notice(notice) = *unsolicited
        {
            if let Some(announcement) = &announcement {
                self.waiting.set().remove(announcement);
            }
            self.log.dropped_notifications(1);
            // Held for a few operations, never across an await.
            let mut full = self.full.lock();
            if let ThrottleVerdict::Report(dropped) = full.happened(1, Instant::now()) {
                tracing::warn!(server = %self.server, method = notice.method.name(), dropped, "notifications were dropped: too many are waiting");
            }
        }
    }

    /// Queues the question. Drops it if the queue is full, which refuses it.
    fn ask(&self, question: ServerQuestion) {
        let question = Box::new(Unsolicited::Question(question));
        self.unsolicited.try_send(question).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_transport::{Frame, logs::ServerLogs};

    fn notice(method: Method, params: &str) -> Notice {
        let text = format!(
            r#"{{"jsonrpc":"2.0","method":"{}","params":{params}}}"#,
            method.name()
        );
        let frame = Frame::read(text.into()).expect("a message");
        Notice { method, frame }
    }

    #[tokio::test]
    async fn an_announcement_that_waits_is_as_good_as_a_thousand() {
        let server = ServerName::new("x").expect("a name");
        let log = ServerLogs::default().server(&server);
        let (inbox, mut reader) = Inbox::new(server, Arc::clone(&log));
        for _ in 0..1000 {
            inbox.take_notice(notice(Method::ToolsChanged, "{}"));
            inbox.take_notice(notice(Method::PromptsChanged, "{}"));
            for uri in ["a", "b"] {
                inbox.take_notice(notice(
                    Method::ResourceUpdated,
                    &format!(r#"{{"uri":"x://{uri}"}}"#),
                ));
            }
        }
        assert_eq!(log.diagnostics().merged_notifications, 4 * 999);
        let mut waiting = Vec::new();
        for _ in 0..4 {
            let Some(Unsolicited::Notice(notice)) = reader.recv().await else {
                panic!("a notice");
            };
            waiting.push(notice.method);
        }
        let updated = Method::ResourceUpdated;
        assert_eq!(
            waiting,
            [
                Method::ToolsChanged,
                Method::PromptsChanged,
                updated,
                updated
            ]
        );
        // A later announcement is queued again.
        inbox.take_notice(notice(Method::ToolsChanged, "{}"));
        assert!(reader.recv().await.is_some());
        // The queue bounds notices that cannot be merged.
        for _ in 0..MAX_NOTICES + 10 {
            inbox.take_notice(notice(Method::LogMessage, "{}"));
        }
        assert_eq!(log.diagnostics().dropped_notifications, 10);
    }
}
