//! Probes connected servers on their live sessions.

use std::{panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use mainstay_core::{
    health::{BUSY_SHARE, Excuse, Fault, FaultKind, HealthPolicy, ProbeMethod, ProbeOutcome},
    ids::{Epoch, ServerName},
    message::Method,
};
use mainstay_transport::{
    self as transport, Frame, HealthUrl, Interruption, InterruptionKind, UpstreamSession,
};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout, timeout_at},
};
use tracing::Instrument as _;

use super::session_key::SessionKey;

/// Time to wait for an answer before the server's CPU time is read. Most servers answer in this
/// time, and reading the CPU time of their processes costs more than the probe.
const PATIENCE: Duration = Duration::from_secs(1);

/// The running probes of one server.
#[derive(Default)]
pub struct Probes(JoinSet<(SessionKey, Epoch, ProbeOutcome)>);

impl Probes {
    /// Starts a probe of one session. A probe that panics counts as failed, because the lifecycle
    /// starts no further probe before this probe has an outcome.
    pub fn start(
        &mut self,
        server: ServerName,
        key: SessionKey,
        epoch: Epoch,
        probe: impl Future<Output = ProbeOutcome> + Send + 'static,
    ) {
        let probing = async move {
            let outcome = AssertUnwindSafe(probe).catch_unwind().await;
            let outcome = outcome.unwrap_or_else(|_| {
                // The panic hook has logged the message and the place of the panic.
                tracing::error!(%server, which = ?key, %epoch, "a probe panicked");
                ProbeOutcome::Failed("the probe failed by a fault in Mainstay".to_owned())
            });
            (key, epoch, outcome)
        };
        self.0.spawn(probing.in_current_span().boxed());
    }

    /// Waits for the outcome of any running probe. Pending while no probe runs. Cancel-safe.
    pub async fn next(&mut self) -> (SessionKey, Epoch, ProbeOutcome) {
        while let Some(probed) = self.0.join_next().await {
            // An error means that the probe was aborted, which happens only in `shutdown`.
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

/// Runs one probe and returns its outcome. Takes at most twice the policy's timeout.
pub async fn probe(
    session: Arc<UpstreamSession>,
    policy: HealthPolicy,
    url: Option<HealthUrl>,
) -> ProbeOutcome {
    // Do not probe during a call: some servers handle one request at a time, and a `ping` can kill
    // the running call. The call has its own deadline.
    if session.liveness.may_be_at_work() {
        return ProbeOutcome::Busy;
    }
    // A stalled session needs a probe on the session itself: a health page does not show that calls
    // are answered.
    let url = url.filter(|_| !session.liveness.is_stalled());
    let asked_at = Instant::now();
    let _waiting = session.liveness.probe();
    let mut answer = pin!(ask(&session, &policy, url.as_ref()));
    let answered = |outcome: Option<ProbeOutcome>| {
        outcome.unwrap_or_else(|| ProbeOutcome::Answered(asked_at.elapsed()))
    };
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
            ProbeOutcome::Unanswered(excuse(&session, spent, watched_at.elapsed()))
        }
    }
}

/// Sends the probe's request. `None` if the answer shows that the server is well.
async fn ask(
    session: &UpstreamSession,
    policy: &HealthPolicy,
    url: Option<&HealthUrl>,
) -> Option<ProbeOutcome> {
    let method = match (policy.method, url) {
        (ProbeMethod::Http, Some(url)) => {
            return match url.get().await {
                // 404 and 405: the server is up, and the configured URL is wrong.
                Ok(200..300 | 404 | 405) => None,
                Ok(status) => Some(ProbeOutcome::Failed(format!(
                    "HTTP {status} from the health URL"
                ))),
                Err(error) => Some(ProbeOutcome::Failed(error.to_string())),
            };
        }
        (ProbeMethod::Ping | ProbeMethod::Http, _) => session.probe(),
        (ProbeMethod::ToolsList, _) => Method::ToolsList,
    };
    let asked_at = Instant::now();
    let answer = session.ask(method, None).await;
    // A refused `ping` does not count if a message has arrived since: the session is alive.
    judge(&answer).filter(|_| !(is_refusal(&answer) && session.liveness.is_heard_since(asked_at)))
}

/// True if the request was refused as a whole.
fn is_refusal(answer: &Result<Frame, Interruption>) -> bool {
    match answer {
        Ok(frame) => frame.error().is_some(),
        Err(interruption) => matches!(
            interruption.kind,
            InterruptionKind::Refused { .. } | InterruptionKind::NoCredentials(_)
        ),
    }
}

/// Judges the answer to a probe. `None` if it proves life: any response to the request does, even an
/// error such as −32601. Everything else is a failure, including an error without a request id.
fn judge(answer: &Result<Frame, Interruption>) -> Option<ProbeOutcome> {
    match answer {
        Ok(frame) if frame.names_nothing() => Some(ProbeOutcome::Broken(Fault {
            kind: FaultKind::Foreign,
            reason: format!(
                "the server refused the question: {}",
                frame.error().unwrap_or_default()
            ),
        })),
        Ok(_) => None,
        Err(interruption) => Some(match interruption.fault() {
            Some(fault) => ProbeOutcome::Broken(fault),
            None => ProbeOutcome::Failed(interruption.to_string()),
        }),
    }
}

async fn cpu(session: &UpstreamSession) -> Duration {
    match session.pid {
        Some(pid) => transport::cpu_time(pid).await,
        None => Duration::ZERO,
    }
}

fn excuse(session: &UpstreamSession, spent: Duration, during: Duration) -> Option<Excuse> {
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

    /// A probe without an outcome would prevent all later probes of the session.
    #[tokio::test]
    async fn a_probe_that_panics_is_a_failed_probe() {
        let server = || ServerName::new("x").expect("a name");
        let mut probes = Probes::default();
        let panics = async { panic!("as a probe should not") };
        probes.start(server(), SessionKey::Shared, Epoch(7), panics);
        let (key, epoch, outcome) = probes.next().await;
        assert_eq!((key, epoch), (SessionKey::Shared, Epoch(7)));
        assert!(matches!(outcome, ProbeOutcome::Failed(_)), "{outcome:?}");
        // The next probe works as usual.
        probes.start(server(), SessionKey::Shared, Epoch(7), async {
            ProbeOutcome::Busy
        });
        assert_eq!(probes.next().await.2, ProbeOutcome::Busy);
    }
}
