//! Tells clients and the log about calls that may have crashed the server. `core::suspects` decides.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use mainstay_core::{
    catalog::ListKind,
    event::{EventKind, told_names},
    lifecycle::{Loss, Report},
    message::Method,
    suspects::{Asked, REFUSED_FOR, Refused, Suspects, Verdict},
};
use mainstay_transport::{PossibleSuspect, Session};
use tokio::time::Instant;

use super::task::Task;

/// The suspects of a server, for its supervisor and its calls. There are none unless the server crashed
/// lately, so that a call looks at one pointer.
#[derive(Debug, Default)]
pub struct Blame(ArcSwapOption<Suspects>);

impl Blame {
    /// Whether a call that does `work` is refused.
    pub fn refusal(&self, work: impl FnOnce() -> Option<PossibleSuspect>) -> Option<Refused> {
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
        look: impl FnOnce(&Suspects, Asked<'_>) -> Option<T>,
    ) -> Option<T> {
        let suspects = self.0.load();
        let suspects = suspects.as_ref()?;
        let work = work()?;
        let name = work.name()?;
        look(suspects, work.asked(&name)?)
    }

    fn crashed(&self, lost: &[PossibleSuspect]) -> Verdict {
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

    /// The calls whose time is over.
    fn passed(&self) -> Vec<Refused> {
        let mut allowed = Vec::new();
        self.change(|suspects| {
            let (next, found) = suspects.passed(now());
            allowed = found;
            next
        });
        allowed
    }

    /// Forgets everything; returns the calls that were refused.
    fn clear(&self) -> Vec<Refused> {
        let before = self.0.swap(None);
        before.map_or_else(Vec::new, |before| before.all_refused())
    }

    /// When [`Task::allow_passed`] has something to do.
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

impl Task {
    /// The process of the shared session has crashed: what its lifecycle is to hear.
    pub(super) fn charge(&self, session: &Session, crash: Loss) -> Report {
        let verdict = self.blame.crashed(&session.take_lost());
        for call in &verdict.refused {
            tracing::warn!(
                server = %self.config.name,
                method = call.method.name(),
                crashes = call.crashes,
                "a call that was in flight at each crash is refused"
            );
            self.tell(EventKind::CallRefused {
                method: call.method.name().to_owned(),
                tool: self.listed_name(call),
                arguments: call.arguments,
                crashes: call.crashes,
                retry_after_ms: u64::try_from(REFUSED_FOR.as_millis()).unwrap_or(u64::MAX),
            });
        }
        match verdict.crashes {
            0 => Report::Ended(crash),
            crashes => Report::Poisoned(crash, crashes),
        }
    }

    /// Allows the calls again whose time is over.
    pub(super) fn allow_passed(&self) {
        if self.blame.due().is_some_and(|due| due <= Instant::now()) {
            self.tell_allowed(&self.blame.passed());
        }
    }

    /// Allows all calls again: its operator has started the server, or it is another program.
    pub(super) fn allow_all(&self) {
        self.tell_allowed(&self.blame.clear());
    }

    fn tell_allowed(&self, calls: &[Refused]) {
        for call in calls {
            self.tell(EventKind::CallAllowed {
                method: call.method.name().to_owned(),
                tool: self.listed_name(call),
                arguments: call.arguments,
            });
        }
    }

    /// What the server lists. Any other name, or a URI, is what a client made up, and may be private.
    fn listed_name(&self, call: &Refused) -> Option<String> {
        let kind = match call.method {
            Method::ToolsCall => ListKind::Tools,
            Method::PromptsGet => ListKind::Prompts,
            Method::ResourcesRead => ListKind::Resources,
            _ => return None,
        };
        let view = self.view.borrow();
        view.catalog.as_ref()?.item(kind, &call.name)?;
        told_names([&*call.name].into_iter()).pop()
    }
}
