//! Refuses calls that may have crashed the server, allows them again, and publishes both.

use mainstay_core::{
    catalog::ListKind,
    event::{EventKind, listed_names},
    lifecycle::{Loss, SessionReport},
    message::Method,
    suspects::{REFUSED_FOR, RefusedCall},
};
use mainstay_transport::UpstreamSession;
use tokio::time::Instant;

use super::Task;

impl Task {
    /// Records a crash of the shared session's process. Returns the report for its lifecycle.
    pub(super) fn record_crash(&self, session: &UpstreamSession, crash: Loss) -> SessionReport {
        let verdict = self.handles.suspect_calls.crashed(&session.take_lost());
        for call in &verdict.refused {
            tracing::warn!(
                server = %self.config.name,
                method = call.method.name(),
                crashes = call.crashes,
                "a call that was in flight at each crash is refused"
            );
            self.publish_event(EventKind::CallRefused {
                method: call.method.name().to_owned(),
                tool: self.listed_name(call),
                arguments: call.arguments,
                crashes: call.crashes,
                retry_after_ms: u64::try_from(REFUSED_FOR.as_millis()).unwrap_or(u64::MAX),
            });
        }
        match verdict.crashes {
            0 => SessionReport::Ended(crash),
            crashes => SessionReport::Poisoned(crash, crashes),
        }
    }

    /// Allows the calls again whose refusal has expired.
    pub(super) fn allow_expired(&self) {
        if self
            .handles
            .suspect_calls
            .due()
            .is_some_and(|due| due <= Instant::now())
        {
            self.publish_allowed(&self.handles.suspect_calls.expired());
        }
    }

    /// Allows all calls again. Called when the operator has started the server, or when its target
    /// has changed.
    pub(super) fn allow_all(&self) {
        self.publish_allowed(&self.handles.suspect_calls.clear());
    }

    fn publish_allowed(&self, calls: &[RefusedCall]) {
        for call in calls {
            self.publish_event(EventKind::CallAllowed {
                method: call.method.name().to_owned(),
                tool: self.listed_name(call),
                arguments: call.arguments,
            });
        }
    }

    /// The name of the call, if the server lists it. Any other name or URI must not be published: it
    /// may be private, or made up by the client.
    fn listed_name(&self, call: &RefusedCall) -> Option<String> {
        let kind = match call.method {
            Method::ToolsCall => ListKind::Tools,
            Method::PromptsGet => ListKind::Prompts,
            Method::ResourcesRead => ListKind::Resources,
            _ => return None,
        };
        let view = self.view.borrow();
        view.catalog.as_ref()?.item(kind, &call.name)?;
        listed_names([&*call.name].into_iter()).pop()
    }
}
