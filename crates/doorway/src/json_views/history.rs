//! The history of servers, in the format of REST.

use std::time::SystemTime;

use mainstay_api as api;
use mainstay_core::lifecycle::Loss;
use mainstay_journal::{Gap, JournalHistory, Mark, ServerHistory, Transition};
use mainstay_platform::utc;

use super::servers::millis;

pub fn wire(history: JournalHistory) -> api::History {
    let daemon_mark = |(time, daemon_mark): (SystemTime, Mark)| api::DaemonMark {
        at: utc::rfc3339(time),
        event: daemon_mark.as_str().to_owned(),
    };
    api::History {
        servers: history.servers.into_iter().map(server_history).collect(),
        daemon: history.daemon.into_iter().map(daemon_mark).collect(),
        gaps: history.gaps.iter().map(gap).collect(),
        truncated: history.truncated,
    }
}

/// A time span in which calls were not recorded.
pub fn gap(gap: &Gap) -> api::RecordGap {
    api::RecordGap {
        since: utc::rfc3339(gap.since),
        until: gap.until.map(utc::rfc3339),
        calls: gap.calls,
        reason: gap.reason.clone(),
    }
}

fn server_history(history: ServerHistory) -> api::ServerHistory {
    let to_wire = |transition: Transition| api::Transition {
        at: utc::rfc3339(transition.at),
        status: transition.status.into_owned(),
        degraded: transition.degraded,
        unauthorized: transition
            .reason
            .as_deref()
            .is_some_and(Loss::is_unauthorized_text),
        reason: transition.reason,
        exit_code: transition.exit_code,
        exit_signal: transition.exit_signal,
        attempt: transition.attempt,
        next_retry_ms: transition.next_retry.map(millis),
        stderr: transition.stderr,
    };
    api::ServerHistory {
        server: history.server,
        transitions: history.transitions.into_iter().map(to_wire).collect(),
        truncated: history.truncated,
    }
}
