//! Asks a connected server whether it is well, on its live session (design section 6).

use std::{sync::Arc, time::Duration};

use mainstay_core::{
    health::{Excuse, Method as ProbeMethod, Outcome, Policy},
    message::Method,
};
use tokio::time::{Instant, timeout};

use crate::transport::{self, Frame, HealthUrl, Interruption, InterruptionKind, Session};

/// CPU time of a server's processes during a probe, as a fraction of the probe's time, from which on
/// they count as busy; an idle runtime's own housekeeping stays below.
const BUSY_SHARE: f64 = 0.05;

/// One probe, from the question to its outcome; takes at most twice the policy's timeout.
pub async fn probe(session: Arc<Session>, policy: Policy, url: Option<HealthUrl>) -> Outcome {
    // A ping has killed a single-flight server's running call; the call's own deadline watches it.
    if session.vitals.may_be_at_work() {
        return Outcome::Busy;
    }
    let asked_at = Instant::now();
    let cpu_before = cpu(&session);
    let asked = timeout(policy.timeout, ask(&session, &policy, url.as_ref())).await;
    match asked {
        Ok(outcome) => outcome.unwrap_or_else(|| Outcome::Answered(asked_at.elapsed())),
        Err(_) => match timeout(policy.timeout, session.ask_afresh(session.probe())).await {
            Ok(Some(answer)) => {
                judge(&answer).unwrap_or_else(|| Outcome::Answered(asked_at.elapsed()))
            }
            Ok(None) | Err(_) => {
                let spent = cpu(&session).saturating_sub(cpu_before);
                Outcome::Unanswered(excuse(&session, spent, asked_at.elapsed()))
            }
        },
    }
}

/// `None` if the server is well.
async fn ask(session: &Session, policy: &Policy, url: Option<&HealthUrl>) -> Option<Outcome> {
    let method = match (policy.method, url) {
        (ProbeMethod::Http, Some(url)) => {
            return match url.get().await {
                // The server is there, and has no such page: a wrong URL is not a death (H4).
                Ok(200..300 | 404 | 405) => None,
                Ok(status) => Some(Outcome::Failed(format!(
                    "HTTP {status} from the health URL"
                ))),
                Err(error) => Some(Outcome::Failed(error.to_string())),
            };
        }
        (ProbeMethod::Ping | ProbeMethod::Http, _) => session.probe(),
        (ProbeMethod::ToolsList, _) => Method::ToolsList,
    };
    judge(&session.ask(method, None).await)
}

/// What an answer says: an error of JSON-RPC proves life, −32601 too, and so does a refusal that is
/// the server's own (H13).
fn judge(answer: &Result<Frame, Interruption>) -> Option<Outcome> {
    match answer {
        Ok(_) => None,
        Err(Interruption {
            kind: InterruptionKind::Refused { status, .. },
            ..
        }) if *status < 500 => None,
        Err(interruption) => Some(Outcome::Failed(interruption.to_string())),
    }
}

fn cpu(session: &Session) -> Duration {
    session.pid.map(transport::cpu_time).unwrap_or_default()
}

fn excuse(session: &Session, spent: Duration, during: Duration) -> Option<Excuse> {
    if session.vitals.may_be_at_work() {
        Some(Excuse::Call)
    } else if spent > during.mul_f64(BUSY_SHARE) {
        Some(Excuse::Cpu)
    } else {
        None
    }
}
