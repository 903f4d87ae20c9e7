//! What waits to be written, how much that may be, and how the writing thread is woken.

use std::{
    mem,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use mainstay_core::config::Durability;

use super::{
    counters::Tally,
    entry::{Acknowledged, Call, Waiter},
};

/// Calls that are open or wait to be written. At 25,000 calls per second it bridges two seconds in
/// which the disk does nothing, and costs 30 MB at most beside the payloads.
const MAX_CALLS: usize = 64 * 1024;
/// Bytes of arguments and results that wait: two of the largest messages there may be.
const MAX_BYTES: usize = 128 * 1024 * 1024;
/// How often the thread looks. A kill loses what has gathered since, and a commit has its price: here
/// it is spread over a thousand calls at saturation.
const WINDOW: Duration = Duration::from_millis(50);
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
    pub tally: Tally,
}

#[derive(Debug, Default)]
struct Waiting {
    begun: Vec<Arc<Call>>,
    flushes: Vec<Waiter>,
    /// Somebody waits for a commit.
    asked: bool,
    /// The thread looks at nothing until it is woken.
    asleep: bool,
    stopped: bool,
}

/// What has gathered.
#[derive(Debug)]
pub struct Gathered {
    pub begun: Vec<Arc<Call>>,
    pub flushes: Vec<Waiter>,
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
            tally: Tally::default(),
        }
    }

    pub fn is_strict(&self) -> bool {
        self.durability == Durability::Strict
    }

    /// Whether one more call can be recorded. In strict mode each call waits for its own record, and
    /// so there are never more than there are calls.
    pub fn admit(&self) -> bool {
        let calls = self.calls.fetch_add(1, Relaxed);
        if calls < MAX_CALLS || self.is_strict() {
            return true;
        }
        self.leave();
        self.tally.dropped.fetch_add(1, Relaxed);
        false
    }

    /// How many calls, and bytes of their payloads, wait to be written.
    pub fn depth(&self) -> (usize, usize) {
        (self.calls.load(Relaxed), self.bytes.load(Relaxed))
    }

    pub fn leave(&self) {
        self.calls.fetch_sub(1, Relaxed);
    }

    /// Whether a payload of so many bytes can wait.
    pub fn hold(&self, bytes: usize) -> bool {
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

    pub fn push(&self, call: Arc<Call>) {
        let mut waiting = self.waiting();
        if waiting.stopped {
            return call.close();
        }
        waiting.begun.push(call);
        if waiting.asleep || waiting.begun.len() == MAX_CALLS / 2 {
            waiting.asleep = false;
            drop(waiting);
            self.wake.notify_one();
        }
    }

    /// Somebody waits for what a call has left.
    pub fn ask(&self) {
        let mut waiting = self.waiting();
        // Whoever asked before has woken the thread.
        if !mem::replace(&mut waiting.asked, true) {
            waiting.asleep = false;
            drop(waiting);
            self.wake.notify_one();
        }
    }

    pub fn flush(&self) -> Acknowledged {
        let (waiter, flushed) = Acknowledged::channel();
        let mut waiting = self.waiting();
        if !waiting.stopped {
            waiting.flushes.push(waiter);
            drop(waiting);
            self.ask();
        }
        flushed
    }

    pub fn stop(&self) {
        self.waiting().stopped = true;
        self.wake.notify_one();
    }

    /// For the thread: waits for the next window, for half a queue, or until somebody asks. `busy`
    /// says whether it has anything else to look after.
    pub fn gather(&self, idle: &mut u32, busy: bool) -> Gathered {
        let mut waiting = self.waiting();
        loop {
            if waiting.stopped || waiting.asked || waiting.begun.len() >= MAX_CALLS / 2 {
                break;
            }
            if *idle < IDLE_WINDOWS || busy {
                let slept = self.wake.wait_timeout(waiting, WINDOW);
                let (after, timeout) = slept.unwrap_or_else(PoisonError::into_inner);
                waiting = after;
                if timeout.timed_out() {
                    break;
                }
            } else {
                waiting.asleep = true;
                waiting = self
                    .wake
                    .wait(waiting)
                    .unwrap_or_else(PoisonError::into_inner);
                *idle = 0;
            }
        }
        *idle = if waiting.begun.is_empty() && !busy {
            *idle + 1
        } else {
            0
        };
        waiting.asked = false;
        // As much room again as was needed, so that no call pays for growing it.
        let room = waiting.begun.len();
        Gathered {
            begun: mem::replace(&mut waiting.begun, Vec::with_capacity(room)),
            flushes: mem::take(&mut waiting.flushes),
            last: waiting.stopped,
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Held to push a call, and to take them all.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
