//! A running call, and its failures.

use std::{borrow::Cow, pin::Pin, time::Duration};

use mainstay_core::{
    config::Launch,
    failure::{Failure, FailureKind, MAY_HAVE_RUN, NOTE, limit_words},
    health::FaultKind,
    lifecycle::Loss,
    trouble,
};
use mainstay_transport::{CallState, Interruption, InterruptionKind, UpstreamSession};
use tokio::{
    task::unconstrained,
    time::{Instant, sleep_until},
};

use crate::supervisor::Crash;

use super::{
    account::Account,
    closing::SHUTTING_DOWN,
    request::{CallRequest, Upstream},
    shared::Calls,
    sink::CallSink,
};

/// Time limit for the exit status of a crashed server, which explains the failure of a lost call.
const EXIT_LIMIT: Duration = Duration::from_millis(300);

/// The failure of one attempt.
pub(super) enum AttemptError {
    /// The server cannot have seen the request, so another attempt is safe.
    NotSent(Failure),
    /// The server redirected the request, and has not run it.
    Redirected(Failure),
    /// The call may have run, and no answer will come.
    Lost(Failure),
    /// The server has refused the request, because the principal has not logged in.
    LoginRequired(Failure),
    Final(Failure),
}

/// Sleeps until this time. Resolves even if messages of the server use up the task's cooperative
/// budget (tokio's `coop`).
pub(super) async fn deadline(at: Instant) {
    unconstrained(sleep_until(at)).await;
}

impl AttemptError {
    pub fn failure(&self) -> &Failure {
        match self {
            Self::NotSent(failure)
            | Self::Redirected(failure)
            | Self::Lost(failure)
            | Self::LoginRequired(failure)
            | Self::Final(failure) => failure,
        }
    }

    pub fn into_failure(self) -> Failure {
        match self {
            Self::NotSent(failure)
            | Self::Redirected(failure)
            | Self::Lost(failure)
            | Self::LoginRequired(failure)
            | Self::Final(failure) => failure,
        }
    }
}

/// A running call.
pub(super) struct ActiveCall<'a> {
    pub calls: &'a Calls,
    pub upstream: &'a Upstream,
    pub request: &'a CallRequest,
    pub sink: CallSink,
    pub deadline: Instant,
    pub limit: Duration,
    pub hard_deadline: Instant,
    /// True if the server has sent progress.
    pub progressed: bool,
    /// The address at which a person can log in. Set if the call needs a login and its client cannot
    /// be asked.
    pub login_url: Option<String>,
    pub account: Account,
}

/// The answers of a client to one round of questions.
#[derive(Debug)]
pub struct Round {
    /// The server's key of each question, and the client's answer as JSON text.
    pub responses: Vec<(String, Box<str>)>,
    /// The server's `requestState`, unchanged.
    pub state: Option<Box<str>>,
    /// Ids of elicitations that sent a person to a URL. When the server continues, the client is
    /// notified that they are complete.
    pub elicitations: Vec<String>,
}

impl Round {
    /// A round without questions. The call is sent again with this state.
    pub fn without_questions(state: Option<Box<str>>) -> Self {
        Self {
            responses: Vec::new(),
            state,
            elicitations: Vec::new(),
        }
    }
}

impl ActiveCall<'_> {
    /// Waits for a part of the call. Fails if the call is cancelled, or if its deadline passes first.
    pub(super) async fn wait_for<T>(
        &self,
        part: impl Future<Output = T>,
        cancel: Pin<&mut impl Future<Output = String>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            biased;
            done = part => Ok(done),
            () = deadline(self.deadline) => Err(self.timed_out()),
            reason = cancel => Err(self.cancelled(&reason)),
        }
    }

    pub(super) fn failure(&self, kind: FailureKind, message: String) -> Failure {
        let server = self.upstream.server();
        // Redact secrets. The message may quote the server, and the server may quote the headers
        // of our request.
        let redacted = match server.log.redacted(&message) {
            Cow::Borrowed(_) => None,
            Cow::Owned(redacted) => Some(redacted),
        };
        let message = redacted.unwrap_or(message);
        Failure::new(kind, message).with_server(&server.name)
    }

    pub(super) fn timed_out(&self) -> Failure {
        let mut message = format!("timeout after {}", limit_words(self.limit));
        let log = &self.upstream.server().log;
        if let Some(ids) = log.foreign_ids(self.deadline - self.limit) {
            message = format!("{message}; {ids}");
        }
        let note = if self.account.is_sent() {
            MAY_HAVE_RUN
        } else {
            NOT_SENT
        };
        self.diagnosed(self.failure(FailureKind::CallTimeout, message))
            .with(NOTE, note)
    }

    /// Adds the server's status to a failure, unless the server is healthy. The status may explain
    /// the failure.
    fn diagnosed(&self, mut failure: Failure) -> Failure {
        let server = self.upstream.server();
        let (view, name) = (server.view(), &server.name);
        let health = view.diagnosis();
        if health == "healthy" {
            return failure;
        }
        tracing::warn!(server = %name, health, reason = view.status.reason, "a call failed");
        failure.message = format!("{} (server {name} is {health})", failure.message);
        view.describe(failure, name)
    }

    /// Requests a probe of the shared session. An isolated session is not probed, because its next
    /// call shows whether it works.
    pub(super) fn request_probe(&self) {
        if let Upstream::Shared(server) = self.upstream {
            server.request_probe();
        }
    }

    /// Requests a probe after a call without an answer. Includes a stalled isolated session: calls to
    /// it are refused, so no call can show that it works again.
    pub(super) fn request_probe_of(&self, session: &UpstreamSession) {
        match self.upstream {
            Upstream::Shared(server) => server.request_probe(),
            Upstream::IsolatedSession(isolated_session) if session.liveness.is_stalled() => {
                isolated_session.request_probe()
            }
            Upstream::IsolatedSession(_) => {}
        }
    }

    /// The failure of a call that is not sent because the session is stalled: the server has not
    /// answered earlier calls, and has sent nothing since.
    pub(super) fn not_answering(&self, session: &UpstreamSession) -> Failure {
        let server = self.upstream.server();
        let calls = session.liveness.stalled().unwrap_or_default();
        let message = format!(
            "Server '{}' does not answer: {calls} calls in a row got no answer. This call was not sent; calls are sent again once the server is heard",
            server.name
        );
        let failure = self.failure(FailureKind::ServerNotAnswering, message);
        server.view().describe(failure, &server.name)
    }

    /// The failure of a call whose answer cannot be used.
    pub(super) fn unusable(&self, reason: &str) -> Failure {
        let name = &self.upstream.server().name;
        let message = format!("Server '{name}' cannot be answered: {reason}");
        self.failure(FailureKind::CallFailed, message)
    }

    pub(super) fn cancelled(&self, reason: &str) -> Failure {
        if reason == SHUTTING_DOWN || self.calls.closing.is_over() {
            return self.ended_by_shutdown();
        }
        self.failure(FailureKind::Cancelled, format!("cancelled: {reason}"))
    }

    /// The failure of a call that Mainstay ends because it shuts down.
    fn ended_by_shutdown(&self) -> Failure {
        let name = &self.upstream.server().name;
        if self.account.is_sent() {
            let message =
                format!("Mainstay was stopped during the call of server '{name}'. {MAY_HAVE_RUN}");
            self.failure(FailureKind::OutcomeUnknown, message)
        } else {
            let message = "the call was not sent: Mainstay is shutting down";
            self.failure(FailureKind::ShuttingDown, message.to_owned())
        }
    }

    /// The failure of an attempt whose connection was lost, or whose request was not sent after all.
    pub(super) async fn lost(&mut self, interruption: Interruption) -> AttemptError {
        if interruption.state == CallState::NotSent {
            self.account.not_sent();
        }
        if interruption.fault().is_some() {
            self.request_probe();
        }
        let words = match self.crash(&interruption).await {
            Some(crash) => crash,
            None => interruption.to_string(),
        };
        self.interrupted_by(interruption, &words)
    }

    /// Describes the crash of the server's process with its last lines of stderr. `None` if the call
    /// was not lost in a crash.
    async fn crash(&self, interruption: &Interruption) -> Option<String> {
        // The recorded crashes of isolated sessions do not tell which session crashed.
        let Upstream::Shared(server) = self.upstream else {
            return None;
        };
        let is_lost =
            (&interruption.kind, interruption.state) == (&InterruptionKind::Lost, CallState::Sent);
        if !is_lost || !matches!(server.config().launch, Launch::Stdio(_)) {
            return None;
        }
        let since = self.account.sent_at()?;
        let Crash { code, signal, .. } = server.crash_since(since, EXIT_LIMIT).await?;
        let reason = Loss::Crashed { code, signal }.to_string();
        Some(trouble::explained(&reason, &server.log.tail.texts(), None))
    }

    pub(super) fn interrupted(&self, interruption: Interruption) -> AttemptError {
        let words = interruption.to_string();
        self.interrupted_by(interruption, &words)
    }

    fn interrupted_by(&self, interruption: Interruption, words: &str) -> AttemptError {
        let name = &self.upstream.server().name;
        let is_login_required = is_unauthorized(&interruption) && self.lacks_own_login();
        let kind = match (&interruption.kind, interruption.state) {
            _ if is_login_required => FailureKind::LoginRequired,
            (InterruptionKind::TooLarge(_), _) => FailureKind::MessageTooLarge,
            (
                InterruptionKind::Lost
                | InterruptionKind::Unanswered
                | InterruptionKind::SessionExpired(_),
                CallState::Sent,
            ) => FailureKind::OutcomeUnknown,
            // A proxy answers with these codes for a server that may have run the call (invariant 6).
            (
                InterruptionKind::Refused {
                    status: 502..=504, ..
                },
                _,
            ) => FailureKind::OutcomeUnknown,
            _ => FailureKind::CallFailed,
        };
        let message = match kind {
            FailureKind::OutcomeUnknown => {
                format!("Server '{name}' was lost during the call: {words}. {MAY_HAVE_RUN}")
            }
            _ => format!(
                "Server '{name}' did not answer: {interruption}. {}",
                run_note(&interruption)
            ),
        };
        let failure = self.diagnosed(self.failure(kind, message));
        if kind == FailureKind::OutcomeUnknown {
            self.request_probe();
            return AttemptError::Lost(failure);
        }
        if is_login_required {
            return AttemptError::LoginRequired(failure);
        }
        match (interruption.state, interruption.kind) {
            (_, InterruptionKind::Redirected) => AttemptError::Redirected(failure),
            (
                CallState::NotSent,
                InterruptionKind::Lost
                | InterruptionKind::SessionExpired(_)
                | InterruptionKind::Unreachable(_),
            ) => AttemptError::NotSent(failure),
            _ => AttemptError::Final(failure),
        }
    }
}

fn is_unauthorized(interruption: &Interruption) -> bool {
    let fault = interruption.fault();
    fault.is_some_and(|fault| fault.kind == FaultKind::Unauthorized)
}

const NOT_SENT: &str = "The call was not sent";

/// A sentence that says whether a call without an answer may have run.
fn run_note(interruption: &Interruption) -> &'static str {
    match (&interruption.kind, interruption.state) {
        (
            InterruptionKind::Redirected
            | InterruptionKind::SessionExpired(_)
            | InterruptionKind::Refused {
                status: 300..=499, ..
            },
            _,
        ) => "The server refused it, so it has most likely not run",
        (_, CallState::NotSent) => NOT_SENT,
        (_, CallState::Sent) => MAY_HAVE_RUN,
    }
}
