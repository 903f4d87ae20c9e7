//! The thread that writes.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    thread::{self, JoinHandle},
    time::Instant,
};

use mainstay_core::config::Durability;
use mainstay_journal::store::{Gathered, Queue};
use parking_lot::Mutex;

use super::{
    StoreError, gaps,
    opening::Opening,
    unwritten_gap::UnwrittenGap,
    work::{JournalTrouble, Pace, Work, answer},
};

#[derive(Debug)]
pub struct Writer {
    /// Taken when the thread is joined.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub fn start(opening: Opening) -> Result<Self, StoreError> {
        let mut desk = Desk {
            work: opening.begin()?,
            unwritten: None,
            tried: Instant::now(),
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

    /// Waits for the thread, which ends when its queue is stopped.
    pub fn join(&self) {
        let thread = {
            // Held to take it only.
            let mut thread = self.thread.lock();
            thread.take()
        };
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that writes the journal failed");
        }
    }
}

/// What the thread works with. However it ends, no caller is left waiting.
struct Desk {
    /// `None` while the journal cannot be opened.
    work: Option<Work>,
    /// What the database does not say of calls that are not on record. `None` until the journal was open.
    unwritten: Option<UnwrittenGap>,
    /// When opening was last tried.
    tried: Instant,
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
            let gathered = queue.gather(&mut idle, is_busy);
            let last = gathered.last;
            self.look();
            match self.work() {
                Some(work) => turn(work, gathered),
                None => lose(&queue, gathered),
            }
            self.keep_unwritten(last);
            if last {
                return;
            }
        }
    }

    /// The journal is open: the gap that an earlier run could not write is written with the next.
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

    /// Keeps beside the journal what it does not say: the gap that lasts, and the one before it.
    fn keep_unwritten(&mut self, is_last: bool) {
        let Some(unwritten) = &mut self.unwritten else {
            return;
        };
        let waiting = self.work.as_ref().and_then(Work::gap).cloned();
        let gap = match self.opening.queue.tally.outage() {
            Some(outage) if outage.lost > 0 => Some(gaps::join(waiting, gaps::of_outage(outage))),
            Some(_) | None => waiting,
        };
        unwritten.keep(gap, is_last);
    }

    /// In relaxed mode a journal that was removed or damaged while it was open makes room for a new one. In
    /// strict mode it is a person who decides, and calls are refused until then.
    fn look(&mut self) {
        let Some(JournalTrouble { words, is_damage }) = self.work.as_mut().and_then(Work::trouble)
        else {
            return;
        };
        let is_news = self.opening.queue.tally.failing(&words);
        if self.opening.settings.durability == Durability::Strict {
            if is_news {
                tracing::error!(
                    trouble = words,
                    "calls are refused until the journal is back; a restart begins a new one"
                );
            }
            return;
        }
        let Some(work) = self.work.take() else { return };
        tracing::error!(trouble = words, "the journal was lost; a new one is begun");
        work.give_up();
        self.work = self.opening.replace(is_damage);
        self.tried = Instant::now();
    }

    fn work(&mut self) -> Option<&mut Work> {
        if self.work.is_none() && self.tried.elapsed() >= self.opening.retry_after {
            self.work = self.opening.retry();
            self.tried = Instant::now();
            self.take_unwritten();
        }
        self.work.as_mut()
    }
}

fn turn(work: &mut Work, gathered: Gathered) {
    let Gathered {
        begun,
        flushes,
        extras,
        asked,
        last,
    } = gathered;
    let written = if last {
        work.end(begun, extras)
    } else {
        let pace = if asked { Pace::Swift } else { Pace::Polite };
        work.turn(begun, extras, pace)
    };
    answer(flushes, &written);
}

/// Without a journal calls are only counted, and changes of servers' statuses wait for one. A waiting caller learns that there will be no answer.
fn lose(queue: &Queue, gathered: Gathered) {
    let lost = gathered.begun.len() as u64;
    queue.tally.lost.fetch_add(lost, Relaxed);
    queue.give_back(gathered.extras.noted);
    for call in gathered.begun {
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
        for call in queue.gather(&mut 0, false).begun {
            call.close();
        }
        if let Some(work) = &mut self.work {
            work.close();
        }
    }
}
