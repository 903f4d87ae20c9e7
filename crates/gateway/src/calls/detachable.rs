//! A future that survives the task that awaits it.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use tokio_util::task::TaskTracker;

/// A future that goes on in the background when it is dropped.
pub struct Detachable<F>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    future: Option<Pin<Box<F>>>,
    background: TaskTracker,
}

impl<F> Detachable<F>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    pub(super) fn new(future: F, background: TaskTracker) -> Self {
        Self {
            future: Some(Box::pin(future)),
            background,
        }
    }
}

impl<F> Future for Detachable<F>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let future = self
            .future
            .as_mut()
            .expect("a finished future is not polled again");
        let output = std::task::ready!(future.as_mut().poll(context));
        self.future = None;
        Poll::Ready(output)
    }
}

impl<F> Drop for Detachable<F>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn drop(&mut self) {
        let Some(future) = self.future.take() else {
            return;
        };
        // Outside a runtime there is nothing left to run it on.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            self.background
                .spawn_on(async move { drop(future.await) }, &runtime);
        }
    }
}
