//! The threads that write. One gathers what calls have left, and writes it where somebody waits for
//! that. All else it leaves to a second one, which runs only where nobody else wants the processor: a
//! call does not wait behind the record of another. Where that one is not let run, on a machine that
//! others keep busy, the first writes all for a while.

use std::{
    mem,
    path::Path,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::{
    JournalError,
    entry::Call,
    queue::{Gathered, Queue},
    store::Store,
    work::{Work, answer},
};

/// Calls that the patient thread writes in one go: while it does, and perhaps is not let run, nobody
/// else can write. A small part of a millisecond, of which it may get a hundredth where others compute.
const PIECE: usize = 16;
/// For how long calls may wait for it, and how many: a fraction of those for which there is room.
const PATIENCE: Duration = Duration::from_millis(50);
const MANY: usize = 8 * 1024;
/// For how long nothing is left to it when it was not let run.
const HURRY: Duration = Duration::from_secs(1);

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
    /// Since when the patient thread is to have a turn, or to have the next one.
    due_since: Option<Instant>,
    ended: bool,
}

impl Inbox {
    /// What has come; `is_busy` where there is something to do even if that is nothing.
    fn put(&mut self, begun: Vec<Arc<Call>>, is_busy: bool, now: Instant) {
        if is_busy || !begun.is_empty() {
            self.due_since.get_or_insert(now);
        }
        self.begun.extend(begun);
    }

    /// The oldest, so many at most.
    fn take(&mut self, most: usize) -> Vec<Arc<Call>> {
        let left = self.begun.split_off(self.begun.len().min(most));
        self.due_since = (!left.is_empty()).then(Instant::now);
        mem::replace(&mut self.begun, left)
    }

    /// Whether the patient thread does not keep up.
    fn is_too_much(&self, now: Instant) -> bool {
        let waited = self.due_since.is_some_and(|since| now - since > PATIENCE);
        waited || self.begun.len() > MANY
    }
}

impl Desk {
    fn gather(&self) {
        let _end = End(self);
        let (mut idle, mut hurry_until) = (0, None::<Instant>);
        loop {
            let Gathered {
                begun,
                flushes,
                keeps,
                asked,
                last,
            } = self.queue.gather(&mut idle, self.is_busy.load(Relaxed));
            let now = Instant::now();
            let is_too_much = {
                let mut inbox = self.inbox();
                inbox.put(begun, self.is_busy.load(Relaxed), now);
                inbox.is_too_much(now)
            };
            if is_too_much {
                hurry_until = Some(now + HURRY);
            }
            let hurries = hurry_until.is_some_and(|until| now < until);
            if self.has_patient.load(Relaxed) && !hurries && !asked && !last {
                self.wake.notify_one();
                continue;
            }
            let mut work = self.work();
            let begun = self.inbox().take(usize::MAX);
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
            while inbox.due_since.is_none() && !inbox.ended {
                let woken = self.wake.wait(inbox);
                inbox = woken.unwrap_or_else(PoisonError::into_inner);
            }
            if inbox.ended {
                return;
            }
            drop(inbox);
            let mut work = self.work();
            let begun = self.inbox().take(PIECE);
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
        let left = inbox.take(usize::MAX);
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
