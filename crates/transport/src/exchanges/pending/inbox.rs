//! Messages that have arrived for one call on a shared connection.

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::{Arc, OnceLock},
    task::{Poll, Waker},
};

use parking_lot::{Mutex, MutexGuard};

use crate::{
    Asker, Frame, InterruptionKind, OpenQuestions, PossibleSuspect, ServerMessage, ServerQuestion,
    lines::line_writer::Mark,
};

/// The maximum number of unread messages of one call. Further progress and log messages are dropped and
/// counted: a slow reader must not delay the server or other calls.
const MAX_UNREAD: usize = 1024;

/// The reason that a call gets no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The connection ended before the answer.
    Ended,
    /// The answer was longer than this number of bytes.
    TooLarge(usize),
    /// The server made a request that its revision forbids. Its other messages about this call are ignored.
    ForbiddenRequest,
    /// The server sent the request back unchanged.
    Echoed,
    /// The answer cannot be read. The text is the reason.
    Unreadable(Arc<str>),
    /// The answer has this id (JSON text), which does not identify a call.
    Misaddressed(Arc<str>),
}

impl From<Broken> for InterruptionKind {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Ended => Self::Lost,
            Broken::TooLarge(limit) => Self::TooLarge(limit),
            Broken::ForbiddenRequest => Self::ForbiddenRequest,
            Broken::Echoed => Self::Echoed,
            Broken::Unreadable(reason) => Self::Unreadable(reason.as_ref().to_owned()),
            Broken::Misaddressed(ids) => Self::Misaddressed(ids.as_ref().to_owned()),
        }
    }
}

/// The messages for one call, in the order in which the server wrote them.
#[derive(Debug)]
pub struct Inbox {
    /// `None` for requests of Mainstay's own, which cause no questions.
    pub asker: Option<Asker>,
    /// The call, if it may crash the server.
    work: Option<PossibleSuspect>,
    /// The position of the request in the writer's output.
    mark: OnceLock<Mark>,
    /// Set once the server asks a question that this call may have caused.
    open_questions: OnceLock<Arc<OpenQuestions>>,
    state: Mutex<InboxState>,
}

#[derive(Debug, Default)]
struct InboxState {
    unread: VecDeque<ServerMessage>,
    /// Set once no more messages can come.
    broken: Option<Broken>,
    dropped: u64,
    reader: Option<Waker>,
    /// True once the server has acknowledged a subscription. A subscription is not a call.
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

    pub fn set_mark(&self, mark: Mark) {
        // A request is queued once, so the cell is empty.
        self.mark.set(mark).ok();
    }

    /// The call and its mark, if it was queued and may crash the server.
    pub fn work(&self) -> Option<(&PossibleSuspect, Mark)> {
        Some((self.work.as_ref()?, *self.mark.get()?))
    }

    /// The questions that this call may have caused. Creates the set for the first question.
    pub fn take_questions(&self) -> Arc<OpenQuestions> {
        Arc::clone(self.open_questions.get_or_init(Arc::default))
    }

    /// The questions that this call may have caused. `None` if no question came.
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

    pub fn push_question(&self, question: ServerQuestion) {
        // A full inbox drops the question. Dropping a question refuses it.
        self.update(|state| {
            if state.unread.len() < MAX_UNREAD {
                state.unread.push_back(ServerMessage::Question(question));
            }
        });
    }

    pub fn break_off(&self, reason: Broken) {
        self.update(|state| state.broken = Some(reason));
    }

    /// Number of dropped messages.
    pub fn dropped(&self) -> u64 {
        self.state().dropped
    }

    /// The next message. Cancel-safe.
    pub async fn next(&self) -> Result<ServerMessage, Broken> {
        poll_fn(|context| {
            let mut state = self.state();
            if let Some(message) = state.unread.pop_front() {
                return Poll::Ready(Ok(message));
            }
            if let Some(reason) = &state.broken {
                return Poll::Ready(Err(reason.clone()));
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
