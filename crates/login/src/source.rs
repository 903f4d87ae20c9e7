//! Passes the token of a login to requests. A request waits for a refresh if necessary.

use std::{sync::Arc, time::SystemTime};

use mainstay_core::config::Secret;
use mainstay_transport::{
    CredentialSource, HeaderLines, NoCredentials, RefusedCredentials, RenewedLines,
};
use tokio::time::{Instant, timeout_at};

use crate::{
    challenge::Challenge,
    keeper::{LoginKeeper, WAIT_LIMIT, header_lines},
    upkeep::{AfterRefusal, NextToken},
};

/// The next step of a request.
enum RequestStep {
    Send(Secret),
    Fail(NoCredentials),
    /// Wait for a task, until this time at most.
    Wait(Option<SystemTime>),
}

impl LoginKeeper {
    fn next_step(&self) -> RequestStep {
        let now = self.shared.now();
        let state = self.state.lock();
        if !state.is_loaded {
            return match &state.load_failure {
                Some(failure) if failure.is_recent(now) => {
                    let reason = format!("the login cannot be read: {}", failure.reason);
                    RequestStep::Fail(NoCredentials::Unavailable(reason))
                }
                _ => RequestStep::Wait(None),
            };
        }
        match state.upkeep.next_token(now) {
            NextToken::NoLogin => RequestStep::Fail(NoCredentials::Unknown),
            NextToken::Ready(token) => RequestStep::Send(token),
            NextToken::AfterRefresh(retry_at) => RequestStep::Wait(retry_at),
            NextToken::Ended(reason) => {
                RequestStep::Fail(NoCredentials::NoLongerValid(state.advised(&reason)))
            }
        }
    }

    fn step_after_refusal(
        &self,
        refused: &RefusedCredentials,
        token: Option<&Secret>,
    ) -> RequestStep {
        let now = self.shared.now();
        let challenge = Challenge::parse(refused.challenges.iter().map(String::as_str));
        let mut state = self.state.lock();
        let after = state
            .upkeep
            .handle_refusal(refused.status, token, challenge.as_ref(), now);
        let is_challenged = challenge.is_some();
        if is_challenged {
            state.challenge = challenge;
        }
        // A refused token must not be sent again before the refresh.
        self.ready.store(state.ready_token(now));
        match after {
            AfterRefusal::Use(token) => RequestStep::Send(token),
            AfterRefusal::Refresh => RequestStep::Wait(state.upkeep.retry_at(now)),
            AfterRefusal::LogIn(reason) => {
                // A 401 without a challenge may come from a proxy.
                state.is_required |= is_challenged || state.upkeep.end().is_some();
                RequestStep::Fail(NoCredentials::NoLongerValid(state.advised(&reason)))
            }
            AfterRefusal::StepUp(scopes) => {
                state.missing_scopes = state.missing_scopes.union(&scopes);
                let login = state.upkeep.login();
                let was_requested =
                    login.is_some_and(|login| scopes.lacking(&login.requested_scopes).is_empty());
                let not_granted = if was_requested {
                    ", which the authorization server was asked for and did not grant"
                } else {
                    ""
                };
                let reason = format!("the login lacks the scopes {scopes}{not_granted}");
                RequestStep::Fail(NoCredentials::NoLongerValid(state.advised(&reason)))
            }
            // Another login would get the same scopes, so do not advise one.
            AfterRefusal::Denied(reason) => RequestStep::Fail(NoCredentials::NoLongerValid(reason)),
            AfterRefusal::NotOurs => RequestStep::Fail(NoCredentials::Unknown),
        }
    }

    /// Repeats a step until the request can be sent or fails.
    async fn token(
        self: &Arc<Self>,
        mut step: impl FnMut() -> RequestStep,
    ) -> Result<Secret, NoCredentials> {
        let deadline = Instant::now() + WAIT_LIMIT;
        let mut changed = self.changed.subscribe();
        loop {
            changed.borrow_and_update();
            let retry_at = match step() {
                RequestStep::Send(token) => return Ok(token),
                RequestStep::Fail(error) => return Err(error),
                RequestStep::Wait(retry_at) => retry_at,
            };
            let pause = retry_at.and_then(|time| time.duration_since(self.shared.now()).ok());
            let until = pause.map_or(deadline, |pause| Instant::now() + pause);
            if until > deadline {
                return Err(self.unavailable());
            }
            if pause.is_none() && !self.start_task() {
                let reason = "Mainstay stops".to_owned();
                return Err(NoCredentials::Unavailable(reason));
            }
            if timeout_at(until, changed.changed()).await.is_err() && until == deadline {
                return Err(self.unavailable());
            }
        }
    }

    fn unavailable(&self) -> NoCredentials {
        let state = self.state.lock();
        let report = state.upkeep.last_refresh();
        let reason = report.and_then(|report| report.error.clone());
        let reason = reason
            .unwrap_or_else(|| format!("there was no answer within {} s", WAIT_LIMIT.as_secs()));
        NoCredentials::Unavailable(format!("no token for {}: {reason}", state.server.name))
    }
}

/// The source of credentials for a server's requests: one login.
#[derive(Clone, Debug)]
pub struct LoginSource(Arc<LoginKeeper>);

impl LoginSource {
    pub fn new(keeper: Arc<LoginKeeper>) -> Self {
        Self(keeper)
    }
}

/// The token in the header lines of a request.
fn token_of(lines: &HeaderLines) -> Option<Secret> {
    let lines = std::str::from_utf8(lines.as_bytes()).ok()?;
    let token = lines.strip_prefix("authorization: Bearer ")?;
    Some(Secret::new(token.trim_end()))
}

impl CredentialSource for LoginSource {
    fn ready_lines(&self) -> Option<HeaderLines> {
        let ready = self.0.ready.load();
        let ready = ready.as_ref()?;
        let is_valid = ready.expires_at.is_none_or(|end| self.0.shared.now() < end);
        is_valid.then(|| ready.lines.clone())
    }

    fn lines(&self) -> RenewedLines<'_> {
        Box::pin(async {
            let token = self.0.token(|| self.0.next_step()).await?;
            Ok(header_lines(&token))
        })
    }

    fn refresh(&self, refused: RefusedCredentials) -> RenewedLines<'_> {
        Box::pin(async move {
            let token = token_of(&refused.lines);
            let step = || self.0.step_after_refusal(&refused, token.as_ref());
            Ok(header_lines(&self.0.token(step).await?))
        })
    }
}
