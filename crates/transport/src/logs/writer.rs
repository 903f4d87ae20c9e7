//! The thread that writes the logs of all servers, and how it is woken.

use std::{collections::HashMap, io, path::PathBuf, sync::Arc, thread, time::Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::log_file::{LogFile, Redaction};

type Files = HashMap<PathBuf, Arc<LogFile>>;

#[derive(Debug)]
pub struct Writer {
    files: Arc<Mutex<Files>>,
    wake: Arc<Wake>,
    /// Taken when the thread is joined.
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl Writer {
    pub fn start() -> io::Result<Self> {
        let files = Arc::<Mutex<Files>>::default();
        let wake = Arc::<Wake>::default();
        let thread = thread::Builder::new().name("logs".to_owned()).spawn({
            let (files, wake) = (Arc::clone(&files), Arc::clone(&wake));
            move || run(&files, &wake)
        })?;
        Ok(Self {
            files,
            wake,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// The file of this path: a server that is removed and comes back goes on with its own.
    pub fn open(&self, path: PathBuf, redaction: Redaction) -> Arc<LogFile> {
        // Held for the lookup only.
        let mut files = self.files.lock();
        let file = files.entry(path).or_insert_with_key(|path| {
            let wake = Arc::clone(&self.wake);
            Arc::new(LogFile::new(path.clone(), wake, redaction))
        });
        Arc::clone(file)
    }

    /// Writes what is left.
    pub async fn close(&self) {
        self.wake.stop();
        let thread = {
            // Held to take it only.
            let mut thread = self.thread.lock();
            thread.take()
        };
        let Some(thread) = thread else { return };
        // Not joined here: a disk that hangs must not hang the runtime.
        let joined = tokio::task::spawn_blocking(move || thread.join()).await;
        if !matches!(joined, Ok(Ok(()))) {
            tracing::error!("the thread that writes the logs failed");
        }
    }
}

impl Drop for Writer {
    /// If it was not closed, as after a second signal, it ends by itself.
    fn drop(&mut self) {
        self.wake.stop();
    }
}

fn run(files: &Mutex<Files>, wake: &Wake) {
    loop {
        let stopping = wake.wait();
        let files: Vec<Arc<LogFile>> = {
            let files = files.lock();
            files.values().cloned().collect()
        };
        if stopping {
            for file in &files {
                file.flush();
            }
            return;
        }
        let next = files.iter().filter_map(|file| file.flush_if_due()).min();
        if let Some(next) = next {
            wake.by(next);
        }
    }
}

/// When the writer is to look at its files.
#[derive(Debug, Default)]
pub struct Wake {
    due: Mutex<Due>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Due {
    #[default]
    Never,
    At(Instant),
    Stop,
}

impl Wake {
    fn due(&self) -> MutexGuard<'_, Due> {
        self.due.lock()
    }

    fn update(&self, change: impl FnOnce(&mut Due)) {
        // Held for the comparison only.
        let mut due = self.due();
        let before = *due;
        change(&mut due);
        if *due != before {
            self.changed.notify_one();
        }
    }

    /// Asks for a look at this time, or sooner.
    pub fn by(&self, at: Instant) {
        self.update(|due| match *due {
            Due::Never => *due = Due::At(at),
            Due::At(sooner) => *due = Due::At(sooner.min(at)),
            Due::Stop => {}
        });
    }

    fn stop(&self) {
        self.update(|due| *due = Due::Stop);
    }

    /// Sleeps until there is something to do; `true` if that is the last time.
    fn wait(&self) -> bool {
        let mut due = self.due();
        loop {
            let now = Instant::now();
            match *due {
                Due::Stop => return true,
                Due::At(at) if at <= now => {
                    *due = Due::Never;
                    return false;
                }
                Due::At(at) => drop(self.changed.wait_until(&mut due, at)),
                Due::Never => self.changed.wait(&mut due),
            }
        }
    }
}
