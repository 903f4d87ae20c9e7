//! Requests of a server for roots that came while its client could not be asked: a client of 2026-07-28 is asked by
//! the answers to its calls, and its first request is mostly for a list. Its next call asks first, and is sent when
//! the client has answered. A request waits [`PATIENCE_WITH_PROGRAMS`] for a call, and as long for the answer.

use std::{
    convert::Infallible,
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use mainstay_core::era::questions::PATIENCE_WITH_PROGRAMS;
use mainstay_transport::{Note, Question};
use parking_lot::Mutex;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};

/// Requests that wait; those of a server that makes more are refused.
const MAX_HELD: usize = 16;

/// Those of one session.
#[derive(Debug, Default)]
pub struct HeldRequests {
    waiting: Mutex<Vec<(Instant, Question)>>,
    has_any: AtomicBool,
}

impl HeldRequests {
    pub fn has_any(&self) -> bool {
        self.has_any.load(Ordering::Relaxed)
    }

    /// Keeps a request for the next call. It is refused if none comes in time.
    pub fn keep(self: &Arc<Self>, request: Question) {
        let until = Instant::now() + PATIENCE_WITH_PROGRAMS;
        {
            let mut waiting = self.waiting.lock();
            if waiting.len() >= MAX_HELD {
                return;
            }
            waiting.push((until, request));
            self.has_any.store(true, Ordering::Relaxed);
        }
        let held = Arc::downgrade(self);
        tokio::spawn(async move {
            sleep_until(until).await;
            if let Some(held) = held.upgrade() {
                drop(held.take(|limit| limit <= until));
            }
        });
    }

    /// Has a call ask its client, and waits until it has answered. What it cannot be asked is refused.
    pub async fn ask_by(&self, ask: impl Fn(Question) -> Result<(), Question>) {
        let (open, mut answered) = mpsc::channel(1);
        for mut request in self.take(|_| true) {
            request.noted(Some(Box::new(Open {
                _open: open.clone(),
            })));
            drop(ask(request));
        }
        drop(open);
        timeout(PATIENCE_WITH_PROGRAMS, answered.recv()).await.ok();
    }

    fn take(&self, is_meant: impl Fn(Instant) -> bool) -> Vec<Question> {
        let mut waiting = self.waiting.lock();
        let taken = waiting.extract_if(.., |(until, _)| is_meant(*until));
        let taken = taken.map(|(_, request)| request).collect();
        self.has_any.store(!waiting.is_empty(), Ordering::Relaxed);
        taken
    }
}

/// Dropped with its request, once that is answered or refused.
#[derive(Debug)]
struct Open {
    _open: mpsc::Sender<Infallible>,
}

impl Note for Open {}
