//! Signs of work of a process before its handshake.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use mainstay_core::start::StartSample;

use crate::process::cpu;

/// Signs of work of one start. The transport writes them, and the pacing of starts reads them.
#[derive(Debug, Default)]
pub struct SignsOfWork {
    /// The id of the process. 0 before the start.
    pid: AtomicU32,
    stderr_bytes: AtomicU64,
}

impl SignsOfWork {
    /// Sets the id of the started process.
    pub(super) fn started(&self, pid: Option<u32>) {
        self.pid.store(pid.unwrap_or_default(), Ordering::Relaxed);
    }

    /// Counts bytes from the stderr of the process.
    pub(super) fn stderr(&self, bytes: usize) {
        self.stderr_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The current signs of work. Reads /proc on a blocking thread.
    pub async fn look(&self) -> StartSample {
        let tree = match self.pid.load(Ordering::Relaxed) {
            0 => None,
            pid => cpu::tree(pid).await,
        };
        StartSample {
            tree,
            stderr_bytes: self.stderr_bytes.load(Ordering::Relaxed),
        }
    }
}
