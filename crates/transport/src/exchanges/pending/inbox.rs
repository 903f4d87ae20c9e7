//! Messages that have arrived for one call on a shared connection.

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::{Arc, OnceLock},
    task::{Poll, Waker},
};

use parking_lot::{Mutex, MutexGuard};

use crate::{
    Asker, Frame, InterruptionKind, OpenQuestions, PossibleSuspect, Question, ServerMessage,
    lines::line_writer::Mark,
};

/// Progress and log messages that one call may have unread; beyond that they are dropped and
/// counted, for a slow reader must delay neither the server nor other calls.
const MAX_UNREAD: usize = 1024;

/// Why no answer will come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The connection ended first.
    Ended,
    /// It came, and was longer than this many bytes.
    TooLarge(usize),
    /// The server asks where it must not, and nothing it says of this call counts any more.
    Asked,
    /// The request itself came back.
    Echoed,
    /// It came, and cannot be read: why.
    Unreadable(Arc<str>),
    /// It came, and does not say whose answer it is: the ids.
    Misaddressed(Arc<str>),
}

impl From<Broken> for InterruptionKind {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Ended => Self::Lost,
            Broken::TooLarge(limit) => Self::TooLarge(limit),
            Broken::Asked => Self::Asked,
            Broken::Echoed => Self::Echoed,
            Broken::Unreadable(why) => Self::Unreadable(why.as_ref().to_owned()),
            Broken::Misaddressed(ids) => Self::Misaddressed(ids.as_ref().to_owned()),
        }
    }
}

/// What has arrived for one call, in the order in which the server wrote it.
#[derive(Debug)]
pub struct Inbox {
    /// `None` for requests of our own, which cause no questions.
    pub asker: Option<Asker>,
    /// What may crash the server.
    work: Option<PossibleSuspect>,
    /// Where it stands among what is written.
    mark: OnceLock<Mark>,
    /// Set once the server asks something that this call may have caused.
    open_questions: OnceLock<Arc<OpenQuestions>>,
    state: Mutex<InboxState>,
}

#[derive(Debug, Default)]
struct InboxState {
    unread: VecDeque<ServerMessage>,
    /// Set once nothing more can come.
    broken: Option<Broken>,
    dropped: u64,
    reader: Option<Waker>,
    /// It has brought the acknowledgement of a subscription, and is no call.
    subscribed: bool,
}

impl Inbox {
    pub fn new(asker: Option<Asker>, work: Option<PossibleSuspect>) -> Self {
        Self {
            asker,
            work,
            mark: OnceLock::new(),
            open_questions: OnceLock::new(),
            state: Mutex::default(),
        }
    }

    pub fn queued(&self, mark: Mark) {
        // It is queued once.
        self.mark.set(mark).ok();
    }

    /// What the call asks, if it was queued.
    pub fn work(&self) -> Option<(&PossibleSuspect, Mark)> {
        Some((self.work.as_ref()?, *self.mark.get()?))
    }

    /// The questions that this call may have caused, from now on.
    pub fn take_questions(&self) -> Arc<OpenQuestions> {
        Arc::clone(self.open_questions.get_or_init(Arc::default))
    }

    /// The questions that this call may have caused, if there was one.
    pub fn open_questions(&self) -> Option<&OpenQuestions> {
        self.open_questions.get().map(Arc::as_ref)
    }

    fn state(&self) -> MutexGuard<'_, InboxState> {
        // Held for a few instructions, never across an await.
        self.state.lock()
    }

    fn update(&self, change: impl FnOnce(&mut InboxState)) {
        let mut state = self.state();
        change(&mut state);
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    pub fn push_answer(&self, frame: Frame) {
        self.update(|state| state.unread.push_back(ServerMessage::Message(frame)));
    }

    pub fn push_notification(&self, frame: Frame) {
        self.update(|state| {
            if state.unread.len() < MAX_UNREAD {
                state.unread.push_back(ServerMessage::Message(frame));
            } else {
                state.dropped += 1;
            }
        });
    }

    pub fn acknowledge(&self) {
        self.update(|state| state.subscribed = true);
    }

    pub fn is_subscribed(&self) -> bool {
        self.state().subscribed
    }

    pub fn push_question(&self, question: Question) {
        // A full inbox drops it, which refuses it.
        self.update(|state| {
            if state.unread.len() < MAX_UNREAD {
                state.unread.push_back(ServerMessage::Question(question));
            }
        });
    }

    pub fn break_off(&self, why: Broken) {
        self.update(|state| state.broken = Some(why));
    }

    /// How much was dropped.
    pub fn dropped(&self) -> u64 {
        self.state().dropped
    }

    /// The next message. Cancel-safe.
    pub async fn next(&self) -> Result<ServerMessage, Broken> {
        poll_fn(|context| {
            let mut state = self.state();
            if let Some(said) = state.unread.pop_front() {
                return Poll::Ready(Ok(said));
            }
            if let Some(why) = &state.broken {
                return Poll::Ready(Err(why.clone()));
            }
            if !state
                .reader
                .as_ref()
                .is_some_and(|reader| reader.will_wake(context.waker()))
            {
                state.reader = Some(context.waker().clone());
            }
            Poll::Pending
        })
        .await
    }
}
