//! The calls that may have crashed a server. `core::suspects` decides.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use mainstay_core::suspects::{CallSignature, RefusedCall, Suspects, Verdict};
use mainstay_transport::PossibleSuspect;
use tokio::time::Instant;

/// The suspects of a server, for its supervisor and its calls. There are none unless the server crashed
/// lately, so that a call looks at one pointer.
#[derive(Debug, Default)]
pub struct SuspectCalls(ArcSwapOption<Suspects>);

impl SuspectCalls {
    /// Whether a call that does `work` is refused.
    pub fn refusal(&self, work: impl FnOnce() -> Option<PossibleSuspect>) -> Option<RefusedCall> {
        self.look(work, |suspects, asked| suspects.refusal(asked, now()))
    }

    /// A call was answered.
    pub fn answered(&self, work: impl FnOnce() -> Option<PossibleSuspect>) {
        self.look(work, |suspects, asked| {
            suspects.answered(asked)?;
            self.change(|it| it.answered(asked).unwrap_or_else(|| it.clone()));
            Some(())
        });
    }

    fn look<T>(
        &self,
        work: impl FnOnce() -> Option<PossibleSuspect>,
        look: impl FnOnce(&Suspects, CallSignature<'_>) -> Option<T>,
    ) -> Option<T> {
        let suspects = self.0.load();
        let suspects = suspects.as_ref()?;
        let work = work()?;
        let name = work.name()?;
        look(suspects, work.asked(&name)?)
    }

    /// The process has crashed while it had these calls.
    pub fn crashed(&self, lost: &[PossibleSuspect]) -> Verdict {
        let named: Vec<_> = lost
            .iter()
            .filter_map(|work| Some((work, work.name()?)))
            .collect();
        let in_flight: Vec<_> = named
            .iter()
            .filter_map(|(work, name)| work.asked(name))
            .collect();
        let mut verdict = Verdict::default();
        self.change(|suspects| {
            let (next, found) = suspects.crashed(&in_flight, now());
            verdict = found;
            next
        });
        verdict
    }

    /// Takes out the refused calls whose refusal has expired.
    pub fn expired(&self) -> Vec<RefusedCall> {
        let mut allowed = Vec::new();
        self.change(|suspects| {
            let (next, found) = suspects.passed(now());
            allowed = found;
            next
        });
        allowed
    }

    /// Forgets everything; returns the calls that were refused.
    pub fn clear(&self) -> Vec<RefusedCall> {
        let before = self.0.swap(None);
        before.map_or_else(Vec::new, |before| before.all_refused())
    }

    /// When the time of a refused call is over, or of a suspect.
    pub fn due(&self) -> Option<Instant> {
        let suspects = self.0.load();
        suspects.as_ref()?.due().map(Instant::from_std)
    }

    /// Calls and the supervisor change it: each makes its change again where another came first.
    fn change(&self, mut change: impl FnMut(&Suspects) -> Suspects) {
        let none = Suspects::default();
        self.0.rcu(|before| {
            let next = change(before.as_deref().unwrap_or(&none));
            (!next.is_empty()).then(|| Arc::new(next))
        });
    }
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}
