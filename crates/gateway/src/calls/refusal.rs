//! Refuses calls that have crashed their server several times, for a limited time.

use mainstay_core::{
    failure::{Failure, FailureKind},
    message::Method,
    suspects::{Arguments, RefusedCall},
};
use mainstay_transport::PossibleSuspect;
use tokio::time::Instant;

use super::{
    call::{ActiveCall, AttemptError},
    request::Upstream,
};

impl ActiveCall<'_> {
    /// The call as a possible suspect, in case the server crashes. `None` on an isolated session,
    /// whose crash affects only the call's own client.
    pub(super) fn work(&self) -> Option<PossibleSuspect> {
        match self.upstream {
            Upstream::Shared(_) => {
                PossibleSuspect::from_request(&self.request.frame, self.request.original.as_ref())
            }
            Upstream::IsolatedSession(_) => None,
        }
    }

    /// Fails if the call is refused as a suspect.
    pub(super) fn check_refusal(&self) -> Result<(), AttemptError> {
        let refused = self
            .upstream
            .server()
            .suspect_calls()
            .refusal(|| self.work());
        refused.map_or(Ok(()), |refused| {
            Err(AttemptError::Final(self.refusal_failure(&refused)))
        })
    }

    /// Removes the call from the suspects, because the server has answered it.
    pub(super) fn record_answer(&self) {
        self.upstream
            .server()
            .suspect_calls()
            .answered(|| self.work());
    }

    fn refusal_failure(&self, refused: &RefusedCall) -> Failure {
        let server = &self.upstream.server().name;
        let noun = match refused.method {
            Method::PromptsGet => "Prompt",
            Method::ResourcesRead => "Resource",
            _ => "Tool",
        };
        let with = match refused.arguments {
            Arguments::Same => "with these arguments",
            Arguments::Any => "with any arguments",
        };
        let (name, crashes) = (&refused.name, refused.crashes);
        let wait = refused
            .until
            .saturating_duration_since(Instant::now().into_std());
        let message = format!(
            "{noun} '{name}' of server '{server}' is refused {with}: it was in flight at {crashes} crashes of the server, and was never answered. This call was not sent; it is allowed again in {} s, or after `mainstay restart {server}`",
            wait.as_secs()
        );
        self.failure(FailureKind::CallCrashesServer, message)
            .with("tool", &**name)
            .with(
                "retryAfterMs",
                u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            )
    }
}
