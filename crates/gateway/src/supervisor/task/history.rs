//! Records the changes of the server's status in the journal.

use mainstay_core::{
    lifecycle::{SessionState, SessionStatus},
    message,
};
use mainstay_journal::Transition;
use tokio::time::Instant;

use super::Task;
use crate::supervisor::kept_down::KeptDown;

/// Maximum number of stderr lines in a transition, and of bytes in each line.
const STDERR_LINES: usize = 3;
const MAX_LINE: usize = 200;
/// Maximum number of bytes of the reason.
const MAX_REASON: usize = 500;

/// The status word of a removed server.
const REMOVED: &str = "removed";

/// The status that was recorded last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedStatus {
    word: &'static str,
    degraded: bool,
}

/// The exit of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
}

impl Task {
    /// Records the status if its word has changed, or if it became degraded or is no longer degraded.
    pub(super) fn record_status(&mut self, status: &SessionStatus) {
        if !self.fleet.history.is_open() {
            return;
        }
        let kept_down = KeptDown::for_config(&self.config);
        let word = match kept_down {
            Some(KeptDown::Unapproved) => KeptDown::Unapproved.as_str(),
            Some(KeptDown::Disabled) | None => status.state.as_str(),
        };
        let is_up = status.state == SessionState::Connected;
        let recorded = RecordedStatus {
            word,
            degraded: is_up && self.view.borrow().is_degraded(),
        };
        if self.recorder.recorded.replace(recorded) == Some(recorded) {
            return;
        }
        let is_disabled =
            kept_down == Some(KeptDown::Disabled) && status.state == SessionState::Disconnected;
        let reason = if is_disabled {
            Some(KeptDown::Disabled.as_str().to_owned())
        } else {
            let reason = status.reason.clone();
            reason.filter(|_| !is_up || recorded.degraded)
        };
        let exit = self.recorder.last_exit.take().unwrap_or_default();
        let now = Instant::now().into_std();
        let transition = Transition {
            degraded: recorded.degraded,
            exit_code: exit.code,
            exit_signal: exit.signal,
            attempt: Some(status.attempt).filter(|attempt| *attempt > 0 && !is_up),
            next_retry: status
                .next_retry
                .map(|at| at.saturating_duration_since(now)),
            stderr: if reason.is_some() && !is_up && !is_disabled {
                self.last_words()
            } else {
                Vec::new()
            },
            reason: reason.map(|reason| message::shortened(reason, MAX_REASON)),
            ..Transition::now(word)
        };
        self.record(transition);
    }

    /// Records that the server has been removed.
    pub(super) fn record_removal(&self) {
        self.record(Transition::now(REMOVED));
    }

    fn record(&self, transition: Transition) {
        let history = &self.fleet.history;
        history.record(&self.config.name, &self.log, transition);
    }

    /// The last lines of the process's stderr.
    fn last_words(&self) -> Vec<String> {
        let mut lines = self.log.tail.texts();
        lines.retain(|line| !line.trim().is_empty());
        let first = lines.len().saturating_sub(STDERR_LINES);
        lines
            .drain(first..)
            .map(|line| message::shortened(line, MAX_LINE))
            .collect()
    }
}
