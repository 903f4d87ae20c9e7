//! Work that takes long, on threads that may block.

use std::any::Any;

use tokio::task::{JoinError, JoinHandle};

/// Bytes of a text that is read or written elsewhere than on the runtime's threads. Reading so many takes about
/// half a millisecond, and so does a busy machine to change threads.
pub const LONG: usize = 64 * 1024;

type Output = Box<dyn Any + Send>;

/// Does what reads files, or computes for long, without holding up the tasks of this thread. Panics if the
/// work does.
pub async fn off_the_runtime<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match try_off_the_runtime(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// The same. The error says that the work panicked, or that the runtime ended before it began.
pub async fn try_off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    let output = start(Box::new(move || Box::new(work()))).await?;
    let output = output.downcast().expect("the output is of the work's type");
    Ok(*output)
}

/// The runtime's part is compiled once, for it does not know the work's type.
fn start(work: Box<dyn FnOnce() -> Output + Send>) -> JoinHandle<Output> {
    tokio::task::spawn_blocking(work)
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

    #[tokio::test]
    async fn a_panic_of_the_work_is_an_error_or_the_callers() {
        let error = try_off_the_runtime(|| -> u8 { panic!("in the work") }).await;
        assert!(error.expect_err("it panicked").is_panic());
        let caller = tokio::spawn(off_the_runtime(|| -> u8 { panic!("in the work") }));
        let panic = caller.await.expect_err("it panicked").into_panic();
        assert_eq!(panic.downcast_ref(), Some(&"in the work"));
    }
}
