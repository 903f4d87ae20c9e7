//! The history of servers, as REST has it.

use std::time::SystemTime;

use mainstay_api as api;
use mainstay_core::lifecycle::Loss;
use mainstay_journal::{Gap, History, Mark, ServerHistory, Transition};
use mainstay_platform::utc;

use super::servers::millis;

pub fn wire(history: History) -> api::History {
    let mark = |(at, mark): (SystemTime, Mark)| api::DaemonMark {
        at: utc::rfc3339(at),
        event: mark.as_str().to_owned(),
    };
    api::History {
        servers: history.servers.into_iter().map(of_one).collect(),
        daemon: history.daemon.into_iter().map(mark).collect(),
        gaps: history.gaps.iter().map(gap).collect(),
        truncated: history.truncated,
    }
}

/// A time of which calls are not on record.
pub fn gap(gap: &Gap) -> api::RecordGap {
    api::RecordGap {
        since: utc::rfc3339(gap.since),
        until: gap.until.map(utc::rfc3339),
        calls: gap.calls,
        reason: gap.reason.clone(),
    }
}

fn of_one(history: ServerHistory) -> api::ServerHistory {
    let transition = |it: Transition| api::Transition {
        at: utc::rfc3339(it.at),
        status: it.status.into_owned(),
        degraded: it.degraded,
        unauthorized: it.reason.as_deref().is_some_and(Loss::says_unauthorized),
        reason: it.reason,
        exit_code: it.exit_code,
        exit_signal: it.exit_signal,
        attempt: it.attempt,
        next_retry_ms: it.next_retry.map(millis),
        stderr: it.stderr,
    };
    api::ServerHistory {
        server: history.server,
        transitions: history.transitions.into_iter().map(transition).collect(),
        truncated: history.truncated,
    }
}
