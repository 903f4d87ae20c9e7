//! Work that runs to its end, even if its caller stops waiting.

use std::{
    any::Any,
    marker::PhantomData,
    panic::resume_unwind,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_util::future::BoxFuture;
use mainstay_core::failure::Failure;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

type Output = Box<dyn Any + Send>;

/// Started work, which runs to its end even if this future is dropped. The future returns the
/// work's output, and panics if the work panics.
///
/// The output is boxed as `Any`, so that all work has the same type of task, which is compiled only
/// once.
#[derive(Debug)]
pub struct RunToEnd<T> {
    task: JoinHandle<Output>,
    output: PhantomData<fn() -> T>,
}

/// A running change of the registry.
pub type Changing<T> = RunToEnd<Result<T, Failure>>;

impl<T: Send + 'static> RunToEnd<T> {
    pub(super) fn begin(
        tasks: &TaskTracker,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Self {
        let work: BoxFuture<'static, Output> =
            Box::pin(async move { Box::new(work.await) as Output });
        Self {
            task: tasks.spawn(work),
            output: PhantomData,
        }
    }
}

impl<T: 'static> Future for RunToEnd<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let output = match ready!(Pin::new(&mut self.task).poll(context)) {
            Ok(output) => output.downcast(),
            Err(error) => resume_unwind(error.into_panic()),
        };
        Poll::Ready(*output.expect("the output is of the work's type"))
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn what_is_not_awaited_ends_too() {
        let tasks = TaskTracker::new();
        let (sender, receiver) = oneshot::channel();
        drop(RunToEnd::begin(&tasks, async move { sender.send(7) }));
        assert_eq!(receiver.await, Ok(7));
    }

    #[tokio::test]
    #[should_panic(expected = "the work's own words")]
    async fn a_panic_of_the_work_is_the_callers() {
        RunToEnd::begin(&TaskTracker::new(), async {
            panic!("the work's own words")
        })
        .await
    }
}
