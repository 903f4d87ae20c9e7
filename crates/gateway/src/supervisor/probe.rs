//! Probes a connected server on its live session.

use std::{panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use mainstay_core::{
    health::{BUSY_SHARE, Excuse, Fault, FaultKind, Method as ProbeMethod, Outcome, Policy},
    ids::{Epoch, ServerName},
    message::Method,
};
use mainstay_transport::{
    self as transport, Frame, HealthUrl, Interruption, InterruptionKind, Session,
};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout, timeout_at},
};
use tracing::Instrument as _;

use super::session_key::SessionKey;

/// A server that answers within this time is not looked at otherwise. Most do, and reading what its
/// processes have spent costs more than the probe.
const PATIENCE: Duration = Duration::from_secs(1);

/// The probes of one server that are out.
#[derive(Default)]
pub struct Probes(JoinSet<(SessionKey, Epoch, Outcome)>);

impl Probes {
    /// Starts a probe of one session. A probe that panics counts as a failed one: the lifecycle sends
    /// the next probe only after it has heard of the last.
    pub fn start(
        &mut self,
        server: ServerName,
        which: SessionKey,
        epoch: Epoch,
        probe: impl Future<Output = Outcome> + Send + 'static,
    ) {
        let probing = async move {
            let outcome = AssertUnwindSafe(probe).catch_unwind().await;
            let outcome = outcome.unwrap_or_else(|_| {
                // The panic hook has logged the message and the place of the panic.
                tracing::error!(%server, ?which, %epoch, "a probe panicked");
                Outcome::Failed("the probe failed by a fault in Mainstay".to_owned())
            });
            (which, epoch, outcome)
        };
        self.0.spawn(probing.in_current_span().boxed());
    }

    /// The next outcome; never resolves while no probe is out. Cancel-safe.
    pub async fn next(&mut self) -> (SessionKey, Epoch, Outcome) {
        while let Some(probed) = self.0.join_next().await {
            // An error means that the probe was aborted, which happens in `shutdown` only.
            if let Ok(probed) = probed {
                return probed;
            }
        }
        std::future::pending().await
    }

    pub async fn shutdown(&mut self) {
        self.0.shutdown().await;
    }
}

/// One probe, from the question to its outcome; takes at most twice the policy's timeout.
pub async fn probe(session: Arc<Session>, policy: Policy, url: Option<HealthUrl>) -> Outcome {
    // A ping has killed a single-flight server's running call; the call's own deadline watches it.
    if session.liveness.may_be_at_work() {
        return Outcome::Busy;
    }
    // A page that is served does not show that calls are answered.
    let url = url.filter(|_| !session.liveness.is_stalled());
    let asked_at = Instant::now();
    let _waiting = session.liveness.probe();
    let mut answer = pin!(ask(&session, &policy, url.as_ref()));
    let answered =
        |outcome: Option<Outcome>| outcome.unwrap_or_else(|| Outcome::Answered(asked_at.elapsed()));
    let soon = PATIENCE.min(policy.timeout / 2);
    if let Ok(outcome) = timeout(soon, &mut answer).await {
        return answered(outcome);
    }
    let watched_at = Instant::now();
    let cpu_before = cpu(&session).await;
    if let Ok(outcome) = timeout_at(asked_at + policy.timeout, &mut answer).await {
        return answered(outcome);
    }
    match timeout(policy.timeout, session.ask_afresh(session.probe())).await {
        Ok(Some(answer)) => answered(judge(&answer)),
        Ok(None) | Err(_) => {
            let spent = cpu(&session).await.saturating_sub(cpu_before);
            Outcome::Unanswered(excuse(&session, spent, watched_at.elapsed()))
        }
    }
}

/// `None` if the server is well.
async fn ask(session: &Session, policy: &Policy, url: Option<&HealthUrl>) -> Option<Outcome> {
    let method = match (policy.method, url) {
        (ProbeMethod::Http, Some(url)) => {
            return match url.get().await {
                // The server is there, and has no such page: a wrong URL is not a death.
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
    let asked_at = Instant::now();
    let answer = session.ask(method, None).await;
    // A server that refuses `ping` has proved by a list that its session lives.
    judge(&answer).filter(|_| !(is_refusal(&answer) && session.liveness.is_heard_since(asked_at)))
}

/// Whether the question was refused as a whole.
fn is_refusal(answer: &Result<Frame, Interruption>) -> bool {
    match answer {
        Ok(frame) => frame.error().is_some(),
        Err(interruption) => matches!(interruption.kind, InterruptionKind::Refused { .. }),
    }
}

/// The outcome that an answer stands for. An answer to the question proves life: an error such as −32601 does,
/// too. Anything else speaks against the server, also an error that names no request.
fn judge(answer: &Result<Frame, Interruption>) -> Option<Outcome> {
    match answer {
        Ok(frame) if frame.names_nothing() => Some(Outcome::Broken(Fault {
            kind: FaultKind::Foreign,
            reason: format!(
                "the server refused the question: {}",
                frame.error().unwrap_or_default()
            ),
        })),
        Ok(_) => None,
        Err(interruption) => Some(match interruption.fault() {
            Some(fault) => Outcome::Broken(fault),
            None => Outcome::Failed(interruption.to_string()),
        }),
    }
}

async fn cpu(session: &Session) -> Duration {
    match session.pid {
        Some(pid) => transport::cpu_time(pid).await,
        None => Duration::ZERO,
    }
}

fn excuse(session: &Session, spent: Duration, during: Duration) -> Option<Excuse> {
    if session.liveness.may_be_at_work() {
        Some(Excuse::Call)
    } else if spent > during.mul_f64(BUSY_SHARE) {
        Some(Excuse::Cpu)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A probe whose outcome never comes would keep the session from ever being probed again.
    #[tokio::test]
    async fn a_probe_that_panics_is_a_failed_probe() {
        let server = || ServerName::new("x").expect("a name");
        let mut probes = Probes::default();
        let panics = async { panic!("as a probe should not") };
        probes.start(server(), SessionKey::Shared, Epoch(7), panics);
        let (which, epoch, outcome) = probes.next().await;
        assert_eq!((which, epoch), (SessionKey::Shared, Epoch(7)));
        assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
        // The set goes on: the next probe is heard of.
        probes.start(server(), SessionKey::Shared, Epoch(7), async {
            Outcome::Busy
        });
        assert_eq!(probes.next().await.2, Outcome::Busy);
    }
}
