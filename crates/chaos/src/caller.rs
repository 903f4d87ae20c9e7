//! Callers that call the servers steadily, and the results of the calls.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{sleep, timeout_at},
};

use crate::peer::{CallError, PeerTarget, PlainPeer};

/// Pause between the calls of one caller to one server.
const PERIOD: Duration = Duration::from_millis(400);

/// Maximum time until Mainstay answers: its own time limit, and some slack.
pub const CALL_LIMIT: Duration = Duration::from_secs(4);

/// Pause after a failed call. No real caller calls a dead server as fast as a live one.
const PAUSE: Duration = Duration::from_millis(400);

/// A line to a server. Its peer is opened at the first call, and again after a loss.
pub struct CallLine {
    pub target: PeerTarget,
    peer: tokio::sync::Mutex<Option<Arc<PlainPeer>>>,
}

impl CallLine {
    pub fn new(target: PeerTarget) -> Self {
        Self {
            target,
            peer: tokio::sync::Mutex::default(),
        }
    }

    /// Calls a tool, within `limit`.
    pub async fn call(
        &self,
        tool: &str,
        arguments: &Value,
        limit: Duration,
    ) -> Result<Value, CallError> {
        let end = Instant::now() + limit;
        let opened = timeout_at(end.into(), self.peer()).await;
        let peer = opened.unwrap_or(Err(CallError::Late));
        let peer = peer.map_err(|trouble| CallError::NoSession(trouble.to_string()))?;
        let called = timeout_at(end.into(), peer.call(tool, arguments));
        let outcome = called.await.unwrap_or(Err(CallError::Late));
        if matches!(outcome, Err(CallError::Lost(_))) {
            self.hang_up().await;
        }
        outcome
    }

    async fn peer(&self) -> Result<Arc<PlainPeer>, CallError> {
        let mut peer = self.peer.lock().await;
        if let Some(peer) = &*peer {
            return Ok(Arc::clone(peer));
        }
        let opened = Arc::new(PlainPeer::open(&self.target).await?);
        *peer = Some(Arc::clone(&opened));
        Ok(opened)
    }

    pub async fn hang_up(&self) {
        *self.peer.lock().await = None;
    }
}

/// The route of a caller to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Door {
    /// `/mcp`
    Http,
    /// `/sse`
    Sse,
    /// `/servers/<name>/mcp`
    Transparent,
    /// Directly, without Mainstay.
    Direct,
}

impl Door {
    /// The door's name in records.
    pub fn recorded(self) -> &'static str {
        match self {
            Self::Sse => "mcp_sse",
            Self::Http | Self::Transparent | Self::Direct => "mcp_http",
        }
    }
}

/// A call and its result.
#[derive(Debug)]
pub struct TimedCall {
    pub server: usize,
    pub door: Door,
    pub started_at: Instant,
    pub duration: Duration,
    pub key: u64,
    pub outcome: Result<(), CallError>,
}

impl TimedCall {
    /// True if the call was sent.
    pub fn was_sent(&self) -> bool {
        !matches!(self.outcome, Err(CallError::NoSession(_)))
    }
}

/// The calls of all callers.
#[derive(Default)]
pub struct Ledger {
    // The lock is held only for a push.
    calls: Mutex<Vec<TimedCall>>,
    keys: AtomicU64,
}

impl Ledger {
    pub fn take(&self) -> Vec<TimedCall> {
        std::mem::take(&mut *self.calls.lock())
    }
}

pub struct Caller {
    pub server: usize,
    pub door: Door,
    pub tool: String,
    pub line: Arc<CallLine>,
    pub ledger: Arc<Ledger>,
}

impl Caller {
    /// Calls until it is stopped.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        // Spread the starts of the callers.
        sleep(PERIOD.mul_f64((self.server * 7 % 20) as f64 / 20.0)).await;
        loop {
            let failed = self.call().await;
            let pause = if failed { PERIOD + PAUSE } else { PERIOD };
            tokio::select! {
                () = sleep(pause) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    async fn call(&self) -> bool {
        let key = self.ledger.keys.fetch_add(1, Ordering::Relaxed);
        let arguments = json!({"text": "hello", "key": format!("k{key}")});
        let started_at = Instant::now();
        let outcome = self.line.call(&self.tool, &arguments, CALL_LIMIT).await;
        let outcome = outcome.and_then(|result| {
            if result["structuredContent"] == arguments {
                Ok(())
            } else {
                Err(CallError::Refused(format!(
                    "somebody else's answer: {result}"
                )))
            }
        });
        let failed = outcome.is_err();
        if self.door == Door::Direct && matches!(outcome, Err(CallError::Late)) {
            // A plain client does not recover, so open a new one.
            self.line.hang_up().await;
        }
        let call = TimedCall {
            server: self.server,
            door: self.door,
            started_at,
            duration: started_at.elapsed(),
            key,
            outcome,
        };
        self.ledger.calls.lock().push(call);
        failed
    }
}
