//! Work that takes long, on threads that may block.

/// Bytes of a text that is read or written elsewhere than on the runtime's threads. Reading so many takes about
/// half a millisecond, and so does a busy machine to change threads.
pub const LONG: usize = 64 * 1024;

/// Does what reads files, or computes for long, without holding up the tasks of this thread.
pub async fn off_the_runtime<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// The same where the work is about so many bytes of text that it may hold up others; else does it here.
pub async fn off_the_runtime_if_long<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if bytes <= LONG {
        work()
    } else {
        off_the_runtime(work).await
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn long_work_alone_changes_threads() {
        let here = thread::current().id();
        for (bytes, stays) in [(0, true), (LONG, true), (LONG + 1, false)] {
            let at = off_the_runtime_if_long(bytes, || thread::current().id()).await;
            assert_eq!(at == here, stays, "{bytes}");
        }
    }
}
