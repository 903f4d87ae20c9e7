//! Queues a server's notifications for the supervisor's task.

use std::{collections::HashSet, sync::Arc, time::Instant};

use mainstay_core::{catalog::ListKind, ids::ServerName, message::Method};
use mainstay_transport::{
    Listener, Notice, Question,
    logs::{ServerLog, Throttle, Verdict},
};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc::{self, error::TrySendError};

/// Notifications of a server that may wait to be handled.
const MAX_NOTICES: usize = 1024;

/// Brings the shared session's notices to the supervisor's task.
#[derive(Debug)]
pub struct Inbox {
    server: ServerName,
    log: Arc<ServerLog>,
    // A channel has room for many from the beginning: boxed, they are small.
    unsolicited: mpsc::Sender<Box<Unsolicited>>,
    waiting: Arc<Waiting>,
    full: Mutex<Throttle>,
}

/// The task's end of the inbox.
#[derive(Debug)]
pub struct Unread {
    unsolicited: mpsc::Receiver<Box<Unsolicited>>,
    waiting: Arc<Waiting>,
}

/// Announcements that wait to be handled: one of each is as good as a thousand.
#[derive(Debug, Default)]
struct Waiting(Mutex<HashSet<Announcement>>);

/// A list that changed, or a resource.
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
    Question(Question),
}

/// The announcement of a notice, if a second one of the same kind adds nothing.
fn announcement(notice: &Notice) -> Option<Announcement> {
    let method = notice.method;
    if method == Method::ResourceUpdated {
        return Some((method, notice.frame.text_param("uri")));
    }
    let is_list = ListKind::ALL.iter().any(|kind| kind.changed() == method);
    is_list.then_some((method, None))
}

impl Inbox {
    pub fn new(server: ServerName, log: Arc<ServerLog>) -> (Self, Unread) {
        let (sender, receiver) = mpsc::channel(MAX_NOTICES);
        let waiting = Arc::new(Waiting::default());
        let inbox = Self {
            server,
            log,
            unsolicited: sender,
            waiting: Arc::clone(&waiting),
            full: Mutex::default(),
        };
        let unread = Unread {
            unsolicited: receiver,
            waiting,
        };
        (inbox, unread)
    }
}

impl Unread {
    /// The next message. Its announcement may be made again from now on. Cancel-safe.
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
    /// A full queue drops the notice: a server must not be held up by its readers.
    fn hear(&self, notice: Notice) {
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
            if let Verdict::Say(dropped) = full.happened(1, Instant::now()) {
                tracing::warn!(server = %self.server, method = notice.method.name(), dropped, "notifications were dropped: too many are waiting");
            }
        }
    }

    /// One that finds the queue full is refused: it is dropped.
    fn ask(&self, question: Question) {
        let question = Box::new(Unsolicited::Question(question));
        self.unsolicited.try_send(question).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_transport::{Frame, logs::Logs};

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
        let log = Logs::default().server(&server);
        let (inbox, mut unread) = Inbox::new(server, Arc::clone(&log));
        for _ in 0..1000 {
            inbox.hear(notice(Method::ToolsChanged, "{}"));
            inbox.hear(notice(Method::PromptsChanged, "{}"));
            for uri in ["a", "b"] {
                inbox.hear(notice(
                    Method::ResourceUpdated,
                    &format!(r#"{{"uri":"x://{uri}"}}"#),
                ));
            }
        }
        assert_eq!(log.diagnostics().merged_notifications, 4 * 999);
        let mut waiting = Vec::new();
        for _ in 0..4 {
            let Some(Unsolicited::Notice(notice)) = unread.recv().await else {
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
        // What is announced from here on is news again.
        inbox.hear(notice(Method::ToolsChanged, "{}"));
        assert!(unread.recv().await.is_some());
        // What cannot be merged is bounded.
        for _ in 0..MAX_NOTICES + 10 {
            inbox.hear(notice(Method::LogMessage, "{}"));
        }
        assert_eq!(log.diagnostics().dropped_notifications, 10);
    }
}
