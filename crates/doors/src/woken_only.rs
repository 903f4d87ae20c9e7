//! Polls a future only when it has been woken. For futures that are rarely ready.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use parking_lot::{Mutex, MutexGuard};

/// Polls its future only after the future's own waker was called. Timers and tokens store their
/// waker again at each poll. A connection is polled for every call, so that would cost time.
pub struct WokenOnly<F> {
    future: Pin<Box<F>>,
    wakeups: Arc<Wakeups>,
    waker: Waker,
    /// A copy of the task in `wakeups`, to compare without a lock.
    task: Waker,
}

/// The future's wake-up flag, and the task to wake.
#[derive(Debug)]
struct Wakeups {
    due: AtomicBool,
    task: Mutex<Waker>,
}

impl Wakeups {
    fn task(&self) -> MutexGuard<'_, Waker> {
        // Locked for a copy or a call, never across an await.
        self.task.lock()
    }
}

impl Wake for Wakeups {
    fn wake(self: Arc<Self>) {
        self.due.store(true, Ordering::Release);
        self.task().wake_by_ref();
    }
}

impl<F> WokenOnly<F> {
    pub fn new(future: F) -> Self {
        let wakeups = Arc::new(Wakeups {
            due: AtomicBool::new(true),
            task: Mutex::new(Waker::noop().clone()),
        });
        Self {
            future: Box::pin(future),
            waker: Arc::clone(&wakeups).into(),
            wakeups,
            task: Waker::noop().clone(),
        }
    }
}

impl<F: Future> Future for WokenOnly<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        if !this.task.will_wake(context.waker()) {
            // Store the task before reading `due`. Otherwise, a wake-up could be missed.
            this.task.clone_from(context.waker());
            this.wakeups.task().clone_from(context.waker());
        }
        if !this.wakeups.due.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        this.wakeups.due.store(false, Ordering::Release);
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

    /// A future that counts its polls and returns the count when `signal` resolves.
    fn counted(
        signal: oneshot::Receiver<()>,
        polls: &mut u32,
    ) -> WokenOnly<impl Future<Output = u32>> {
        let mut signal = Box::pin(signal);
        WokenOnly::new(poll_fn(move |context| {
            *polls += 1;
            signal.as_mut().poll(context).map(|_| *polls)
        }))
    }

    #[tokio::test]
    async fn the_future_is_polled_only_after_a_wake_up() {
        let (tell, signal) = oneshot::channel();
        let mut polls = 0;
        let mut woken_only = counted(signal, &mut polls);
        for _ in 0..10 {
            assert!(futures_util::poll!(&mut woken_only).is_pending());
        }
        tell.send(()).expect("it waits");
        assert_eq!(woken_only.await, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn the_task_is_woken_for_each_signal() {
        let woken_only = WokenOnly::new(async {
            for _ in 0..5 {
                sleep(Duration::from_secs(1)).await;
            }
        });
        let wait_result = timeout(Duration::from_secs(6), woken_only).await;
        wait_result.expect("every one of its calls is heard");
    }

    #[tokio::test]
    async fn the_last_polling_task_is_woken() {
        let (tell, signal) = oneshot::channel::<()>();
        let mut woken_only = WokenOnly::new(signal);
        assert!(futures_util::poll!(&mut woken_only).is_pending());
        let waiting_task = tokio::spawn(timeout(Duration::from_secs(5), woken_only));
        // The test has one thread, so the new task runs here until it waits.
        tokio::task::yield_now().await;
        tell.send(()).expect("it waits");
        waiting_task
            .await
            .expect("no panic")
            .expect("in time")
            .expect("told");
    }
}
