//! Long work on threads that may block.

use std::any::Any;

use tokio::task::{JoinError, JoinHandle};

/// The maximum size, in bytes, of a text that is processed on the runtime's threads. Processing this much
/// takes about half a millisecond, which is as long as a thread switch on a busy machine.
pub const LONG: usize = 64 * 1024;

type Output = Box<dyn Any + Send>;

/// Runs work that reads files or computes for long, without blocking this thread's tasks. Panics if the work
/// panics.
pub async fn off_the_runtime<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match try_off_the_runtime(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// Like [`off_the_runtime`], but returns an error if the work panicked, or if the runtime ended before the
/// work began.
pub async fn try_off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    let output = start(Box::new(move || Box::new(work()))).await?;
    let output = output.downcast().expect("the output is of the work's type");
    Ok(*output)
}

/// Does not depend on the type of the work, so that it is compiled once.
fn start(work: Box<dyn FnOnce() -> Output + Send>) -> JoinHandle<Output> {
    tokio::task::spawn_blocking(work)
}

/// Like [`off_the_runtime`] if the work processes more than [`LONG`] bytes of text. Otherwise runs the work
/// on this thread.
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
        for (bytes, is_here) in [(0, true), (LONG, true), (LONG + 1, false)] {
            let at = off_the_runtime_if_long(bytes, || thread::current().id()).await;
            assert_eq!(at == here, is_here, "{bytes}");
        }
    }

    #[tokio::test]
    async fn a_panic_of_the_work_is_an_error_or_the_callers() {
        let error = try_off_the_runtime(|| -> u8 { panic!("in the work") }).await;
        assert!(error.expect_err("it panicked").is_panic());
        let caller = tokio::spawn(off_the_runtime(|| -> u8 { panic!("in the work") }));
        let panic = caller.await.expect_err("it panicked").into_panic();
        assert_eq!(panic.downcast_ref(), Some(&"in the work"));
    }
}
