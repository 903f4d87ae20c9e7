//! One call from end to end: finds the session, sends the request, waits for the answer, and
//! reports the outcome.
//!
//! A call is one future, and does not pass through a supervisor. Messages of the server before the
//! result go to the caller's [`CallSink`], in the order in which they arrive.

mod account;
mod attempt;
mod call;
mod client;
mod closing;
mod detachable;
mod era_translation;
mod large;
mod names;
mod outcome;
mod own_login;
mod owner;
mod progress;
mod receipt;
mod refusal;
mod repeat;
mod request;
mod rounds;
mod shared;
mod sink;
mod subscribe;
mod tasks;

use std::{future::poll_fn, pin::pin, time::Duration};

use mainstay_core::{failure::Failure, record::State};
use mainstay_transport::MAX_REDIRECTS;
use tokio::{sync::oneshot, task::unconstrained, time::Instant};

use self::{
    account::Account,
    call::{ActiveCall, AttemptError},
};
pub use self::{
    client::{CallClient, ClientQuestions, Notices, origin},
    closing::{Closing, SHUTTING_DOWN},
    detachable::Detachable,
    names::{BoundNames, NameKind, Reopened, SealedNames},
    outcome::is_recorded,
    own_login::with_offered_login,
    receipt::{Answering, CallRefusal, Closed, Receipt, RequestedCall},
    request::{CallAnswer, CallRequest, Upstream},
    shared::{Calls, Cancel},
    sink::{CallSink, CallStream, log_level},
};

/// The time limit of listening requests, which have none: longer than any machine stays up.
const FOREVER: Duration = Duration::from_hours(24 * 365);

/// Maximum number of bytes of a request's id in the log.
const MAX_ID: usize = 64;

/// The span of a call in Mainstay's own log. The id is cut, because clients choose their ids. At the
/// default log level the span is disabled, which costs one comparison.
fn span_of(upstream: &Upstream, request: &CallRequest, sink: &CallSink) -> tracing::Span {
    let id = request.id();
    tracing::debug_span!(
        "call",
        server = %upstream.server().name,
        session = sink.client.origin.session.as_deref(),
        id = &id[..id.floor_char_boundary(MAX_ID)],
    )
}

impl Calls {
    /// Calls the server and returns its response: a result or an error. `cancel` receives the reason
    /// of a cancellation, and ends the call with the failure `cancelled`.
    pub async fn call(
        &self,
        receipt: &Receipt,
        upstream: Upstream,
        request: CallRequest,
        sink: CallSink,
        cancel: oneshot::Receiver<String>,
    ) -> Result<CallAnswer, Failure> {
        if self.closing.has_begun() {
            return Err(Closing::refusal().with_server(&upstream.server().name));
        }
        let (limit, hard_limit) = if request.is_listening() {
            (FOREVER, FOREVER)
        } else {
            // Do not hold the guard during the call: arc_swap has slots for only a few guards in
            // each thread.
            let config = upstream.server().config();
            (config.call_timeout, config.max_call_timeout)
        };
        let started = Instant::now();
        let span = span_of(&upstream, &request, &sink);
        let _use = upstream.begin();
        let account = Account::open(self, receipt, &upstream, &request, &sink);
        let mut call = ActiveCall {
            calls: self,
            upstream: &upstream,
            request: &request,
            sink,
            deadline: started + limit,
            limit,
            hard_deadline: started + hard_limit,
            progressed: false,
            login_url: None,
            account,
        };
        // A server that sends without a pause uses up the task's cooperative budget (tokio's
        // `coop`). Without `unconstrained`, such a call could not be cancelled.
        let mut cancel = pin!(unconstrained(async {
            tokio::select! {
                biased;
                // If the sender was dropped, wait only for the shutdown.
                Ok(reason) = cancel => reason,
                () = self.closing.over() => SHUTTING_DOWN.to_owned(),
            }
        }));
        // Retry once on a new session, but only if the call cannot have run, or if running it
        // twice does no harm (invariant 6). The two cases are counted apart, because the second
        // attempt of a lost call may find its session gone. It was then not sent, and is retried.
        let (mut not_sent_before, mut lost_before, mut redirects) = (false, false, 0);
        // Offer a login only once. If the server refuses the new login, too, the call fails.
        let mut logged_in_before = false;
        let outcome = loop {
            let attempted = {
                let mut attempt = pin!(call.attempt(cancel.as_mut()));
                // Polled in place: the future of an attempt is large, and a wrapper would move it.
                poll_fn(|context| span.in_scope(|| attempt.as_mut().poll(context))).await
            };
            match attempted {
                Err(AttemptError::Redirected(failure)) if redirects < MAX_REDIRECTS => {
                    redirects += 1;
                    call.account.attempt_failed(State::NotSent, &failure);
                }
                Err(AttemptError::NotSent(failure))
                    if !not_sent_before && !self.closing.is_over() =>
                {
                    not_sent_before = true;
                    call.account.attempt_failed(State::NotSent, &failure);
                }
                Err(AttemptError::Lost(failure))
                    if !lost_before
                        && !self.closing.is_over()
                        && repeat::is_repeatable(&request, upstream.server()) =>
                {
                    lost_before = true;
                    call.account.attempt_failed(State::Sent, &failure);
                }
                Err(AttemptError::LoginRequired(failure)) if !logged_in_before => {
                    logged_in_before = true;
                    let login = call.log_in(failure.clone(), cancel.as_mut());
                    if let Err(failure) = Box::pin(login).await {
                        break Err(failure);
                    }
                    call.account.attempt_failed(State::NotSent, &failure);
                }
                other => break other.map_err(AttemptError::into_failure),
            }
        };
        let secrets = call
            .account
            .is_kept()
            .then(|| upstream.server().log.secrets());
        let closed = call.account.close(outcome, secrets.flatten()).await;
        // The address of a login is a secret of the client, so it is added after the recording.
        let answer = closed.map_err(|failure| match call.login_url {
            Some(url) => own_login::with_login_url(failure, &url),
            None => failure,
        })?;
        let client = &call.sink.client;
        Ok(self.cut_to_limit(&upstream, &request, client, answer).await)
    }
}
