//! The entry of a running call. It collects the call's record without hashing, encoding or waiting.
//! In relaxed mode, a record does not wake the writing thread during traffic.

use std::{
    error::Error,
    future::Future,
    mem,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant, SystemTime},
};

use bytestring::ByteString;
use mainstay_core::{
    record::{CallAttempt, CallOrigin, RecordError, State, Status, Target, TraceId},
    redact::Secrets,
};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::queue::JournalQueue;

/// A call at its start.
#[derive(Debug)]
pub struct Begun {
    pub origin: Arc<CallOrigin>,
    pub target: Target,
    /// True if the server lists the called name. Other names, which a client may invent, have no
    /// statistics of their own.
    pub is_listed: bool,
    /// The text of `arguments`, or of `params` for a method without `arguments`.
    pub arguments: Option<ByteString>,
    /// Time at which the call arrived.
    pub since: Instant,
    pub trace: Option<TraceId>,
    /// Secrets of the server, which are redacted in the record.
    pub secrets: Option<Arc<Secrets>>,
}

/// The end of a call.
#[derive(Debug)]
pub struct Finished {
    pub outcome: CallOutcome,
    pub attempts: u32,
    /// Attempts before the last one.
    pub earlier: Vec<CallAttempt>,
    pub at: Instant,
    /// Time that the call waited for a session.
    pub queue: Duration,
    /// Time that the call spent at the server.
    pub upstream: Duration,
    /// Secrets of the server at the end of the call. They replace those at the start.
    pub secrets: Option<Arc<Secrets>>,
}

#[derive(Debug)]
pub enum CallOutcome {
    /// The server returned a result, or an error of its own.
    Answered {
        result: Option<ByteString>,
        /// The error in the answer: its JSON-RPC error, or the text of a result with `isError`.
        error: Option<RecordError>,
    },
    /// The server returned no answer. The call's state shows how far the call got.
    Failed { status: Status, error: RecordError },
}

/// The error of a call whose record could not be written.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the call could not be put on record")]
pub struct NotWritten(#[source] pub(super) Option<Arc<dyn Error + Send + Sync>>);

impl NotWritten {
    /// An error of the store.
    pub fn new(reason: impl Error + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(reason)))
    }
}

/// The entry of a running call. Dropping an unfinished entry records the call as cancelled, in its
/// last state.
#[derive(Debug)]
pub struct JournalEntry(Option<Arc<RecordedCall>>);

impl JournalEntry {
    pub(super) fn new(call: Option<Arc<RecordedCall>>) -> Self {
        Self(call)
    }

    /// The entry of a call that is not recorded.
    pub const fn none() -> Self {
        Self(None)
    }

    pub const fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// In strict mode, resolves when the record of the call is on the disk. Only then may the call
    /// be sent. In relaxed mode, resolves at once.
    pub fn intent(&self) -> Acknowledged {
        match &self.0 {
            Some(call) if call.queue.is_strict() => {
                let acknowledgement = call.request_write();
                call.queue.wake_for_caller();
                acknowledgement
            }
            _ => Acknowledged::READY,
        }
    }

    /// Sets the call's state: [`State::Sent`] after the first byte was sent, and [`State::NotSent`]
    /// again before a new attempt.
    pub fn reached(&self, state: State) {
        if let Some(call) = &self.0 {
            call.state.store(state.code(), Ordering::Relaxed);
        }
    }

    /// Ends the call. The end is recorded even if the result is not awaited. In strict mode, the
    /// result resolves when the record is on the disk.
    pub fn finish(mut self, finished: Finished) -> Acknowledged {
        match self.0.take() {
            Some(call) => call.end(Some(finished)),
            None => Acknowledged::READY,
        }
    }
}

impl Drop for JournalEntry {
    fn drop(&mut self) {
        if let Some(call) = self.0.take() {
            drop(call.end(None));
        }
    }
}

/// A future that resolves when the record is on the disk, or at once if the caller need not wait.
#[derive(Debug)]
#[must_use = "in strict mode nothing is sure before this resolves"]
pub struct Acknowledged(Option<oneshot::Receiver<Result<(), NotWritten>>>);

impl Acknowledged {
    const READY: Self = Self(None);

    pub(super) fn channel() -> (Waiter, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self(Some(receiver)))
    }
}

impl Future for Acknowledged {
    type Output = Result<(), NotWritten>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            None => Poll::Ready(Ok(())),
            // The sender was dropped, because the journal is closed.
            Some(receiver) => Pin::new(receiver)
                .poll(context)
                .map(|answer| answer.unwrap_or(Err(NotWritten(None)))),
        }
    }
}

pub type Waiter = oneshot::Sender<Result<(), NotWritten>>;

/// The part of a call that is shared with the store.
#[derive(Debug)]
pub struct RecordedCall {
    pub origin: Arc<CallOrigin>,
    pub target: Target,
    pub is_listed: bool,
    pub trace: Option<TraceId>,
    begun_secrets: Option<Arc<Secrets>>,
    pub arguments_size: usize,
    pub started_at: SystemTime,
    pub since: Instant,
    state: AtomicU8,
    /// True if the call must be written at once: it has ended, or a caller waits.
    due: AtomicBool,
    rest: Mutex<Rest>,
    queue: Arc<JournalQueue>,
}

/// The data of a call for the store, which takes each part once.
#[derive(Debug, Default)]
pub struct Rest {
    pub arguments: Option<ByteString>,
    pub ending: Option<Ending>,
    pub waiters: Vec<Waiter>,
    /// True if the call will not be written any more.
    closed: bool,
}

impl Rest {
    /// Bytes of the payloads in this entry.
    pub fn bytes(&self) -> usize {
        let finished = self.ending.as_ref().and_then(|end| end.finished.as_ref());
        let result = match finished.map(|finished| &finished.outcome) {
            Some(CallOutcome::Answered { result, .. }) => result.as_ref(),
            Some(CallOutcome::Failed { .. }) | None => None,
        };
        let payloads = self.arguments.iter().chain(result);
        payloads.map(|text| text.len()).sum()
    }

    /// Registers a waiting caller. The caller gets an error at once if the call will not be written
    /// any more.
    fn wait(&mut self) -> Acknowledged {
        let (waiter, acknowledgement) = Acknowledged::channel();
        if !self.closed {
            self.waiters.push(waiter);
        }
        acknowledgement
    }
}

#[derive(Debug)]
pub struct Ending {
    /// `None` if the entry was dropped.
    pub finished: Option<Finished>,
    pub result_size: Option<usize>,
    pub duration: Duration,
}

impl RecordedCall {
    /// The secrets that are redacted in the record: those at the end of the call if it has ended,
    /// because a login may have received a new token during the call.
    pub fn secrets<'c>(&'c self, ending: Option<&'c Ending>) -> Option<&'c Secrets> {
        let finished = ending.and_then(|ending| ending.finished.as_ref());
        let secrets_at_end = finished.and_then(|finished| finished.secrets.as_deref());
        secrets_at_end.or(self.begun_secrets.as_deref())
    }

    /// Starts a call. `None` if too many calls wait to be written.
    pub(super) fn begin(new_call: Begun, queue: &Arc<JournalQueue>) -> Option<Arc<Self>> {
        if !queue.admit() {
            return None;
        }
        let Begun {
            origin,
            target,
            is_listed,
            arguments,
            since,
            trace,
            secrets,
        } = new_call;
        let call = Arc::new(Self {
            origin,
            target,
            is_listed,
            trace,
            begun_secrets: secrets,
            arguments_size: arguments.as_ref().map_or(0, |text| text.len()),
            started_at: SystemTime::now(),
            since,
            state: AtomicU8::new(State::NotSent.code()),
            due: AtomicBool::new(false),
            rest: Mutex::new(Rest {
                arguments: arguments.filter(|text| queue.hold(text.len())),
                ..Rest::default()
            }),
            queue: Arc::clone(queue),
        });
        queue.push(Arc::clone(&call));
        Some(call)
    }

    pub fn state(&self) -> State {
        State::from_code(self.state.load(Ordering::Relaxed)).unwrap_or(State::Sent)
    }

    /// True if the call must be written. Clears the flag.
    pub fn take_due(&self) -> bool {
        self.due.load(Ordering::Relaxed) && self.due.swap(false, Ordering::Acquire)
    }

    pub fn take(&self) -> Rest {
        let mut rest = self.rest();
        let closed = rest.closed;
        mem::replace(
            &mut *rest,
            Rest {
                closed,
                ..Rest::default()
            },
        )
    }

    fn rest(&self) -> MutexGuard<'_, Rest> {
        // The lock is held only to move a few members.
        self.rest.lock()
    }

    /// Marks the call as closed: it will not be written any more. Drops its waiters, so that
    /// current and later callers get an error at once.
    pub fn close(&self) {
        self.rest().closed = true;
        self.queue.release(self.take().bytes());
    }

    fn request_write(&self) -> Acknowledged {
        let mut rest = self.rest();
        self.due.store(true, Ordering::Release);
        rest.wait()
    }

    fn end(self: Arc<Self>, mut finished: Option<Finished>) -> Acknowledged {
        let mut result_size = None;
        if let Some(Finished { outcome, .. }) = &mut finished
            && let CallOutcome::Answered { result, .. } = outcome
        {
            self.state.store(State::Answered.code(), Ordering::Relaxed);
            result_size = result.as_ref().map(|text| text.len());
            *result = result.take().filter(|text| self.queue.hold(text.len()));
        }
        let is_awaited = self.queue.is_strict() && finished.is_some();
        let mut acknowledgement = Acknowledged::READY;
        {
            let mut rest = self.rest();
            rest.ending = Some(Ending {
                duration: match &finished {
                    Some(finished) => finished.at.saturating_duration_since(self.since),
                    None => self.since.elapsed(),
                },
                finished,
                result_size,
            });
            // Set the ending and its waiter under one lock. The thread may take the ending at once,
            // and does not look at the call again.
            if is_awaited {
                acknowledgement = rest.wait();
            }
            self.due.store(true, Ordering::Release);
        }
        if is_awaited {
            self.queue.wake_for_caller();
        }
        acknowledgement
    }
}

impl Drop for RecordedCall {
    fn drop(&mut self) {
        let rest = self.rest.get_mut();
        self.queue.release(rest.bytes());
        self.queue.leave();
    }
}
