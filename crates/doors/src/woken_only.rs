//! Polls a future that is seldom ready beside one that is polled all the time. The rare one is polled
//! only when it has been woken.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use parking_lot::{Mutex, MutexGuard};

/// Polls its future only when that one itself has been woken, and not whenever its task is. Timers and
/// tokens reorder their wakers each time they are polled, which a connection does for every call.
pub struct WokenOnly<F> {
    future: Pin<Box<F>>,
    calls: Arc<Calls>,
    waker: Waker,
    /// The task that `calls` knows.
    task: Waker,
}

/// Whether the future has been woken, and the task that polls it.
#[derive(Debug)]
struct Calls {
    due: AtomicBool,
    task: Mutex<Waker>,
}

impl Calls {
    fn task(&self) -> MutexGuard<'_, Waker> {
        // Held for a copy or a call, never across an await.
        self.task.lock()
    }
}

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.due.store(true, Ordering::Release);
        self.task().wake_by_ref();
    }
}

impl<F> WokenOnly<F> {
    pub fn new(future: F) -> Self {
        let calls = Arc::new(Calls {
            due: AtomicBool::new(true),
            task: Mutex::new(Waker::noop().clone()),
        });
        Self {
            future: Box::pin(future),
            waker: Arc::clone(&calls).into(),
            calls,
            task: Waker::noop().clone(),
        }
    }
}

impl<F: Future> Future for WokenOnly<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        if !this.task.will_wake(context.waker()) {
            // Before the look at `due`: a call after it wakes the new task.
            this.task.clone_from(context.waker());
            this.calls.task().clone_from(context.waker());
        }
        if !this.calls.due.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        this.calls.due.store(false, Ordering::Release);
        this.future
            .as_mut()
            .poll(&mut Context::from_waker(&this.waker))
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, time::Duration};

    use tokio::{
        sync::oneshot,
        time::{sleep, timeout},
    };

    use super::*;

    /// A future that counts how often it is polled until `told`.
    fn counted(
        told: oneshot::Receiver<()>,
        polls: &mut u32,
    ) -> WokenOnly<impl Future<Output = u32>> {
        let mut told = Box::pin(told);
        WokenOnly::new(poll_fn(move |context| {
            *polls += 1;
            told.as_mut().poll(context).map(|_| *polls)
        }))
    }

    #[tokio::test]
    async fn it_is_polled_when_it_calls_and_only_then() {
        let (tell, told) = oneshot::channel();
        let mut polls = 0;
        let mut woken_only = counted(told, &mut polls);
        for _ in 0..10 {
            assert!(futures_util::poll!(&mut woken_only).is_pending());
        }
        tell.send(()).expect("it waits");
        assert_eq!(woken_only.await, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn it_calls_as_often_as_it_has_to() {
        let woken_only = WokenOnly::new(async {
            for _ in 0..5 {
                sleep(Duration::from_secs(1)).await;
            }
        });
        let waited = timeout(Duration::from_secs(6), woken_only).await;
        waited.expect("every one of its calls is heard");
    }

    #[tokio::test]
    async fn it_wakes_whichever_task_polls_it_last() {
        let (tell, told) = oneshot::channel::<()>();
        let mut woken_only = WokenOnly::new(told);
        assert!(futures_util::poll!(&mut woken_only).is_pending());
        let waiting = tokio::spawn(timeout(Duration::from_secs(5), woken_only));
        // On one thread: the new task has polled it when we go on.
        tokio::task::yield_now().await;
        tell.send(()).expect("it waits");
        waiting
            .await
            .expect("no panic")
            .expect("in time")
            .expect("told");
    }
}
