//! The thread that writes.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
};

use super::{
    JournalError,
    queue::{Gathered, Queue},
    store::Store,
    work::{Pace, Work, answer},
};

#[derive(Debug)]
pub struct Writer {
    /// Taken by whoever joins it.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub fn start(state: &Path, store: Store, queue: Arc<Queue>) -> Result<Self, JournalError> {
        let work = Work::new(store, Arc::clone(&queue))?;
        let thread = thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || write(work, &queue))
            .map_err(|source| JournalError::Io {
                path: state.to_owned(),
                source,
            })?;
        Ok(Self {
            thread: Mutex::new(Some(thread)),
        })
    }

    pub async fn join(&self) {
        let thread = {
            // Held to take it only.
            let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
            thread.take()
        };
        if let Some(thread) = thread {
            // Not joined here: a disk that hangs must not hang the runtime.
            let joined = tokio::task::spawn_blocking(move || thread.join()).await;
            if !matches!(joined, Ok(Ok(()))) {
                tracing::error!("the thread that writes the journal failed");
            }
        }
    }
}

fn write(work: Work, queue: &Queue) {
    let mut desk = Desk { work, queue };
    let mut idle = 0;
    loop {
        let Gathered {
            begun,
            flushes,
            keeps,
            asked,
            last,
        } = queue.gather(&mut idle, desk.work.is_busy());
        if last {
            answer(flushes, &desk.work.end(begun, keeps));
            return;
        }
        let pace = if asked { Pace::Swift } else { Pace::Polite };
        answer(flushes, &desk.work.turn(begun, keeps, pace));
    }
}

/// However the thread ends, nobody is left waiting.
struct Desk<'q> {
    work: Work,
    queue: &'q Queue,
}

impl Drop for Desk<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            tracing::error!("the journal's thread failed; calls are not on record from now on");
        }
        self.queue.stop();
        for call in self.queue.gather(&mut 0, false).begun {
            call.close();
        }
        self.work.close();
    }
}
