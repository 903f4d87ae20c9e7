//! The thread that writes the logs of all servers.

use std::{collections::HashMap, io, path::PathBuf, sync::Arc, thread};

use mainstay_core::ids::ServerName;
use mainstay_platform::blocking::try_off_the_runtime;
use parking_lot::Mutex;

use super::{
    log_file::{LogFile, Redaction},
    wake::Wake,
};

type Files = HashMap<PathBuf, Arc<LogFile>>;

#[derive(Debug)]
pub struct Writer {
    files: Arc<Mutex<Files>>,
    wake: Arc<Wake>,
    /// `None` once the thread is joined.
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

    /// Returns the file at this path. A server that is removed and added again continues its file.
    pub fn open(
        &self,
        path: PathBuf,
        server: Option<ServerName>,
        redaction: Redaction,
    ) -> Arc<LogFile> {
        // Locked for the lookup only.
        let mut files = self.files.lock();
        let file = files.entry(path).or_insert_with_key(|path| {
            let wake = Arc::clone(&self.wake);
            Arc::new(LogFile::new(path.clone(), server, wake, redaction))
        });
        Arc::clone(file)
    }

    /// Writes the queued lines and ends the thread.
    pub async fn close(&self) {
        self.wake.stop();
        let thread = {
            // Locked for a moment only.
            let mut thread = self.thread.lock();
            thread.take()
        };
        let Some(thread) = thread else { return };
        // Join on a blocking thread: a disk that hangs must not block the runtime.
        let joined = try_off_the_runtime(move || thread.join()).await;
        if !matches!(joined, Ok(Ok(()))) {
            tracing::error!("the thread that writes the logs failed");
        }
    }
}

impl Drop for Writer {
    /// Ends the thread if the writer was not closed, for example after a second signal.
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
