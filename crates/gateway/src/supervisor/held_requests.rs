//! Holds a server's requests for roots while its client cannot be asked. A client of 2026-07-28 can
//! be asked only in results of its calls, and its first request is mostly for a list. The client's
//! next call asks the held requests first, and is sent to the server when the client has answered.
//! A request waits [`PATIENCE_WITH_PROGRAMS`] for a call, and as long for the answer.

use std::{
    convert::Infallible,
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use mainstay_core::era::questions::PATIENCE_WITH_PROGRAMS;
use mainstay_transport::{QuestionNote, ServerQuestion};
use parking_lot::Mutex;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};

/// Maximum number of held requests in a session. Further requests are refused.
const MAX_HELD: usize = 16;

/// The held requests of one session.
#[derive(Debug, Default)]
pub struct HeldRequests {
    waiting: Mutex<Vec<(Instant, ServerQuestion)>>,
    has_any: AtomicBool,
}

impl HeldRequests {
    pub fn has_any(&self) -> bool {
        self.has_any.load(Ordering::Relaxed)
    }

    /// Holds a request for the next call. The request is refused if no call comes in time.
    pub fn keep(self: &Arc<Self>, request: ServerQuestion) {
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
                drop(held.take_if(|limit| limit <= until));
            }
        });
    }

    /// Asks the client by means of a call, and waits until it has answered. Requests that the
    /// client cannot be asked are refused.
    pub async fn ask_by(&self, ask: impl Fn(ServerQuestion) -> Result<(), ServerQuestion>) {
        let (open, mut answered) = mpsc::channel(1);
        for mut request in self.take_if(|_| true) {
            request.set_note(Some(Box::new(Open {
                _open: open.clone(),
            })));
            drop(ask(request));
        }
        drop(open);
        timeout(PATIENCE_WITH_PROGRAMS, answered.recv()).await.ok();
    }

    fn take_if(&self, is_due: impl Fn(Instant) -> bool) -> Vec<ServerQuestion> {
        let mut waiting = self.waiting.lock();
        let requests = waiting
            .extract_if(.., |(until, _)| is_due(*until))
            .map(|(_, request)| request)
            .collect();
        self.has_any.store(!waiting.is_empty(), Ordering::Relaxed);
        requests
    }
}

/// Dropped together with its request, once that is answered or refused.
#[derive(Debug)]
struct Open {
    _open: mpsc::Sender<Infallible>,
}

impl QuestionNote for Open {}
