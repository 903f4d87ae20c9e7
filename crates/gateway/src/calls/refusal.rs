//! Refuses calls that crash their server, for a while.

use mainstay_core::{
    failure::{Failure, FailureKind},
    message::Method,
    suspects::{Arguments, RefusedCall},
};
use mainstay_transport::PossibleSuspect;
use tokio::time::Instant;

use super::{
    call::{AttemptError, Call},
    request::Upstream,
};

impl Call<'_> {
    /// The description of a call that is kept in case the server crashes. `None` for isolated sessions, whose
    /// crashes concern their client only.
    pub(super) fn work(&self) -> Option<PossibleSuspect> {
        match self.upstream {
            Upstream::Shared(_) => {
                PossibleSuspect::of(&self.request.frame, self.request.original.as_ref())
            }
            Upstream::IsolatedSession(_) => None,
        }
    }

    /// Fails if the call is refused.
    pub(super) fn check_refusal(&self) -> Result<(), AttemptError> {
        let refused = self.upstream.server().suspect_calls.refusal(|| self.work());
        refused.map_or(Ok(()), |refused| {
            Err(AttemptError::Final(self.refused(&refused)))
        })
    }

    /// The server has answered: it has survived this call.
    pub(super) fn record_answer(&self) {
        self.upstream
            .server()
            .suspect_calls
            .answered(|| self.work());
    }

    fn refused(&self, refused: &RefusedCall) -> Failure {
        let server = &self.upstream.server().name;
        let what = match refused.method {
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
            "{what} '{name}' of server '{server}' is refused {with}: it was in flight at {crashes} crashes of the server, and was never answered. This call was not sent; it is allowed again in {} s, or after `mainstay restart {server}`",
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
