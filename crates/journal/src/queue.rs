//! The queue of the writing thread: its bounds and wake-ups.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use bytestring::ByteString;
use mainstay_core::{
    config::Durability,
    record::{CallOrigin, Cid, Target},
    redact::Secrets,
};
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::{
    counters::JournalTally,
    entry::{Acknowledged, NotWritten, RecordedCall, Waiter},
    history::PendingTransition,
};

/// Maximum number of calls that are open or wait to be written. At 25,000 calls per second the
/// bound covers two seconds without writes. It costs at most 30 MB besides the payloads.
const MAX_CALLS: usize = 64 * 1024;
/// Maximum bytes of waiting arguments and results: two of the largest messages.
const MAX_BYTES: usize = 128 * 1024 * 1024;
/// Maximum number of status changes that wait to be written: four for each of a thousand servers.
/// The thread writes every few milliseconds, so the bound is reached only while the disk hangs.
const MAX_TRANSITIONS: usize = 4096;
/// Time between two turns of the thread during traffic. With a short time, recent data is still in
/// the processor's caches, and a turn is too short to delay calls on the same core. A commit costs
/// some forty microseconds.
const WINDOW: Duration = Duration::from_millis(10);
/// Time between two turns after a turn without calls. A kill loses the calls of this time.
const QUIET_WINDOW: Duration = Duration::from_millis(50);
/// Number of turns without calls after which the thread sleeps until a wake-up. These turns take 5
/// s, so wake-ups are rare.
const IDLE_WINDOWS: u32 = 100;

#[derive(Debug)]
pub struct JournalQueue {
    durability: Durability,
    waiting: Mutex<Waiting>,
    wake: Condvar,
    /// Number of calls that are not completely written.
    calls: AtomicUsize,
    /// Bytes of payloads that are not written.
    bytes: AtomicUsize,
    /// Status changes that could not be written, oldest first. The lock is held only to move them.
    owed: Mutex<Vec<PendingTransition>>,
    pub tally: JournalTally,
}

#[derive(Debug, Default)]
struct Waiting {
    new_calls: Vec<Arc<RecordedCall>>,
    flushes: Vec<Waiter>,
    extras: Extras,
    /// True if a caller waits for a commit.
    is_awaited: bool,
    /// True while the thread sleeps until a wake-up.
    asleep: bool,
    stopped: bool,
}

/// Data to write besides calls.
#[derive(Debug, Default)]
pub struct Extras {
    pub texts: Vec<Keep>,
    /// Changes of servers' statuses, in order.
    pub transitions: Vec<PendingTransition>,
}

impl Extras {
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.transitions.is_empty()
    }

    /// Approximate size of the data, in bytes.
    pub fn bytes(&self) -> u64 {
        let texts: u64 = self.texts.iter().map(|keep| keep.text.len() as u64).sum();
        let transitions: u64 = self.transitions.iter().map(PendingTransition::bytes).sum();
        texts + transitions
    }
}

/// A text to store as an object, and the waiter for its identifier.
#[derive(Debug)]
pub struct Keep {
    pub text: ByteString,
    /// The origin of the call that contained the text.
    pub origin: Arc<CallOrigin>,
    pub target: Target,
    /// Secrets of the server.
    pub secrets: Option<Arc<Secrets>>,
    pub waiter: oneshot::Sender<Result<Cid, NotWritten>>,
}

/// The data of one turn.
#[derive(Debug)]
pub struct Gathered {
    pub new_calls: Vec<Arc<RecordedCall>>,
    pub flushes: Vec<Waiter>,
    pub extras: Extras,
    /// True if a caller waits for this turn.
    pub is_awaited: bool,
    pub last: bool,
}

impl JournalQueue {
    pub fn new(durability: Durability) -> Self {
        Self {
            durability,
            waiting: Mutex::default(),
            wake: Condvar::new(),
            calls: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            owed: Mutex::default(),
            tally: JournalTally::default(),
        }
    }

    pub(super) fn is_strict(&self) -> bool {
        self.durability == Durability::Strict
    }

    /// True if one more call can be recorded. Strict mode has no bound, because each call waits for
    /// its own record.
    pub(super) fn admit(&self) -> bool {
        let calls = self.calls.fetch_add(1, Relaxed);
        if calls < MAX_CALLS || self.is_strict() {
            return true;
        }
        self.leave();
        self.tally.dropped.fetch_add(1, Relaxed);
        false
    }

    /// The number of calls that are open or wait to be written, and the bytes of their payloads.
    pub(super) fn depth(&self) -> (usize, usize) {
        (self.calls.load(Relaxed), self.bytes.load(Relaxed))
    }

    pub(super) fn leave(&self) {
        self.calls.fetch_sub(1, Relaxed);
    }

    /// Reserves space for a payload of this size. Returns false if too many bytes wait.
    pub(super) fn hold(&self, bytes: usize) -> bool {
        let held_bytes = self.bytes.fetch_add(bytes, Relaxed);
        if held_bytes + bytes <= MAX_BYTES || self.is_strict() {
            return true;
        }
        self.release(bytes);
        self.tally.payloads_dropped.fetch_add(1, Relaxed);
        false
    }

    pub fn release(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Relaxed);
    }

    pub(super) fn push(&self, call: Arc<RecordedCall>) {
        let mut waiting = self.waiting();
        if waiting.stopped {
            self.tally.lost.fetch_add(1, Relaxed);
            return call.close();
        }
        waiting.new_calls.push(call);
        if waiting.asleep || waiting.new_calls.len() == MAX_CALLS / 2 {
            waiting.asleep = false;
            drop(waiting);
            self.wake.notify_one();
        }
    }

    /// Wakes the thread for a waiting caller.
    pub(super) fn wake_for_caller(&self) {
        let mut waiting = self.waiting();
        // An earlier caller has already woken the thread.
        if !mem::replace(&mut waiting.is_awaited, true) {
            waiting.asleep = false;
            drop(waiting);
            self.wake.notify_one();
        }
    }

    pub(super) fn flush(&self) -> Acknowledged {
        let (waiter, flushed) = Acknowledged::channel();
        let mut waiting = self.waiting();
        if !waiting.stopped {
            waiting.flushes.push(waiter);
            drop(waiting);
            self.wake_for_caller();
        }
        flushed
    }

    /// Queues a text. The receiver gets the identifier when the object can be read. The sender is
    /// dropped if the text will not be written.
    pub(super) fn keep(
        &self,
        text: ByteString,
        origin: Arc<CallOrigin>,
        target: Target,
        secrets: Option<Arc<Secrets>>,
    ) -> oneshot::Receiver<Result<Cid, NotWritten>> {
        let (waiter, receiver) = oneshot::channel();
        let mut waiting = self.waiting();
        if !waiting.stopped {
            waiting.extras.texts.push(Keep {
                text,
                origin,
                target,
                secrets,
                waiter,
            });
            drop(waiting);
            self.wake_for_caller();
        }
        receiver
    }

    /// Queues a change of a server's status. In a full queue, the change replaces the latest change
    /// of the same server, so that the last status of a server is recorded.
    pub(super) fn note(&self, transition: PendingTransition) {
        let mut waiting = self.waiting();
        let is_stopped = waiting.stopped;
        let queue = &mut waiting.extras.transitions;
        if is_stopped || queue.len() >= MAX_TRANSITIONS {
            self.tally.transitions_dropped.fetch_add(1, Relaxed);
            let is_same = |queued: &&mut PendingTransition| queued.server == transition.server;
            if let Some(latest) = queue.iter_mut().rfind(is_same) {
                *latest = transition;
            }
            return;
        }
        queue.push(transition);
        if mem::replace(&mut waiting.asleep, false) {
            drop(waiting);
            self.wake.notify_one();
        }
    }

    /// Puts back changes whose write failed, for a later turn. If there are too many, the oldest
    /// are dropped.
    pub fn give_back(&self, transitions: Vec<PendingTransition>) {
        let mut owed = self.owed.lock();
        owed.extend(transitions);
        let too_many = owed.len().saturating_sub(MAX_TRANSITIONS);
        owed.drain(..too_many);
        let dropped_count = &self.tally.transitions_dropped;
        dropped_count.fetch_add(too_many as u64, Relaxed);
    }

    /// True if changes wait after a failed write.
    pub fn owes(&self) -> bool {
        !self.owed.lock().is_empty()
    }

    /// Takes the changes that wait after a failed write.
    pub fn take_owed(&self) -> Vec<PendingTransition> {
        mem::take(&mut self.owed.lock())
    }

    pub fn stop(&self) {
        self.waiting().stopped = true;
        self.wake.notify_one();
    }

    /// Waits until the next turn is due, the queue is half full, or a caller waits. While `busy`,
    /// the thread has other work, so it does not sleep until a wake-up.
    pub fn gather(&self, idle: &mut u32, busy: bool) -> Gathered {
        let mut waiting = self.waiting();
        loop {
            if waiting.stopped || waiting.is_awaited || waiting.new_calls.len() >= MAX_CALLS / 2 {
                break;
            }
            if *idle < IDLE_WINDOWS || busy {
                let window = if *idle > 0 { QUIET_WINDOW } else { WINDOW };
                if self.wake.wait_for(&mut waiting, window).timed_out() {
                    break;
                }
            } else {
                waiting.asleep = true;
                self.wake.wait(&mut waiting);
                *idle = 0;
            }
        }
        *idle = if waiting.new_calls.is_empty() && waiting.extras.is_empty() {
            idle.saturating_add(1)
        } else {
            0
        };
        let is_awaited = mem::take(&mut waiting.is_awaited);
        // Reserve the same capacity for the next turn, so that no call pays for growth.
        let capacity = waiting.new_calls.len();
        Gathered {
            new_calls: mem::replace(&mut waiting.new_calls, Vec::with_capacity(capacity)),
            flushes: mem::take(&mut waiting.flushes),
            extras: mem::take(&mut waiting.extras),
            is_awaited,
            last: waiting.stopped,
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // The lock is held only to push a call, or to take all calls.
        self.waiting.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use mainstay_core::ids::ServerName;

    use super::*;
    use crate::history::Transition;

    /// In a full queue, the last status of each server stays, and dropped changes are counted.
    #[test]
    fn the_last_status_of_a_server_survives_a_full_queue() {
        let queue = JournalQueue::new(Durability::Relaxed);
        let mut dropped_changes = 0;
        for round in 0..5 {
            for server in 0..1000 {
                queue.note(PendingTransition {
                    server: ServerName::new(&format!("s{server}")).expect("a name"),
                    transition: Transition {
                        at: SystemTime::UNIX_EPOCH + Duration::from_secs(round),
                        ..Transition::now("connected")
                    },
                    secrets: None,
                });
            }
            dropped_changes = queue.tally.counters().transitions_dropped;
        }
        let transitions = queue.gather(&mut 0, false).extras.transitions;
        assert_eq!(transitions.len(), 4096);
        assert_eq!(dropped_changes, 5000 - 4096);
        let newest = SystemTime::UNIX_EPOCH + Duration::from_secs(4);
        let final_statuses = transitions
            .iter()
            .filter(|pending| pending.transition.at == newest)
            .count();
        assert_eq!(final_statuses, 1000);
    }
}
