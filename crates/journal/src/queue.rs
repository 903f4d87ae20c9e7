//! What waits to be written, the bounds on it, and how the writing thread is woken.

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
    record::{Cid, Origin, Target},
    redact::Secrets,
};
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::{
    counters::Tally,
    entry::{Acknowledged, Call, NotWritten, Waiter},
    history::Noted,
};

/// Calls that are open or wait to be written. At 25,000 calls per second it covers two seconds in
/// which the disk does nothing, and costs 30 MB at most beside the payloads.
const MAX_CALLS: usize = 64 * 1024;
/// Bytes of arguments and results that wait: two of the largest messages there may be.
const MAX_BYTES: usize = 128 * 1024 * 1024;
/// Changes of servers' statuses that wait to be written: four for each of a thousand servers. They are written
/// every few milliseconds, so that more than that wait only while the disk does nothing.
const MAX_NOTED: usize = 4096;
/// How often the thread looks while calls come: often, for what has gathered is in the processor's
/// caches, and no call waits long for the core that the thread is on. A commit has its price, of some
/// forty microseconds.
const WINDOW: Duration = Duration::from_millis(10);
/// How often it looks when nothing came the last time. A kill loses what has gathered since.
const QUIET_WINDOW: Duration = Duration::from_millis(50);
/// After so many looks at nothing the thread sleeps until it is woken: 5 s, so that waking it is rare.
const IDLE_WINDOWS: u32 = 100;

#[derive(Debug)]
pub struct Queue {
    durability: Durability,
    waiting: Mutex<Waiting>,
    wake: Condvar,
    /// Calls that are not written to the end.
    calls: AtomicUsize,
    /// Bytes of payloads that are not written.
    bytes: AtomicUsize,
    /// Changes of servers' statuses that could not be written, the oldest first. Held to move them.
    owed: Mutex<Vec<Noted>>,
    pub tally: Tally,
}

#[derive(Debug, Default)]
struct Waiting {
    begun: Vec<Arc<Call>>,
    flushes: Vec<Waiter>,
    extras: Extras,
    /// A caller waits for a commit.
    asked: bool,
    /// The thread looks at nothing until it is woken.
    asleep: bool,
    stopped: bool,
}

/// What is to be written beside calls.
#[derive(Debug, Default)]
pub struct Extras {
    pub keeps: Vec<Keep>,
    /// Changes of servers' statuses, in their order.
    pub noted: Vec<Noted>,
}

impl Extras {
    pub fn is_empty(&self) -> bool {
        self.keeps.is_empty() && self.noted.is_empty()
    }

    /// What they bring, about.
    pub fn bytes(&self) -> u64 {
        let kept = self.keeps.iter().map(|keep| keep.text.len() as u64);
        kept.chain(self.noted.iter().map(Noted::bytes)).sum()
    }
}

/// A text that is to become an object, and the waiter for it.
#[derive(Debug)]
pub struct Keep {
    pub text: ByteString,
    /// Of the call that brought it.
    pub origin: Arc<Origin>,
    pub target: Target,
    /// Of the server.
    pub secrets: Option<Arc<Secrets>>,
    pub waiter: oneshot::Sender<Result<Cid, NotWritten>>,
}

/// What has gathered.
#[derive(Debug)]
pub struct Gathered {
    pub begun: Vec<Arc<Call>>,
    pub flushes: Vec<Waiter>,
    pub extras: Extras,
    /// A caller waits for what is here.
    pub asked: bool,
    pub last: bool,
}

impl Queue {
    pub fn new(durability: Durability) -> Self {
        Self {
            durability,
            waiting: Mutex::default(),
            wake: Condvar::new(),
            calls: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            owed: Mutex::default(),
            tally: Tally::default(),
        }
    }

    pub(super) fn is_strict(&self) -> bool {
        self.durability == Durability::Strict
    }

    /// Whether one more call can be recorded. In strict mode each call waits for its own record, and
    /// so there are never more than there are calls.
    pub(super) fn admit(&self) -> bool {
        let calls = self.calls.fetch_add(1, Relaxed);
        if calls < MAX_CALLS || self.is_strict() {
            return true;
        }
        self.leave();
        self.tally.dropped.fetch_add(1, Relaxed);
        false
    }

    /// How many calls, and bytes of their payloads, wait to be written.
    pub(super) fn depth(&self) -> (usize, usize) {
        (self.calls.load(Relaxed), self.bytes.load(Relaxed))
    }

    pub(super) fn leave(&self) {
        self.calls.fetch_sub(1, Relaxed);
    }

    /// Whether a payload of so many bytes can wait.
    pub(super) fn hold(&self, bytes: usize) -> bool {
        let held = self.bytes.fetch_add(bytes, Relaxed);
        if held + bytes <= MAX_BYTES || self.is_strict() {
            return true;
        }
        self.release(bytes);
        self.tally.payloads_dropped.fetch_add(1, Relaxed);
        false
    }

    pub fn release(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Relaxed);
    }

    pub(super) fn push(&self, call: Arc<Call>) {
        let mut waiting = self.waiting();
        if waiting.stopped {
            self.tally.lost.fetch_add(1, Relaxed);
            return call.close();
        }
        waiting.begun.push(call);
        if waiting.asleep || waiting.begun.len() == MAX_CALLS / 2 {
            waiting.asleep = false;
            drop(waiting);
            self.wake.notify_one();
        }
    }

    /// A caller waits for the record of a call.
    pub(super) fn ask(&self) {
        let mut waiting = self.waiting();
        // The first request has woken the thread.
        if !mem::replace(&mut waiting.asked, true) {
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
            self.ask();
        }
        flushed
    }

    /// Answered when the text is an object that can be read; dropped if it will not be written.
    pub(super) fn keep(
        &self,
        text: ByteString,
        origin: Arc<Origin>,
        target: Target,
        secrets: Option<Arc<Secrets>>,
    ) -> oneshot::Receiver<Result<Cid, NotWritten>> {
        let (waiter, kept) = oneshot::channel();
        let mut waiting = self.waiting();
        if !waiting.stopped {
            waiting.extras.keeps.push(Keep {
                text,
                origin,
                target,
                secrets,
                waiter,
            });
            drop(waiting);
            self.ask();
        }
        kept
    }

    /// A change of a server's status. Where too many wait, the latest of the same server gives its place to
    /// this one, so that the last word on a server is kept.
    pub(super) fn note(&self, noted: Noted) {
        let mut waiting = self.waiting();
        let is_stopped = waiting.stopped;
        let queue = &mut waiting.extras.noted;
        if is_stopped || queue.len() >= MAX_NOTED {
            self.tally.transitions_dropped.fetch_add(1, Relaxed);
            if let Some(known) = queue.iter_mut().rfind(|it| it.server == noted.server) {
                *known = noted;
            }
            return;
        }
        queue.push(noted);
        if mem::replace(&mut waiting.asleep, false) {
            drop(waiting);
            self.wake.notify_one();
        }
    }

    /// Keeps changes that could not be written until they can be. Where too many wait, the oldest go.
    pub fn give_back(&self, noted: Vec<Noted>) {
        let mut owed = self.owed.lock();
        owed.extend(noted);
        let too_many = owed.len().saturating_sub(MAX_NOTED);
        owed.drain(..too_many);
        let dropped = &self.tally.transitions_dropped;
        dropped.fetch_add(too_many as u64, Relaxed);
    }

    /// Whether changes wait that could not be written.
    pub fn owes(&self) -> bool {
        !self.owed.lock().is_empty()
    }

    /// Those changes.
    pub fn take_owed(&self) -> Vec<Noted> {
        mem::take(&mut self.owed.lock())
    }

    pub fn stop(&self) {
        self.waiting().stopped = true;
        self.wake.notify_one();
    }

    /// For the thread: waits for the next window, for half a queue, or until a caller asks. `busy` says
    /// whether it has anything else to look after.
    pub fn gather(&self, idle: &mut u32, busy: bool) -> Gathered {
        let mut waiting = self.waiting();
        loop {
            if waiting.stopped || waiting.asked || waiting.begun.len() >= MAX_CALLS / 2 {
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
        *idle = if waiting.begun.is_empty() && waiting.extras.is_empty() {
            idle.saturating_add(1)
        } else {
            0
        };
        let asked = mem::take(&mut waiting.asked);
        // As much room again as was needed, so that no call pays for growth.
        let room = waiting.begun.len();
        Gathered {
            begun: mem::replace(&mut waiting.begun, Vec::with_capacity(room)),
            flushes: mem::take(&mut waiting.flushes),
            extras: mem::take(&mut waiting.extras),
            asked,
            last: waiting.stopped,
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Held to push a call, and to take them all.
        self.waiting.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use mainstay_core::ids::ServerName;

    use super::*;
    use crate::history::Transition;

    /// Where too many wait, the last word on each server stays, and what is left out is counted.
    #[test]
    fn the_last_word_on_a_server_survives_a_full_queue() {
        let queue = Queue::new(Durability::Relaxed);
        let mut dropped = 0;
        for round in 0..5 {
            for server in 0..1000 {
                queue.note(Noted {
                    server: ServerName::new(&format!("s{server}")).expect("a name"),
                    transition: Transition {
                        at: SystemTime::UNIX_EPOCH + Duration::from_secs(round),
                        ..Transition::now("connected")
                    },
                    secrets: None,
                });
            }
            dropped = queue.tally.counters().transitions_dropped;
        }
        let noted = queue.gather(&mut 0, false).extras.noted;
        assert_eq!(noted.len(), 4096);
        assert_eq!(dropped, 5000 - 4096);
        let newest = SystemTime::UNIX_EPOCH + Duration::from_secs(4);
        let at_the_end = noted.iter().filter(|it| it.transition.at == newest).count();
        assert_eq!(at_the_end, 1000);
    }
}
