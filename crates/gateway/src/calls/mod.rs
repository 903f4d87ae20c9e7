//! One call, end to end: find the session, send, await, and report how it ended.
//!
//! A call is one future. It never passes through a supervisor's task. What the server says before the
//! result goes to the caller's [`CallSink`], in the order in which it was written.

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
    call::{AttemptError, Call},
};
pub use self::{
    client::{Client, Notices, Questions, origin},
    closing::{Closing, SHUTTING_DOWN},
    detachable::Detachable,
    names::{BoundNames, NameKind, Reopened, SealedNames},
    outcome::is_recorded,
    receipt::{Answering, CallRefusal, Closed, Receipt, RequestedCall},
    request::{Answer, Request, Upstream},
    shared::{Calls, Cancel},
    sink::{CallSink, CallStream, log_level},
};

/// The limit of requests without a time limit: longer than any machine stays up.
const FOREVER: Duration = Duration::from_hours(24 * 365);

/// How much of a request's id the log shows, in bytes.
const MAX_ID: usize = 64;

/// The span of a call in Mainstay's own log. The client chooses the id, so it is cut. At the default level there is
/// no such span, and a call pays one comparison.
fn span_of(upstream: &Upstream, request: &Request, sink: &CallSink) -> tracing::Span {
    let id = request.id();
    tracing::debug_span!(
        "call",
        server = %upstream.server().name,
        session = sink.client.origin.session.as_deref(),
        id = &id[..id.floor_char_boundary(MAX_ID)],
    )
}

impl Calls {
    /// Calls the server and returns its response, whether result or error. `cancel` ends the call
    /// with the failure `cancelled`.
    pub async fn call(
        &self,
        receipt: &Receipt,
        upstream: Upstream,
        request: Request,
        sink: CallSink,
        cancel: oneshot::Receiver<String>,
    ) -> Result<Answer, Failure> {
        if self.closing.has_begun() {
            return Err(Closing::refusal().of_server(&upstream.server().name));
        }
        let (limit, hard_limit) = if request.is_listening() {
            (FOREVER, FOREVER)
        } else {
            // Not held for the time of the call: each thread has places for a few.
            let config = upstream.server().config();
            (config.call_timeout, config.max_call_timeout)
        };
        let started = Instant::now();
        let span = span_of(&upstream, &request, &sink);
        let _use = upstream.begin();
        let account = Account::open(self, receipt, &upstream, &request, &sink);
        let mut call = Call {
            calls: self,
            upstream: &upstream,
            request: &request,
            sink,
            deadline: started + limit,
            limit,
            hard_deadline: started + hard_limit,
            progressed: false,
            account,
        };
        // A server that sends without a pause takes all that a task may do before it yields (tokio's cooperative
        // budget). It must not keep the call from being cancelled, nor from its end in time.
        let mut cancel = pin!(unconstrained(async {
            tokio::select! {
                biased;
                // Otherwise it could not be cancelled any more.
                Ok(reason) = cancel => reason,
                () = self.closing.over() => SHUTTING_DOWN.to_owned(),
            }
        }));
        // Once more on a new session, and only if nothing of the call can have run, or running it
        // twice is as good as once (invariant 6). The second attempt of a call that was lost may be the
        // first to learn that its session is gone, too, and then was not sent.
        let (mut not_sent_before, mut lost_before, mut redirects) = (false, false, 0);
        let outcome = loop {
            let attempted = {
                let mut attempt = pin!(call.attempt(cancel.as_mut()));
                // Polled in place: the future of an attempt is large, and a wrapper would move it.
                poll_fn(|context| span.in_scope(|| attempt.as_mut().poll(context))).await
            };
            match attempted {
                Err(AttemptError::Redirected(why)) if redirects < MAX_REDIRECTS => {
                    redirects += 1;
                    call.account.failed(State::NotSent, &why);
                }
                Err(AttemptError::NotSent(why)) if !not_sent_before && !self.closing.is_over() => {
                    not_sent_before = true;
                    call.account.failed(State::NotSent, &why);
                }
                Err(AttemptError::Lost(why))
                    if !lost_before
                        && !self.closing.is_over()
                        && repeat::is_repeatable(&request, upstream.server()) =>
                {
                    lost_before = true;
                    call.account.failed(State::Sent, &why);
                }
                other => break other.map_err(AttemptError::into_failure),
            }
        };
        let answer = call.account.close(outcome).await?;
        let client = &call.sink.client;
        Ok(self.fitted(&upstream, &request, client, answer).await)
    }
}
