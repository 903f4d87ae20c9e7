//! A future that continues when it is dropped.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::{FutureExt as _, future::BoxFuture};
use tokio_util::task::TaskTracker;

/// A future that continues in the background when it is dropped. Boxed, because the nested types of
/// whole calls are slow to compile.
pub struct Detachable<T: Send + 'static> {
    future: Option<BoxFuture<'static, T>>,
    background: TaskTracker,
}

impl<T: Send + 'static> Detachable<T> {
    pub(super) fn new(future: BoxFuture<'static, T>, background: TaskTracker) -> Self {
        Self {
            future: Some(future),
            background,
        }
    }
}

impl<T: Send + 'static> Future for Detachable<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let future = self
            .future
            .as_mut()
            .expect("a finished future is not polled again");
        let output = std::task::ready!(future.as_mut().poll(context));
        self.future = None;
        Poll::Ready(output)
    }
}

impl<T: Send + 'static> Drop for Detachable<T> {
    fn drop(&mut self) {
        let Some(future) = self.future.take() else {
            return;
        };
        // Without a runtime, the future cannot continue.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let rest = async move { drop(future.await) };
            self.background.spawn_on(rest.boxed(), &runtime);
        }
    }
}
