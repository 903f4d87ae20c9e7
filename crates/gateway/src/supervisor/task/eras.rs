//! Learns the eras that the server speaks, and chooses the era of the next attempt's first message
//! (docs/dev/design.md, "Eras").

use std::time::Duration;

use mainstay_core::{
    config::Protocol,
    era::{Era, Eras},
    lifecycle::{Event, Loss},
};
use mainstay_transport::Approach;
use tokio::time::Instant;

use super::Task;
use crate::supervisor::{declared::pinned, listing::ListOutcome, session_key::SessionKey};

/// Time for which no `server/discover` is sent to a server that failed after one. A start by the
/// operator ends it.
const PROBE_AGAIN: Duration = Duration::from_hours(1);

impl Task {
    /// The way to open a session. An isolated session is legacy and uses its client's `initialize`.
    /// If the server has no legacy era, the isolated session is modern and differs only in its
    /// credentials. The shared session uses the configured revision, or detects the era.
    pub(super) fn approach(&self, key: SessionKey) -> Approach {
        match (key, self.config.protocol) {
            (SessionKey::Isolated(_), _) if self.view.borrow().eras.legacy == Some(false) => {
                Approach::Modern
            }
            (SessionKey::Isolated(_), _) => Approach::Legacy,
            (SessionKey::Shared, Protocol::Auto) => Approach::Detect(self.first_era()),
            (SessionKey::Shared, Protocol::At(revision)) => match revision.era() {
                Era::Legacy => Approach::Legacy,
                Era::Modern => Approach::Modern,
            },
        }
    }

    /// Records for each era whether the server speaks it. Does nothing if the configuration sets a
    /// revision.
    pub(super) fn record_eras(&self, eras: Eras) {
        if pinned(&self.config).is_none() {
            self.view.send_if_modified(|view| {
                let updated = eras.or(view.eras);
                updated != std::mem::replace(&mut view.eras, updated)
            });
        }
    }

    /// Updates the known eras after a failed attempt, because the assumed eras may be wrong.
    pub(super) fn learn_from_refusal(&mut self, key: SessionKey, loss: &Loss, mut eras: Eras) {
        let known_eras = eras.or(self.view.borrow().eras);
        if matches!((key, loss), (SessionKey::Isolated(_), Loss::Rejected(_))) {
            eras.legacy = Some(false);
        }
        // Exclude the legacy era only if the server is known to speak the modern era. Otherwise the
        // URL may be wrong, or the failure may be temporary.
        if known_eras.modern != Some(true) {
            eras.legacy = None;
        }
        self.record_eras(eras);
        if key == SessionKey::Shared {
            self.eras.first = self.first_after(loss);
        }
    }

    /// The era of the first message after a failed attempt. If `server/discover` may have caused the
    /// failure, the next attempt omits it.
    fn first_after(&self, loss: &Loss) -> Option<Era> {
        match loss {
            // Stay with the legacy era even if the process crashes without `server/discover`, too.
            // After `None`, the next attempt would send `server/discover` again.
            Loss::Crashed { .. } => Some(Era::Legacy),
            Loss::Rejected(_)
            | Loss::ConnectTimeout(_)
            | Loss::SilentStart(_)
            | Loss::Unresponsive(_)
                if self.first_era().is_none() =>
            {
                self.log.note(
                    "the next attempt does without server/discover; \"protocol\": \"legacy\" in its entry has all of them do so",
                );
                Some(Era::Legacy)
            }
            _ => None,
        }
    }

    /// The era of the next attempt's first message. `None`: detect it.
    fn first_era(&self) -> Option<Era> {
        self.eras
            .first
            .or_else(|| self.avoids_probe().then_some(Era::Legacy))
    }

    /// True if no `server/discover` is sent for now, because the server failed after an earlier one.
    fn avoids_probe(&self) -> bool {
        self.view.borrow().avoids_probe && self.eras.avoids_probe_until > Instant::now()
    }

    /// Sets whether `server/discover` is omitted. The setting expires after [`PROBE_AGAIN`], because
    /// the failure may have had another cause.
    pub(super) fn avoid_probe(&mut self, avoids_probe: bool) {
        self.eras.avoids_probe_until = Instant::now() + PROBE_AGAIN;
        self.view.send_if_modified(|view| {
            avoids_probe != std::mem::replace(&mut view.avoids_probe, avoids_probe)
        });
    }

    /// Handles a first listing without tools. If `server/discover` was sent on this connection, it may
    /// be the cause. Then reconnects without it, unless calls are in flight.
    pub(super) fn handle_empty_listing(&mut self, tools: &ListOutcome) {
        let Some(session) = &self.shared.session else {
            return;
        };
        let is_at_work = session.liveness.in_flight() > 0;
        let is_suspect = session.is_probed && session.greeting.capabilities.tools;
        if self.avoids_probe() || !is_suspect || is_at_work {
            return;
        }
        let symptom = match tools {
            ListOutcome::Failed(_) => "its tools cannot be listed after server/discover",
            ListOutcome::Read | ListOutcome::Cut(_) => "it lists no tools after server/discover",
        };
        tracing::info!(server = %self.config.name, "{symptom}: it is started again without");
        self.log.note(&format!(
            "{symptom}, and is started again without; \"protocol\": \"legacy\" in its entry spares it that"
        ));
        self.avoid_probe(true);
        self.step(SessionKey::Shared, Event::Reconnect);
    }

    /// Resets the known eras, because the server's target has changed.
    pub(super) fn forget_eras(&mut self, is_same_server: bool) {
        let eras = match pinned(&self.config) {
            Some(pinned) => pinned,
            None if is_same_server => self.lists.kept_eras,
            None => Eras::UNKNOWN,
        };
        self.view.send_modify(|view| view.eras = eras);
        self.avoid_probe(false);
        self.eras.first = eras.first();
    }
}
