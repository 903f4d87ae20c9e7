//! Plans when a server's lists are read, and remembers the trouble with them.

use std::time::Duration;

use futures_util::FutureExt as _;
use mainstay_core::{
    catalog::ListKind,
    ids::{Epoch, ServerName},
};
use tokio::{task::JoinSet, time::Instant};
use tracing::Instrument as _;

use super::listing::{Listed, Outcome};

/// A server that changes its lists in a burst is listed once.
const DEBOUNCE: Duration = Duration::from_millis(200);

/// Lists that could not be read are read again after this time, then after twice as long, and so on.
const RETRY: Duration = Duration::from_secs(10);
const MAX_RETRY: Duration = Duration::from_mins(10);

/// When to list, and the listing that runs.
#[derive(Default)]
pub struct Listings {
    running: JoinSet<Done>,
    /// Lists to be read at `at`; the flag says that the server announced a change.
    stale: Vec<(ListKind, bool)>,
    at: Option<Instant>,
    /// Listings in a row of which a list could not be read.
    failures: u32,
    troubles: Troubles,
}

/// Trouble with the lists of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub reason: String,
    /// Whether the server counts as degraded. It does not while its tools can be listed, even if another list
    /// cannot.
    pub degrades: bool,
}

/// The trouble with each list of a server, until that list is read again.
#[derive(Debug, Default)]
struct Troubles {
    by_kind: [Option<Trouble>; ListKind::ALL.len()],
    /// How many tools the server had before it listed none (invariant 8).
    tools_gone: Option<usize>,
}

/// A listing that has ended.
#[derive(Debug)]
pub struct Done {
    /// The attempt whose session was asked.
    pub epoch: Epoch,
    pub listed: Listed,
    /// The lists that the server had said have changed.
    pub announced: Vec<ListKind>,
}

impl Listings {
    /// The server says that a list has changed.
    pub fn announced(&mut self, kind: ListKind) {
        self.stale.retain(|(stale, _)| *stale != kind);
        self.stale.push((kind, true));
        self.due_in(DEBOUNCE);
    }

    /// Reads the stale lists after this time, or sooner if they are due sooner.
    fn due_in(&mut self, wait: Duration) {
        let at = Instant::now() + wait;
        self.at = Some(self.at.map_or(at, |due| due.min(at)));
    }

    /// Takes note of the outcome of reading lists. The server `had` so many tools before, and `has` so many now.
    /// Returns the trouble with the lists.
    pub fn settled(
        &mut self,
        lists: &[(ListKind, Outcome)],
        had: usize,
        has: usize,
    ) -> Option<Trouble> {
        for (kind, outcome) in lists {
            let (reason, degrades) = match outcome {
                Outcome::Read => (None, false),
                Outcome::Cut(reason) => (Some(reason), true),
                Outcome::Failed(reason) => (Some(reason), *kind == ListKind::Tools || has == 0),
            };
            self.troubles.by_kind[*kind as usize] = reason.map(|reason| Trouble {
                reason: reason.clone(),
                degrades,
            });
        }
        let failed =
            |(kind, outcome): &(_, _)| matches!(outcome, Outcome::Failed(_)).then_some(*kind);
        let failed: Vec<ListKind> = lists.iter().filter_map(failed).collect();
        self.failures = match &*failed {
            [] => 0,
            _ => self.failures.saturating_add(1),
        };
        self.read_again(&failed);
        self.troubles.tools_gone = match (had, has) {
            (_, 1..) => None,
            (0, 0) => self.troubles.tools_gone,
            (had, 0) => Some(had),
        };
        let gone = self.troubles.tools_gone;
        let gone = gone.map(|had| Trouble {
            reason: format!("it lists no tools; it had {had}"),
            degrades: true,
        });
        let mut known: Vec<_> = self.troubles.by_kind.iter().flatten().cloned().collect();
        known.extend(gone);
        // The first that degrades the server, or else the first.
        known.sort_by_key(|trouble| !trouble.degrades);
        known.into_iter().next()
    }

    /// Whether it is known that this list cannot be read, and why.
    pub fn is_known(&self, kind: ListKind, reason: &str) -> bool {
        let known = self.troubles.by_kind[kind as usize].as_ref();
        known.is_some_and(|trouble| trouble.reason == reason)
    }

    /// Lists that could not be read are due again some time.
    fn read_again(&mut self, kinds: &[ListKind]) {
        for &kind in kinds {
            if !self.stale.iter().any(|(stale, _)| *stale == kind) {
                self.stale.push((kind, false));
            }
        }
        if !kinds.is_empty() {
            let doubled = 2_u32.saturating_pow(self.failures.saturating_sub(1));
            self.due_in(RETRY.saturating_mul(doubled).min(MAX_RETRY));
        }
    }

    pub fn due(&self) -> Option<Instant> {
        self.at
    }

    /// Takes the lists that are due now. There are none while a listing runs: an older result must not overwrite
    /// a newer one.
    pub fn take_due(&mut self) -> Option<(Vec<ListKind>, Vec<ListKind>)> {
        if self.at? > Instant::now() {
            return None;
        }
        if !self.running.is_empty() {
            self.at = Some(Instant::now() + DEBOUNCE);
            return None;
        }
        self.at = None;
        let stale = std::mem::take(&mut self.stale);
        let announced = stale.iter().filter(|(_, announced)| *announced);
        Some((
            stale.iter().map(|(kind, _)| *kind).collect(),
            announced.map(|(kind, _)| *kind).collect(),
        ))
    }

    /// A new session begins. Listings of the session before are dropped.
    pub fn reset(&mut self) {
        self.running.abort_all();
        self.stale.clear();
        self.at = None;
        self.failures = 0;
    }

    pub fn start(&mut self, listing: impl Future<Output = Done> + Send + 'static) {
        self.running.spawn(listing.in_current_span().boxed());
    }

    /// Resolves only while a listing runs, and to `None` if it was given up. Cancel-safe.
    pub async fn done(&mut self, server: &ServerName) -> Option<Done> {
        match self.running.join_next().await {
            Some(Ok(done)) => Some(done),
            Some(Err(error)) if error.is_panic() => {
                tracing::error!(%server, %error, "a listing failed");
                None
            }
            Some(Err(_)) => None,
            None => std::future::pending().await,
        }
    }

    pub async fn shutdown(&mut self) {
        self.running.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_list_that_keeps_failing_is_read_ever_less_often() {
        let failed = [(ListKind::Resources, Outcome::Failed("no".to_owned()))];
        let mut listings = Listings::default();
        let mut waits = Vec::new();
        for _ in 0..8 {
            listings.settled(&failed, 1, 1);
            let due = listings.due().expect("it is read again");
            waits.push((due - Instant::now()).as_secs());
            tokio::time::advance(due - Instant::now()).await;
            let resources = (vec![ListKind::Resources], Vec::new());
            assert_eq!(listings.take_due(), Some(resources));
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 600, 600]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_does_not_wait_for_a_list_that_failed() {
        let failed = [(ListKind::Resources, Outcome::Failed("no".to_owned()))];
        let mut listings = Listings::default();
        listings.settled(&failed, 1, 1);
        listings.announced(ListKind::Tools);
        assert_eq!(listings.due(), Some(Instant::now() + DEBOUNCE));
    }
}
