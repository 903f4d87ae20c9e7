//! The writing thread of the journal.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    thread::{self, JoinHandle},
    time::Instant,
};

use mainstay_core::config::Durability;
use mainstay_journal::store::{Gathered, JournalQueue};
use parking_lot::Mutex;

use super::{
    StoreError, gaps,
    opening::Opening,
    unwritten_gap::UnwrittenGap,
    work::{JournalTrouble, TurnPace, Work, answer},
};

#[derive(Debug)]
pub struct Writer {
    /// `None` after the thread was joined.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub fn start(opening: Opening) -> Result<Self, StoreError> {
        let mut desk = Desk {
            work: opening.begin()?,
            unwritten: None,
            last_attempt: Instant::now(),
            opening,
        };
        desk.take_unwritten();
        let folder = desk.opening.folder.clone();
        let thread = thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || desk.write())
            .map_err(|source| StoreError::Io {
                path: folder,
                source,
            })?;
        Ok(Self {
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Waits for the thread, which ends after its queue is stopped.
    pub fn join(&self) {
        let thread = {
            // The lock is held only to take the handle.
            let mut thread = self.thread.lock();
            thread.take()
        };
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that writes the journal failed");
        }
    }
}

/// The state of the thread. Its drop answers all waiting callers.
struct Desk {
    /// `None` while the journal cannot be opened.
    work: Option<Work>,
    /// The gap that is not in the database yet. `None` until the journal was first opened.
    unwritten: Option<UnwrittenGap>,
    /// Time of the last attempt to open the journal.
    last_attempt: Instant,
    opening: Opening,
}

impl Desk {
    fn write(&mut self) {
        let queue = Arc::clone(&self.opening.queue);
        let mut idle = 0;
        loop {
            let is_busy = match &self.work {
                Some(work) => work.is_busy(),
                None => queue.owes(),
            };
            let data = queue.gather(&mut idle, is_busy);
            let last = data.last;
            self.look();
            match self.work() {
                Some(work) => turn(work, data),
                None => lose(&queue, data),
            }
            self.keep_unwritten(last);
            if last {
                return;
            }
        }
    }

    /// Takes the gap of an earlier run, so that the next turn writes it.
    fn take_unwritten(&mut self) {
        if let Some(work) = &mut self.work
            && self.unwritten.is_none()
        {
            self.unwritten = UnwrittenGap::open(&self.opening.folder);
            if let Some(gap) = self.unwritten.as_ref().and_then(UnwrittenGap::gap) {
                work.leave_gap(gap.clone());
            }
        }
    }

    /// Writes the gap that is not in the database yet to its own file: that of the current outage,
    /// joined with the previous one.
    fn keep_unwritten(&mut self, is_last: bool) {
        let Some(unwritten) = &mut self.unwritten else {
            return;
        };
        let waiting_gap = self.work.as_ref().and_then(Work::gap).cloned();
        let gap = match self.opening.queue.tally.outage() {
            Some(outage) if outage.lost > 0 => {
                Some(gaps::join(waiting_gap, gaps::from_outage(outage)))
            }
            Some(_) | None => waiting_gap,
        };
        unwritten.keep(gap, is_last);
    }

    /// Checks the journal's files. In relaxed mode, a new journal replaces one that was removed or
    /// damaged while it was open. In strict mode, calls are refused until a person decides.
    fn look(&mut self) {
        let Some(JournalTrouble {
            error_text,
            is_damage,
        }) = self.work.as_mut().and_then(Work::trouble)
        else {
            return;
        };
        let is_news = self.opening.queue.tally.failing(&error_text);
        if self.opening.settings.durability == Durability::Strict {
            if is_news {
                tracing::error!(
                    trouble = error_text,
                    "calls are refused until the journal is back; a restart begins a new one"
                );
            }
            return;
        }
        let Some(work) = self.work.take() else { return };
        tracing::error!(
            trouble = error_text,
            "the journal was lost; a new one is begun"
        );
        work.give_up();
        self.work = self.opening.replace(is_damage);
        self.last_attempt = Instant::now();
    }

    fn work(&mut self) -> Option<&mut Work> {
        if self.work.is_none() && self.last_attempt.elapsed() >= self.opening.retry_after {
            self.work = self.opening.retry();
            self.last_attempt = Instant::now();
            self.take_unwritten();
        }
        self.work.as_mut()
    }
}

fn turn(work: &mut Work, data: Gathered) {
    let Gathered {
        new_calls,
        flushes,
        extras,
        is_awaited,
        last,
    } = data;
    let result = if last {
        work.end(new_calls, extras)
    } else {
        let pace = if is_awaited {
            TurnPace::Swift
        } else {
            TurnPace::Polite
        };
        work.turn(new_calls, extras, pace)
    };
    answer(flushes, &result);
}

/// Counts calls as lost while there is no journal. Transitions return to the queue. Waiting
/// callers get an error.
fn lose(queue: &JournalQueue, data: Gathered) {
    let lost_calls = data.new_calls.len() as u64;
    queue.tally.lost.fetch_add(lost_calls, Relaxed);
    queue.give_back(data.extras.transitions);
    for call in data.new_calls {
        call.close();
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        if thread::panicking() {
            tracing::error!("the journal's thread failed; calls are not on record from now on");
        }
        let queue = &self.opening.queue;
        queue.stop();
        for call in queue.gather(&mut 0, false).new_calls {
            call.close();
        }
        if let Some(work) = &mut self.work {
            work.close();
        }
    }
}
