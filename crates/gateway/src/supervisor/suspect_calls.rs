//! The suspects of a server: the calls that may have crashed it. `core::suspects` has the rules.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use mainstay_core::suspects::{CallSignature, CrashVerdict, RefusedCall, Suspects};
use mainstay_transport::PossibleSuspect;
use tokio::time::Instant;

/// The suspects of a server, shared by its supervisor and its calls. `None` unless the server
/// crashed recently, so that most calls check only a pointer.
#[derive(Debug, Default)]
pub struct SuspectCalls(ArcSwapOption<Suspects>);

impl SuspectCalls {
    /// The refusal of a call. `None` if the call is allowed. `work` describes the call.
    pub fn refusal(&self, work: impl FnOnce() -> Option<PossibleSuspect>) -> Option<RefusedCall> {
        self.if_suspected(work, |suspects, call| suspects.refusal(call, now()))
    }

    /// Removes a call from the suspects, because the server has answered it.
    pub fn answered(&self, work: impl FnOnce() -> Option<PossibleSuspect>) {
        self.if_suspected(work, |suspects, call| {
            suspects.answered(call)?;
            self.change(|current| current.answered(call).unwrap_or_else(|| current.clone()));
            Some(())
        });
    }

    fn if_suspected<T>(
        &self,
        work: impl FnOnce() -> Option<PossibleSuspect>,
        check: impl FnOnce(&Suspects, CallSignature<'_>) -> Option<T>,
    ) -> Option<T> {
        let suspects = self.0.load();
        let suspects = suspects.as_ref()?;
        let work = work()?;
        let name = work.name()?;
        check(suspects, work.signature(&name)?)
    }

    /// Records a crash during which these calls were in flight. Returns the calls to refuse, and the
    /// number of crashes that they explain.
    pub fn crashed(&self, lost: &[PossibleSuspect]) -> CrashVerdict {
        let named: Vec<_> = lost
            .iter()
            .filter_map(|work| Some((work, work.name()?)))
            .collect();
        let in_flight: Vec<_> = named
            .iter()
            .filter_map(|(work, name)| work.signature(name))
            .collect();
        let mut verdict = CrashVerdict::default();
        self.change(|suspects| {
            let (next, found) = suspects.crashed(&in_flight, now());
            verdict = found;
            next
        });
        verdict
    }

    /// Removes the calls whose refusal has expired, and returns them.
    pub fn expired(&self) -> Vec<RefusedCall> {
        let mut allowed = Vec::new();
        self.change(|suspects| {
            let (next, found) = suspects.passed(now());
            allowed = found;
            next
        });
        allowed
    }

    /// Removes all suspects. Returns the calls that were refused.
    pub fn clear(&self) -> Vec<RefusedCall> {
        let before = self.0.swap(None);
        before.map_or_else(Vec::new, |before| before.all_refused())
    }

    /// Time at which the first refusal or suspect expires.
    pub fn due(&self) -> Option<Instant> {
        let suspects = self.0.load();
        suspects.as_ref()?.due().map(Instant::from_std)
    }

    /// Replaces the suspects by the result of `change`. Runs `change` again if another task has
    /// replaced them in between.
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
