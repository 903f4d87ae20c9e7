//! The eras that the server speaks: how they are learned, and how they decide the next attempt's first words
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
use crate::supervisor::{declared::pinned, listing::Outcome, session_key::SessionKey};

/// A server that failed after `server/discover` is not sent it for this time, unless its operator starts it.
const PROBE_AGAIN: Duration = Duration::from_hours(1);

impl Task {
    /// How a session is opened: a client's own with the client's `initialize`, the shared one as the
    /// server wants it.
    pub(super) fn approach(&self, which: SessionKey) -> Approach {
        match (which, self.config.protocol) {
            (SessionKey::Isolated(_), _) => Approach::Legacy,
            (SessionKey::Shared, Protocol::Auto) => Approach::Detect(self.first_era()),
            (SessionKey::Shared, Protocol::At(revision)) => match revision.era() {
                Era::Legacy => Approach::Legacy,
                Era::Modern => Approach::Modern,
            },
        }
    }

    /// Takes note of the eras that the server has shown to speak. The pin says more.
    pub(super) fn learn(&self, eras: Eras) {
        if pinned(&self.config).is_none() {
            self.view.send_if_modified(|view| {
                let known = eras.or(view.eras);
                known != std::mem::replace(&mut view.eras, known)
            });
        }
    }

    /// An attempt has failed: the eras that were assumed may be wrong.
    pub(super) fn refused(&mut self, which: SessionKey, loss: &Loss, mut eras: Eras) {
        let known = eras.or(self.view.borrow().eras);
        if matches!((which, loss), (SessionKey::Isolated(_), Loss::Rejected(_))) {
            eras.legacy = Some(false);
        }
        // Else it may be the wrong URL, or the wrong day.
        if known.modern != Some(true) {
            eras.legacy = None;
        }
        self.learn(eras);
        if which == SessionKey::Shared {
            self.first = self.first_after(loss);
        }
    }

    /// In which era the server is spoken to first after a failed attempt. The attempt may have failed because of
    /// `server/discover`, so the next one does without.
    fn first_after(&self, loss: &Loss) -> Option<Era> {
        match loss {
            // A process that dies with the new question and without it is not given both again.
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

    /// In which era the server is spoken to first; `None` is to be found out.
    fn first_era(&self) -> Option<Era> {
        self.first
            .or_else(|| self.avoids_probe().then_some(Era::Legacy))
    }

    /// Whether the server failed after `server/discover`, and is not sent it for now.
    fn avoids_probe(&self) -> bool {
        self.view.borrow().avoids_probe && self.avoids_probe_until > Instant::now()
    }

    /// The failure may have had another reason, so the server is sent `server/discover` again some time.
    pub(super) fn avoid_probe(&mut self, avoids_probe: bool) {
        self.avoids_probe_until = Instant::now() + PROBE_AGAIN;
        self.view.send_if_modified(|view| {
            avoids_probe != std::mem::replace(&mut view.avoids_probe, avoids_probe)
        });
    }

    /// The first listing of a session has brought no tools. If the server was sent `server/discover` on its
    /// connection, that may be the reason: it is started once more without, unless it is at work.
    pub(super) fn suspect_probe(&mut self, tools: &Outcome) {
        let Some(session) = &self.shared.session else {
            return;
        };
        let is_at_work = session.liveness.in_flight() > 0;
        let is_suspect = session.is_probed && session.greeting.capabilities.tools;
        if self.avoids_probe() || !is_suspect || is_at_work {
            return;
        }
        let what = match tools {
            Outcome::Failed(_) => "its tools cannot be listed after server/discover",
            Outcome::Read | Outcome::Cut(_) => "it lists no tools after server/discover",
        };
        tracing::info!(server = %self.config.name, "{what}: it is started again without");
        self.log.note(&format!(
            "{what}, and is started again without; \"protocol\": \"legacy\" in its entry spares it that"
        ));
        self.avoid_probe(true);
        self.step(SessionKey::Shared, Event::Reconnect);
    }

    /// Forgets the eras, because the server is reached in another way now.
    pub(super) fn forget_eras(&mut self, is_same_server: bool) {
        let eras = match pinned(&self.config) {
            Some(pinned) => pinned,
            None if is_same_server => self.kept_eras,
            None => Eras::UNKNOWN,
        };
        self.view.send_modify(|view| view.eras = eras);
        self.avoid_probe(false);
        self.first = eras.first();
    }
}
