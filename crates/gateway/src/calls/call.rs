//! A call under way, and how it fails.

use std::{borrow::Cow, pin::Pin, time::Duration};

use mainstay_core::{
    config::Launch,
    failure::{Failure, FailureKind, MAY_HAVE_RUN, NOTE, limit_words},
    lifecycle::Loss,
    trouble,
};
use mainstay_transport::{CallState, Interruption, InterruptionKind, Session};
use tokio::{
    task::unconstrained,
    time::{Instant, sleep_until},
};

use crate::supervisor::Crash;

use super::{
    account::Account,
    closing::SHUTTING_DOWN,
    request::{Request, Upstream},
    shared::Calls,
    sink::CallSink,
};

/// A call whose connection was lost waits so long to hear that the server's process has ended, and how.
const EXIT_LIMIT: Duration = Duration::from_millis(300);

/// How an attempt failed.
pub(super) enum AttemptError {
    /// The server cannot have seen it: another attempt is safe.
    NotSent(Failure),
    /// The server redirected it, and has not run it.
    Redirected(Failure),
    /// It may have run, and there will be no answer.
    Lost(Failure),
    Final(Failure),
}

/// Resolves then, also beside a server that leaves this task no cooperative budget (tokio's `coop`).
pub(super) async fn deadline(at: Instant) {
    unconstrained(sleep_until(at)).await;
}

impl AttemptError {
    pub fn failure(&self) -> &Failure {
        match self {
            Self::NotSent(failure)
            | Self::Redirected(failure)
            | Self::Lost(failure)
            | Self::Final(failure) => failure,
        }
    }

    pub fn into_failure(self) -> Failure {
        match self {
            Self::NotSent(failure)
            | Self::Redirected(failure)
            | Self::Lost(failure)
            | Self::Final(failure) => failure,
        }
    }
}

/// A call under way.
pub(super) struct Call<'a> {
    pub calls: &'a Calls,
    pub upstream: &'a Upstream,
    pub request: &'a Request,
    pub sink: CallSink,
    pub deadline: Instant,
    pub limit: Duration,
    pub hard_deadline: Instant,
    /// Whether the server has told of progress.
    pub progressed: bool,
    pub account: Account,
}

/// The answers of a client to one round of questions.
#[derive(Debug)]
pub struct Round {
    /// By the server's keys, JSON text.
    pub responses: Vec<(String, Box<str>)>,
    /// As the server spelled it.
    pub state: Option<Box<str>>,
    /// The elicitations that sent a person to a URL: their client is told when the server goes on.
    pub elicitations: Vec<String>,
}

impl Round {
    /// The next attempt at a call of which the server asked nothing.
    pub fn unasked(state: Option<Box<str>>) -> Self {
        Self {
            responses: Vec::new(),
            state,
            elicitations: Vec::new(),
        }
    }
}

impl Call<'_> {
    /// Waits for a part of the call, unless it is cancelled or has no time left.
    pub(super) async fn meanwhile<T>(
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
        // It may quote the server, which may quote our request's headers.
        let shown = match server.log.shown(&message) {
            Cow::Borrowed(_) => None,
            Cow::Owned(shown) => Some(shown),
        };
        let message = shown.unwrap_or(message);
        Failure::new(kind, message).of_server(&server.name)
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

    /// Adds the server's status, unless the server is well: it explains the failure.
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

    /// Has the server asked whether it is well: an isolated session shows by its next call.
    pub(super) fn request_probe(&self) {
        if let Upstream::Shared(server) = self.upstream {
            server.request_probe();
        }
    }

    /// Requests a probe after a call that was not answered. An isolated session that refuses calls must
    /// be probed as well: no call will show that it is well again.
    pub(super) fn request_probe_of(&self, session: &Session) {
        match self.upstream {
            Upstream::Shared(server) => server.request_probe(),
            Upstream::IsolatedSession(isolated_session) if session.liveness.is_stalled() => {
                isolated_session.request_probe()
            }
            Upstream::IsolatedSession(_) => {}
        }
    }

    /// The server has left calls without an answer, and is not called until it is heard.
    pub(super) fn not_answering(&self, session: &Session) -> Failure {
        let server = self.upstream.server();
        let calls = session.liveness.stalled().unwrap_or_default();
        let message = format!(
            "Server '{}' does not answer: {calls} calls in a row got no answer. This call was not sent; calls are sent again once the server is heard",
            server.name
        );
        let failure = self.failure(FailureKind::ServerNotAnswering, message);
        server.view().describe(failure, &server.name)
    }

    /// The server answered, and nothing can be made of it.
    pub(super) fn unusable(&self, reason: &str) -> Failure {
        let name = &self.upstream.server().name;
        let message = format!("Server '{name}' cannot be answered: {reason}");
        self.failure(FailureKind::CallFailed, message)
    }

    pub(super) fn cancelled(&self, reason: &str) -> Failure {
        if reason == SHUTTING_DOWN || self.calls.closing.is_over() {
            return self.ended_by_us();
        }
        self.failure(FailureKind::Cancelled, format!("cancelled: {reason}"))
    }

    /// Mainstay stops, and cannot wait for the server any longer.
    fn ended_by_us(&self) -> Failure {
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

    /// The request was sent and is lost, or was not sent after all.
    pub(super) async fn lost(&mut self, why: Interruption) -> AttemptError {
        if why.state == CallState::NotSent {
            self.account.not_sent();
        }
        if why.fault().is_some() {
            self.request_probe();
        }
        let words = match self.crash(&why).await {
            Some(crash) => crash,
            None => why.to_string(),
        };
        self.interrupted_by(why, &words)
    }

    /// How the server's process ended and its last words, if a call that was sent is lost with it.
    async fn crash(&self, why: &Interruption) -> Option<String> {
        // Other isolated sessions of the server have processes of their own.
        let Upstream::Shared(server) = self.upstream else {
            return None;
        };
        let is_lost = (&why.kind, why.state) == (&InterruptionKind::Lost, CallState::Sent);
        if !is_lost || !matches!(server.config().launch, Launch::Stdio(_)) {
            return None;
        }
        let since = self.account.sent_at()?;
        let Crash { code, signal, .. } = server.crash_since(since, EXIT_LIMIT).await?;
        let reason = Loss::Crashed { code, signal }.to_string();
        Some(trouble::explained(&reason, &server.log.tail.texts(), None))
    }

    pub(super) fn interrupted(&self, why: Interruption) -> AttemptError {
        let words = why.to_string();
        self.interrupted_by(why, &words)
    }

    fn interrupted_by(&self, why: Interruption, words: &str) -> AttemptError {
        let name = &self.upstream.server().name;
        let kind = match (&why.kind, why.state) {
            (InterruptionKind::TooLarge(_), _) => FailureKind::MessageTooLarge,
            (
                InterruptionKind::Lost
                | InterruptionKind::Unanswered
                | InterruptionKind::SessionExpired(_),
                CallState::Sent,
            ) => FailureKind::OutcomeUnknown,
            // A proxy says so of a server that may have been at work (invariant 6).
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
            _ => format!("Server '{name}' did not answer: {why}. {}", fate(&why)),
        };
        let failure = self.diagnosed(self.failure(kind, message));
        if kind == FailureKind::OutcomeUnknown {
            self.request_probe();
            return AttemptError::Lost(failure);
        }
        match (why.state, why.kind) {
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

const NOT_SENT: &str = "The call was not sent";

/// Whether a call without an answer may have run.
fn fate(why: &Interruption) -> &'static str {
    match (&why.kind, why.state) {
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
