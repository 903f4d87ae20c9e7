//! Offers a login to a client whose call was refused because the client has no login. Used for
//! servers at which each principal has its own login (`oauth.perPrincipal`).

use std::{pin::Pin, time::Duration};

use mainstay_core::{
    era::questions::{InputRequest, InputRequired},
    failure::{Failure, FailureKind},
    message,
    principal::Principal,
};
use tokio::time::{Instant, timeout};

use super::{
    call::{ActiveCall, AttemptError, Round},
    request::Upstream,
};
use crate::{OfferedLogin, supervisor::ServerHandle};

/// Time limit for the person to log in, after the client has accepted to open the address.
const PATIENCE: Duration = Duration::from_mins(10);

/// The key of the question in an `input_required` result.
const QUESTION: &str = "login";

impl ActiveCall<'_> {
    /// True if the call's principal has its own login at the server and has to log in.
    pub(super) fn lacks_own_login(&self) -> bool {
        let Upstream::IsolatedSession(isolated_session) = self.upstream else {
            return false;
        };
        isolated_session.has_own_login() && isolated_session.needs_login()
    }

    /// Asks the client's person to log in, and waits for the login. If the client cannot be asked,
    /// sets [`ActiveCall::login_url`] and fails.
    pub(super) async fn log_in(
        &mut self,
        failure: Failure,
        mut cancel: Pin<&mut impl Future<Output = String>>,
    ) -> Result<(), Failure> {
        let server = self.upstream.server();
        let offered = server.offer_login(&self.sink.client.principal).await;
        let OfferedLogin { url, completed } = match offered {
            Ok(offered) => offered,
            Err(reason) => return Err(without_login(failure, &reason)),
        };
        let message = format!("Log in to {} to go on with this call.", server.name);
        let question = InputRequest::to_open(&url, &message);
        if !self.accepts_question(&question) {
            self.login_url = Some(url);
            return Err(failure);
        }
        let required = InputRequired {
            requests: vec![(QUESTION.to_owned(), question)],
            state: None,
        };
        let revision = self.sink.client.caller.revision;
        let round = self.round(revision, required, cancel.as_mut()).await;
        let round = round.map_err(AttemptError::into_failure)?;
        if !is_accepted(&round) {
            return Err(without_login(failure, "the login was declined"));
        }
        tokio::select! {
            biased;
            waited = timeout(PATIENCE, completed) => {
                if waited.is_err() {
                    self.login_url = Some(url);
                    return Err(failure);
                }
            }
            reason = cancel => return Err(self.cancelled(&reason)),
        }
        self.notify_elicitations_complete(&round);
        let now = Instant::now();
        self.deadline = now + self.limit;
        self.hard_deadline = self.hard_deadline.max(self.deadline);
        Ok(())
    }
}

fn is_accepted(round: &Round) -> bool {
    let answer = round.responses.first().map(|(_, answer)| &**answer);
    let action = answer.and_then(|answer| message::text_member(answer, "action"));
    action.as_deref() == Some("accept")
}

/// Begins a login, and adds its address to a [`FailureKind::LoginRequired`] failure. Returns any
/// other failure unchanged.
pub async fn with_offered_login(
    failure: Failure,
    server: &ServerHandle,
    principal: &Principal,
) -> Failure {
    if failure.kind != FailureKind::LoginRequired {
        return failure;
    }
    match server.offer_login(principal).await {
        Ok(offered) => with_login_url(failure, &offered.url),
        Err(reason) => without_login(failure, &reason),
    }
}

pub(super) fn with_login_url(mut failure: Failure, url: &str) -> Failure {
    failure.message = format!("{}; or open {url}", failure.message);
    failure.with("loginUrl", url)
}

fn without_login(mut failure: Failure, reason: &str) -> Failure {
    failure.message = format!("{} ({reason})", failure.message);
    failure
}
