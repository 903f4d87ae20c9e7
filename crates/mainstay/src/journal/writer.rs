//! The threads that write. One gathers what calls have left, and writes it where somebody waits for
//! that. All else it leaves to a second one, which runs only where nobody else wants the processor: a
//! call does not wait behind the record of another. Where that one does not keep up, on a machine that
//! others keep busy, the first writes all.

use std::{
    mem,
    path::Path,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
};

use super::{
    JournalError,
    entry::Call,
    queue::{Gathered, Queue},
    store::Store,
    work::{Work, answer},
};

/// Calls that the patient thread writes in one go: while it does, and perhaps is not let run, nobody
/// else can write. Two milliseconds of its time.
const PIECE: usize = 256;
/// Calls that may wait for it: a fraction of those for which there is room, and of a second at
/// saturation.
const PATIENCE: usize = 8 * 1024;

#[derive(Debug)]
pub struct Writer {
    /// Taken by whoever joins them.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Writer {
    pub fn start(state: &Path, store: Store, queue: Arc<Queue>) -> Result<Self, JournalError> {
        let desk = Arc::new(Desk {
            work: Mutex::new(Work::new(store, Arc::clone(&queue))?),
            inbox: Mutex::default(),
            wake: Condvar::new(),
            is_busy: AtomicBool::new(true),
            has_patient: AtomicBool::new(false),
            queue,
        });
        let spawn = |name: &str, run: fn(&Desk)| {
            let desk = Arc::clone(&desk);
            thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || run(&desk))
                .map_err(|source| JournalError::Io {
                    path: state.to_owned(),
                    source,
                })
        };
        let mut threads = vec![spawn("journal", Desk::gather)?];
        // In strict mode somebody always waits.
        if !desk.queue.is_strict() {
            threads.push(spawn("journal-patient", Desk::write_patiently)?);
        }
        Ok(Self {
            threads: Mutex::new(threads),
        })
    }

    pub async fn join(&self) {
        let threads = {
            // Held to take them only.
            let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
            mem::take(&mut *threads)
        };
        for thread in threads {
            // Not joined here: a disk that hangs must not hang the runtime.
            let joined = tokio::task::spawn_blocking(move || thread.join()).await;
            if !matches!(joined, Ok(Ok(()))) {
                tracing::error!("a thread that writes the journal failed");
            }
        }
    }
}

/// What the threads share. Whoever takes calls from the inbox has the work already, so that they are
/// written in order, and whoever waits for all of them waits for no others.
struct Desk {
    queue: Arc<Queue>,
    inbox: Mutex<Inbox>,
    /// Something came into the inbox.
    wake: Condvar,
    work: Mutex<Work>,
    /// There is something to look after though nothing comes.
    is_busy: AtomicBool,
    /// There is a thread that can be left to it.
    has_patient: AtomicBool,
}

#[derive(Default)]
struct Inbox {
    begun: Vec<Arc<Call>>,
    /// The patient thread is to have a turn.
    is_due: bool,
    ended: bool,
}

impl Desk {
    fn gather(&self) {
        let _end = End(self);
        let mut idle = 0;
        loop {
            let Gathered {
                begun,
                flushes,
                keeps,
                asked,
                last,
            } = self.queue.gather(&mut idle, self.is_busy.load(Relaxed));
            let waiting = {
                let mut inbox = self.inbox();
                inbox.begun.extend(begun);
                inbox.is_due = !inbox.begun.is_empty() || self.is_busy.load(Relaxed);
                inbox.begun.len()
            };
            let is_patient = self.has_patient.load(Relaxed) && waiting <= PATIENCE;
            if is_patient && !asked && !last {
                self.wake.notify_one();
                continue;
            }
            let mut work = self.work();
            let begun = mem::take(&mut self.inbox().begun);
            if last {
                answer(flushes, &work.end(begun, keeps));
                break;
            }
            answer(flushes, &work.turn(begun, keeps));
            self.is_busy.store(work.is_busy(), Relaxed);
        }
    }

    fn write_patiently(&self) {
        // Where the system knows no such thing, or forbids it, the other thread writes.
        if !give_way() {
            return;
        }
        self.has_patient.store(true, Relaxed);
        loop {
            let mut inbox = self.inbox();
            while !inbox.is_due && !inbox.ended {
                let woken = self.wake.wait(inbox);
                inbox = woken.unwrap_or_else(PoisonError::into_inner);
            }
            if inbox.ended {
                return;
            }
            drop(inbox);
            let mut work = self.work();
            let begun: Vec<_> = {
                let mut inbox = self.inbox();
                let piece = inbox.begun.len().min(PIECE);
                inbox.is_due = piece < inbox.begun.len();
                inbox.begun.drain(..piece).collect()
            };
            // Nobody waits for it; what went wrong has been told.
            let _ = work.turn(begun, Vec::new());
            self.is_busy.store(work.is_busy(), Relaxed);
        }
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        // Held to put calls in and to take them out.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        // Held for a turn. A turn that panicked has left a transaction open, and the next one fails.
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// However the first thread ends, nobody is left waiting.
struct End<'d>(&'d Desk);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let Self(desk) = self;
        desk.queue.stop();
        let rest = desk.queue.gather(&mut 0, false).begun;
        let mut inbox = desk.inbox();
        inbox.ended = true;
        let left = mem::take(&mut inbox.begun);
        drop(inbox);
        desk.wake.notify_one();
        for call in left.into_iter().chain(rest) {
            call.close();
        }
        desk.work().close();
    }
}

/// From now on this thread runs only where no other wants to; says whether that can be had.
#[cfg(target_os = "linux")]
fn give_way() -> bool {
    use thread_priority::{
        NormalThreadSchedulePolicy::Idle, ThreadPriority, ThreadSchedulePolicy::Normal,
        set_thread_priority_and_policy, thread_native_id,
    };
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, Normal(Idle)).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn give_way() -> bool {
    false
}
