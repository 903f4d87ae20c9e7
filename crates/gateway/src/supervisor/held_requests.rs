//! Holds a server's `roots/list` requests while its client cannot be asked. A client of 2026-07-28
//! can be asked only in results of its calls, and its first request is usually for a list. The
//! client's next call puts the held requests to the client, and is sent to the server when the client
//! has answered. A request waits up to [`PATIENCE_WITH_PROGRAMS`] for a call, and again for the
//! answer.

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

/// Maximum number of held requests of a session. Further requests are refused.
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

    /// Holds a request until the next call. Refuses it if no call comes in time.
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

    /// Puts the held requests to the client by `ask`, and waits until it has answered. Refuses
    /// requests that the client cannot be asked.
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

/// A note on an open request. It is dropped with the request, when that is answered or refused.
#[derive(Debug)]
struct Open {
    _open: mpsc::Sender<Infallible>,
}

impl QuestionNote for Open {}
