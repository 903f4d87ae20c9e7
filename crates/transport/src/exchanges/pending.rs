//! Requests that wait for their answers on one shared connection, by the id that Mainstay gave them.

mod ids;
mod inbox;
mod unaddressed;

use std::{
    cmp::Reverse,
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use mainstay_core::{
    ids::ServerName,
    message::{Method, lenient::whole_number},
    suspects::MAX_SUSPECTS,
};

pub use self::inbox::Broken;
use self::{
    ids::{UnreadableId, id_in_head, is_request},
    inbox::Inbox,
    unaddressed::{Answerless, Unaddressed},
};
use crate::{
    Asker, Frame, OpenQuestions, PossibleSuspect, ServerMessage, ServerQuestion,
    lines::line_writer::Mark,
};

/// The maximum number of abandoned calls that are remembered, over all clients. Of calls beyond it, only the
/// highest id is remembered.
const MAX_ABANDONED: usize = 256;

/// Time for which an abandoned call may cause questions. A server need not answer a cancelled call, and a server
/// that obeys the cancellation never does (2025-11-25, "Cancellation"). Mainstay therefore cannot know when the
/// call has stopped.
const ABANDONED_FOR: Duration = Duration::from_mins(1);

/// The receiver of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressee {
    Call,
    /// A call that was abandoned before the answer came.
    AbandonedCall,
    /// No call: the call has its answer already, or the id is unknown.
    Nobody,
}

/// All calls in flight on one connection.
#[derive(Debug)]
pub struct PendingRequests {
    server: ServerName,
    next_id: AtomicU64,
    calls: Mutex<Calls>,
    /// Has its own lock: a question may be refused while `calls` is locked, and the refusal locks this field.
    answerless: Mutex<Answerless>,
}

#[derive(Debug, Default)]
struct Calls {
    by_id: foldhash::HashMap<u64, Arc<Inbox>>,
    /// Abandoned calls without an answer. They may still cause questions.
    abandoned: HashMap<u64, Abandoned>,
    /// The highest id of the abandoned calls that are no longer in `abandoned`.
    forgotten: u64,
    unaddressed: Unaddressed,
    ended: bool,
    /// The calls that were in flight when the connection ended.
    lost: Vec<(PossibleSuspect, Mark)>,
}

#[derive(Debug)]
struct Abandoned {
    /// `None` for requests of Mainstay's own.
    asker: Option<Asker>,
    since: Instant,
}

impl Abandoned {
    fn is_recent(&self) -> bool {
        self.since.elapsed() < ABANDONED_FOR
    }
}

impl Calls {
    /// The id of the waiting call, if exactly one call waits.
    fn only_id(&self) -> Option<u64> {
        let mut ids = self.by_id.keys();
        let only = ids.next().copied();
        only.filter(|_| ids.next().is_none())
    }

    fn abandon(&mut self, id: u64, asker: Option<Asker>) {
        let forgotten = &mut self.forgotten;
        self.abandoned.retain(|id, call| {
            if !call.is_recent() {
                *forgotten = (*forgotten).max(*id);
            }
            call.is_recent()
        });
        if self.abandoned.len() < MAX_ABANDONED {
            let since = Instant::now();
            self.abandoned.insert(id, Abandoned { asker, since });
        } else {
            self.forgotten = self.forgotten.max(id);
        }
    }

    /// The receiver of an answer for which no call waits. An answer to an abandoned call is not a mistake of
    /// the server.
    fn addressee(&mut self, id: u64) -> Addressee {
        if self.abandoned.remove(&id).is_some() || id <= self.forgotten {
            Addressee::AbandonedCall
        } else {
            Addressee::Nobody
        }
    }

    /// Returns the id if a call waits for this answer. An answer to an abandoned call ends that call, even if
    /// the answer cannot be used.
    fn awaited(&mut self, id: u64) -> Option<u64> {
        self.abandoned.remove(&id);
        self.by_id.contains_key(&id).then_some(id)
    }

    /// The requests up to this id that wait for an answer. Subscriptions do not count.
    fn waiting(&self, last_id: u64) -> Vec<u64> {
        let inboxes = self.by_id.iter();
        let waiting = inboxes.filter(|(id, inbox)| **id <= last_id && !inbox.is_subscribed());
        waiting.map(|(id, _)| *id).collect()
    }

    /// Removes and returns the waiting calls, if at least as many answers without an id have arrived. None of
    /// these calls will get another answer.
    fn all_answered(&mut self) -> Vec<Arc<Inbox>> {
        if !self.unaddressed.is_any() {
            return Vec::new();
        }
        let waiting = self.waiting(self.unaddressed.last_id());
        if waiting.len() > self.unaddressed.count() {
            return Vec::new();
        }
        self.unaddressed.clear();
        let inboxes = waiting.iter().filter_map(|id| self.by_id.remove(id));
        inboxes.collect()
    }

    /// Time since another client than `asker` last abandoned a call. `None` if no such call is recent.
    fn abandoned_by_others(&self, asker: Asker) -> Option<Duration> {
        let others = self
            .abandoned
            .values()
            .filter(|call| call.asker.is_some_and(|other| other != asker));
        let recent = others.filter(|call| call.is_recent());
        recent.map(|call| call.since.elapsed()).min()
    }
}

impl PendingRequests {
    pub fn new(server: ServerName) -> Self {
        Self {
            server,
            next_id: AtomicU64::new(0),
            calls: Mutex::default(),
            answerless: Mutex::default(),
        }
    }

    /// Returns the next id. Mainstay assigns the ids of a connection in increasing order.
    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn calls(&self) -> parking_lot::MutexGuard<'_, Calls> {
        self.calls.lock()
    }

    /// Registers a call before it is sent, so that its answer cannot come before the registration.
    pub fn register(
        self: &Arc<Self>,
        asker: Option<Asker>,
        work: Option<PossibleSuspect>,
    ) -> Result<Ticket, Broken> {
        let id = self.next_id();
        let inbox = Arc::new(Inbox::new(asker, work));
        let mut calls = self.calls();
        if calls.ended {
            return Err(Broken::Ended);
        }
        calls.by_id.insert(id, Arc::clone(&inbox));
        Ok(Ticket {
            id,
            inbox,
            pending: Arc::clone(self),
        })
    }

    /// Hands an answer to its call. `id` may be any spelling of the number: no two ids of Mainstay have the
    /// same value.
    pub fn answer(&self, id: &str, frame: Frame) -> Addressee {
        let Some(id) = id.parse().ok().or_else(|| whole_number(id)) else {
            return if id == "null" {
                self.answer_without_id(frame)
            } else {
                Addressee::Nobody
            };
        };
        let mut calls = self.calls();
        let Some(inbox) = calls.by_id.remove(&id) else {
            return calls.addressee(id);
        };
        let answered = calls.all_answered();
        drop(calls);
        inbox.push_answer(frame);
        misaddressed(answered);
        Addressee::Call
    }

    /// Handles an answer whose id is `null`. The only waiting request gets the answer, unless the server may
    /// have answered a message that needs no answer.
    fn answer_without_id(&self, frame: Frame) -> Addressee {
        let last_id = self.next_id.load(Ordering::Relaxed);
        let mut calls = self.calls();
        let waiting = calls.waiting(u64::MAX);
        // A result always answers a request. Only an error may answer another message.
        let is_error = frame.error().is_some();
        if is_error && self.answerless.lock().may_be_answered(last_id, &waiting) {
            return Addressee::Nobody;
        }
        if let [only] = waiting[..]
            && !calls.unaddressed.is_any()
        {
            let inbox = calls.by_id.remove(&only);
            drop(calls);
            if let Some(inbox) = inbox {
                inbox.push_answer(frame);
            }
            return Addressee::Call;
        }
        if waiting.is_empty() {
            return Addressee::Nobody;
        }
        calls.unaddressed.add(last_id);
        let answered = calls.all_answered();
        drop(calls);
        misaddressed(answered);
        Addressee::Nobody
    }

    /// Counts a message to the server that needs no answer. Some servers answer such messages, under the id
    /// `null`.
    pub fn note_answerless(&self) {
        let last_id = self.next_id.load(Ordering::Relaxed);
        self.answerless.lock().add(last_id);
    }

    /// Breaks off the call whose answer cannot be read. If the id of the answer is a number, it identifies
    /// the call. If the id is null or a string, the only call in flight is broken off, unless there are
    /// abandoned calls. Returns the id of the call.
    pub fn break_off_unreadable(&self, text: &[u8], reason: &str) -> Option<u64> {
        let is_message = memchr::memmem::find(text, b"\"jsonrpc\"").is_some();
        if !is_message || is_request(text) {
            return None;
        }
        let id = UnreadableId::find(text)?;
        let mut calls = self.calls();
        let id = match id {
            UnreadableId::Number(id) => calls.awaited(id)?,
            // The answer may be a late answer to an abandoned call.
            UnreadableId::Foreign => calls.only_id().filter(|_| calls.abandoned.is_empty())?,
        };
        let inbox = calls.by_id.remove(&id)?;
        drop(calls);
        inbox.break_off(Broken::Unreadable(reason.into()));
        Some(id)
    }

    /// Hands a notification to the request that its progress token or subscription id names. Returns `false`
    /// if there is no such request.
    pub fn notify(&self, id: &str, frame: Frame) -> bool {
        let Some(id) = id.parse().ok().or_else(|| whole_number(id)) else {
            return false;
        };
        let inbox = self.calls().by_id.get(&id).cloned();
        inbox
            .inspect(|inbox| {
                if frame.method() == Some(Method::Acknowledged) {
                    inbox.acknowledge();
                }
                inbox.push_notification(frame);
            })
            .is_some()
    }

    /// Handles a request that the server must not make: the only call that can have caused it fails. Returns
    /// `false` if there is no such call, or more than one.
    pub fn fail_only_call(&self) -> bool {
        let calls = self.calls();
        let mut by_clients = calls
            .by_id
            .iter()
            .filter(|(_, inbox)| inbox.asker.is_some());
        let only = match (by_clients.next(), by_clients.next()) {
            (Some((_, only)), None) => Arc::clone(only),
            _ => return false,
        };
        drop(by_clients);
        drop(calls);
        only.break_off(Broken::ForbiddenRequest);
        true
    }

    /// Breaks off a call whose request came back unchanged: `request` has the id of a call and a method that
    /// only clients use. Returns `false` for any other request. The caller must not answer `request`, because
    /// the answer would come back, too.
    pub fn break_off_echo(&self, request: &Frame) -> bool {
        let is_foreign = request.method().is_some_and(Method::is_client_request);
        let id = request.id().filter(|_| is_foreign);
        let Some(id) = id.and_then(|id| id.parse().ok()) else {
            return false;
        };
        let inbox = self.calls().by_id.remove(&id);
        inbox
            .inspect(|inbox| inbox.break_off(Broken::Echoed))
            .is_some()
    }

    /// Hands a notification that names no call to the only call of a client in flight. Returns the
    /// notification if there is no such call, or more than one.
    pub fn to_only_call(&self, frame: Frame) -> Option<Frame> {
        let calls = self.calls();
        let mut inboxes = calls
            .by_id
            .values()
            .filter(|inbox| inbox.asker.is_some() && !inbox.is_subscribed());
        match (inboxes.next(), inboxes.next()) {
            (Some(only), None) => {
                only.push_notification(frame);
                None
            }
            _ => Some(frame),
        }
    }

    /// Hands a question that names no call to the only client that can have caused it. Returns the question
    /// if there is no such client, or more than one. In both cases the question records the calls that can
    /// have caused it.
    pub fn ask(&self, mut question: ServerQuestion) -> Result<(), ServerQuestion> {
        let calls = self.calls();
        let live = calls
            .by_id
            .iter()
            .filter_map(|(id, inbox)| Some((id, inbox.asker?, inbox)));
        question.set_calls(live.clone().map(|(.., inbox)| inbox.take_questions()));
        let mut askers = live.clone().map(|(_, asker, _)| asker);
        let Some(asker) = askers.next() else {
            question.set_obstacle("no call is in flight that can have caused it");
            return Err(question);
        };
        if askers.any(|other| other != asker) {
            let waiting = live.filter_map(|(.., inbox)| inbox.open_questions()?.waiting());
            question.set_obstacle(ambiguous(waiting.max()));
            return Err(question);
        }
        if let Some(ago) = calls.abandoned_by_others(asker) {
            question.set_obstacle(maybe_from_abandoned_call(ago));
            return Err(question);
        }
        // Any of the client's calls may deliver the question. Take the latest.
        let Some((_, _, latest)) = live.max_by_key(|(id, ..)| **id) else {
            return Err(question);
        };
        latest.push_question(question);
        Ok(())
    }

    /// Breaks off the call whose answer exceeds `limit` bytes, if the beginning of the answer identifies the
    /// call. Returns the id of the call.
    pub fn break_off_too_large(&self, head: &[u8], limit: usize) -> Option<u64> {
        let mut calls = self.calls();
        let id = match id_in_head(head) {
            // The message is a request of the server, and answers no call.
            _ if is_request(head) => return None,
            Some(id) => calls.awaited(id)?,
            // Without an id, the answer belongs to the only call in flight.
            None => calls.only_id()?,
        };
        let inbox = calls.by_id.remove(&id)?;
        drop(calls);
        inbox.break_off(Broken::TooLarge(limit));
        Some(id)
    }

    /// True if a call may wait for the message that begins with `head`: the message answers a call, may
    /// answer one, or is a request that a call may have caused.
    pub fn may_await(&self, head: &[u8]) -> bool {
        let calls = self.calls();
        match id_in_head(head) {
            Some(id) if !is_request(head) => calls.by_id.contains_key(&id),
            _ => !calls.by_id.is_empty(),
        }
    }

    /// Ends every call in flight, and refuses new ones.
    pub fn end(&self) {
        let ended = {
            let mut calls = self.calls();
            calls.ended = true;
            // Servers answer open requests when their stdin ends. Such answers are not mistakes.
            calls.forgotten = calls.forgotten.max(self.next_id.load(Ordering::Relaxed));
            let ended = std::mem::take(&mut calls.by_id);
            calls.lost.extend(lost(&ended));
            ended
        };
        for inbox in ended.into_values() {
            inbox.break_off(Broken::Ended);
        }
    }

    /// The calls that were in flight when the connection ended and may be suspects, the latest first. Only
    /// the first call of this method returns them.
    pub fn take_lost(&self) -> Vec<(PossibleSuspect, Mark)> {
        std::mem::take(&mut self.calls().lost)
    }

    pub fn is_ended(&self) -> bool {
        self.calls().ended
    }
}

/// One registered call. Dropping the ticket abandons the call, and a late answer is dropped.
#[derive(Debug)]
pub struct Ticket {
    pub id: u64,
    inbox: Arc<Inbox>,
    pending: Arc<PendingRequests>,
}

impl Ticket {
    /// Sets the position of the call in the writer's output.
    pub fn set_mark(&self, mark: Mark) {
        self.inbox.set_mark(mark);
    }

    /// The questions that this call may have caused. `None` if no question came.
    pub fn open_questions(&self) -> Option<&OpenQuestions> {
        self.inbox.open_questions()
    }

    /// The next message for this call. Cancel-safe.
    pub async fn next(&mut self) -> Result<ServerMessage, Broken> {
        self.inbox.next().await
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut calls = self.pending.calls();
        if calls.by_id.remove(&self.id).is_some() {
            calls.abandon(self.id, self.inbox.asker);
        }
        drop(calls);
        let dropped = self.inbox.dropped();
        if dropped > 0 {
            tracing::warn!(
                server = %self.pending.server,
                dropped,
                "progress or log messages of a call were dropped: its client reads too slowly"
            );
        }
    }
}

/// Breaks off calls whose answers came without an id.
fn misaddressed(calls: Vec<Arc<Inbox>>) {
    for inbox in calls {
        inbox.break_off(Broken::Misaddressed("null".into()));
    }
}

/// The refusal of a question while calls of several clients are in flight. The text includes the longest time
/// that a call has waited for its client, because that call may be the cause.
fn ambiguous(waiting: Option<Duration>) -> String {
    let reason = "calls of several clients are in flight on the server's connection, and nobody can tell whose question this is";
    match waiting {
        Some(waiting) => format!(
            "{reason}; one of them has waited for {} s for its client's answer (mainstay requests shows which)",
            waiting.as_secs()
        ),
        None => reason.to_owned(),
    }
}

/// The refusal of a question that another client's abandoned call may have caused. `ago` is the time since
/// that call was abandoned.
fn maybe_from_abandoned_call(ago: Duration) -> String {
    format!(
        "another client's call was cancelled or given up {} s ago, the server has not answered it, and nobody can tell whether this is a question of that call (told apart once the server answers it, or {} s after it was given up)",
        ago.as_secs(),
        ABANDONED_FOR.as_secs()
    )
}

/// The latest queued calls. They are the suspects if the server crashed.
fn lost(ended: &foldhash::HashMap<u64, Arc<Inbox>>) -> Vec<(PossibleSuspect, Mark)> {
    let mut calls: Vec<_> = ended
        .iter()
        .filter_map(|(id, inbox)| Some((*id, inbox.work()?)))
        .collect();
    calls.sort_unstable_by_key(|(id, _)| Reverse(*id));
    let latest = calls.into_iter().take(MAX_SUSPECTS);
    latest
        .map(|(_, (work, mark))| (work.clone(), mark))
        .collect()
}

#[cfg(test)]
mod tests;
