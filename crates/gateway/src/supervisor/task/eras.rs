//! The eras that the server speaks: how they are learned, and how they decide the next attempt's first words
//! (docs/dev/design.md, "Eras").

use mainstay_core::{
    config::Protocol,
    era::{Era, Eras},
    lifecycle::Loss,
};
use mainstay_transport::Approach;

use super::Task;
use crate::supervisor::{declared::pinned, session_key::SessionKey};

impl Task {
    /// How a session is opened: a client's own with the client's `initialize`, the shared one as the
    /// server wants it.
    pub(super) fn approach(&self, which: SessionKey) -> Approach {
        match (which, self.config.protocol) {
            (SessionKey::Isolated(_), _) => Approach::Legacy,
            (SessionKey::Shared, Protocol::Auto) => Approach::Detect(self.first),
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
            // A process that dies with the new question and without it is not given both again.
            self.first = matches!(loss, Loss::Crashed { .. }).then_some(Era::Legacy);
        }
    }

    /// Forgets the eras, because the server is reached in another way now.
    pub(super) fn forget_eras(&mut self, is_same_server: bool) {
        let eras = match pinned(&self.config) {
            Some(pinned) => pinned,
            None if is_same_server => self.kept_eras,
            None => Eras::UNKNOWN,
        };
        self.view.send_modify(|view| view.eras = eras);
        self.first = eras.first();
    }
}
