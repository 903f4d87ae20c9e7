//! The schedule of a server's listings, and the trouble with its lists.

use std::time::Duration;

use futures_util::FutureExt as _;
use mainstay_core::{
    catalog::ListKind,
    ids::{Epoch, ServerName},
};
use tokio::{task::JoinSet, time::Instant};
use tracing::Instrument as _;

use super::listing::{ListOutcome, ListingResult};

/// Delay after an announcement, so that a burst of announcements causes one listing.
const DEBOUNCE: Duration = Duration::from_millis(200);

/// Number of listings in a row that follow an announcement without a pause. Later listings of the
/// same list wait for a pause, which doubles each time. A server that announces a change whenever it
/// is listed would otherwise be listed in an endless loop.
const PROMPT_LISTINGS: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_mins(1);

/// An announcement during a listing, or within this time after it, may be caused by the listing. A
/// later announcement is a real change. Each period of this length without an announcement reduces
/// `in_row` by one.
const ECHO: Duration = Duration::from_secs(2);

/// A list counts as settled after this time without an announcement. Longer than [`MAX_PAUSE`],
/// because a server that announces a change at each listing is quiet during the pause.
const QUIET: Duration = Duration::from_mins(2);

/// First delay before a failed listing is repeated. The delay doubles each time.
const RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_mins(10);

const KINDS: usize = ListKind::ALL.len();

/// The schedule of listings, and the running listing.
#[derive(Default)]
pub struct Listings {
    running: JoinSet<FinishedListing>,
    stale: [StaleList; KINDS],
    paces: [ListPace; KINDS],
    troubles: ListTroubles,
}

/// The times from which a list's next listing is scheduled. `None` twice if none is scheduled.
#[derive(Clone, Copy, Debug, Default)]
struct StaleList {
    /// Time of the first announcement after the last listing.
    announced: Option<Instant>,
    /// Time of the next retry, if the list could not be read.
    retry: Option<Instant>,
}

/// The history of one list's announcements and listings.
#[derive(Clone, Copy, Debug, Default)]
struct ListPace {
    /// Number of listings in a row that followed an announcement.
    in_row: u32,
    announced: Option<Instant>,
    /// Time of the last listing.
    listed: Option<Instant>,
    /// Number of failed listings in a row.
    failures: u32,
}

impl ListPace {
    /// True if too many listings in a row have followed an announcement.
    fn is_unsettled(&self) -> bool {
        self.in_row > PROMPT_LISTINGS
    }

    /// Minimum time between two listings.
    fn pause(&self) -> Duration {
        match self.in_row.checked_sub(PROMPT_LISTINGS) {
            None | Some(0) => Duration::ZERO,
            Some(more) => doubled(PAUSE, more, MAX_PAUSE),
        }
    }

    /// Time at which the list counts as settled, unless the server announces it before.
    fn settles_at(&self) -> Option<Instant> {
        self.announced.map(|at| at + QUIET)
    }
}

/// The backoff: a delay that doubles each time, up to `longest`.
fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    let factor = 2_u32.saturating_pow(times.saturating_sub(1));
    first.saturating_mul(factor).min(longest)
}

/// Trouble with the lists of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListTrouble {
    pub reason: String,
    /// True if the trouble makes the server degraded. False if the tools can be listed and only
    /// another list fails.
    pub degrades: bool,
}

/// The trouble with each list of a server, until the next listing of that list succeeds.
#[derive(Debug, Default)]
struct ListTroubles {
    by_kind: [Option<ListTrouble>; KINDS],
    /// Number of tools that the server had before it listed none (invariant 8).
    tools_gone: Option<usize>,
}

/// A listing that has ended.
#[derive(Debug)]
pub struct FinishedListing {
    /// The attempt whose session was listed.
    pub epoch: Epoch,
    pub listed: ListingResult,
    /// The lists that the server had announced as changed.
    pub announced: Vec<ListKind>,
}

impl Listings {
    /// Handles the server's announcement that a list has changed.
    pub fn announced(&mut self, kind: ListKind) {
        let now = Instant::now();
        let is_reading = !self.running.is_empty();
        let pace = &mut self.paces[kind as usize];
        if pace.settles_at().is_some_and(|at| at <= now) {
            pace.in_row = 0;
        } else if let Some(listed) = pace.listed.filter(|_| !is_reading) {
            let last = pace.announced.map_or(listed, |at| at.max(listed));
            let quiet = now.duration_since(last).as_secs() / ECHO.as_secs();
            pace.in_row = pace
                .in_row
                .saturating_sub(u32::try_from(quiet).unwrap_or(u32::MAX));
        }
        pace.announced = Some(now);
        self.stale[kind as usize].announced.get_or_insert(now);
    }

    /// Time at which this list is due to be read.
    fn list_due(&self, kind: ListKind) -> Option<Instant> {
        let (stale, pace) = (self.stale[kind as usize], self.paces[kind as usize]);
        let announced = stale.announced.map(|at| {
            let paced = pace.listed.map(|listed| listed + pace.pause());
            paced.map_or(at + DEBOUNCE, |paced| paced.max(at + DEBOUNCE))
        });
        announced.into_iter().chain(stale.retry).min()
    }

    /// True if the server announces this list too often. Its changes are then published rarely.
    pub fn is_unsettled(&self, kind: ListKind) -> bool {
        self.paces[kind as usize].is_unsettled()
    }

    /// Marks unsettled lists as settled if the server has not announced them for [`QUIET`]. Returns
    /// true if any list was marked.
    pub fn settle(&mut self) -> bool {
        let now = Instant::now();
        let mut has_settled = false;
        for pace in &mut self.paces {
            if pace.is_unsettled() && pace.settles_at().is_some_and(|at| at <= now) {
                pace.in_row = 0;
                has_settled = true;
            }
        }
        has_settled
    }

    /// Records the outcome of a listing. `had` and `has` are the numbers of tools before and after
    /// the listing. Returns the trouble with the lists.
    pub fn settled(
        &mut self,
        lists: &[(ListKind, ListOutcome)],
        had: usize,
        has: usize,
    ) -> Option<ListTrouble> {
        for (kind, outcome) in lists {
            let (reason, degrades) = match outcome {
                ListOutcome::Read => (None, false),
                ListOutcome::Cut(reason) => (Some(reason), true),
                ListOutcome::Failed(reason) => (Some(reason), *kind == ListKind::Tools || has == 0),
            };
            self.troubles.by_kind[*kind as usize] = reason.map(|reason| ListTrouble {
                reason: reason.clone(),
                degrades,
            });
        }
        let now = Instant::now();
        for (kind, outcome) in lists {
            let pace = &mut self.paces[*kind as usize];
            pace.listed = Some(now);
            if matches!(outcome, ListOutcome::Failed(_)) {
                pace.failures = pace.failures.saturating_add(1);
                let retry = now + doubled(RETRY, pace.failures, MAX_RETRY);
                self.stale[*kind as usize].retry = Some(retry);
            } else {
                pace.failures = 0;
            }
        }
        self.troubles.tools_gone = match (had, has) {
            (_, 1..) => None,
            (0, 0) => self.troubles.tools_gone,
            (had, 0) => Some(had),
        };
        self.trouble()
    }

    /// The current trouble with the lists. Trouble that degrades the server comes before other
    /// trouble.
    pub fn trouble(&self) -> Option<ListTrouble> {
        let gone = self.troubles.tools_gone.map(|had| ListTrouble {
            reason: format!("it lists no tools; it had {had}"),
            degrades: true,
        });
        let unsettled = ListKind::ALL
            .into_iter()
            .filter(|kind| self.is_unsettled(*kind));
        let unsettled = unsettled.map(|kind| ListTrouble {
            reason: format!(
                "it says again and again that its {} have changed; they are read every {} s at most",
                kind.member(),
                MAX_PAUSE.as_secs()
            ),
            degrades: false,
        });
        let mut troubles: Vec<_> = self.troubles.by_kind.iter().flatten().cloned().collect();
        troubles.extend(gone);
        troubles.extend(unsettled);
        troubles.sort_by_key(|trouble| !trouble.degrades);
        troubles.into_iter().next()
    }

    /// True if the last listing of this list failed for the same reason.
    pub fn is_known_failure(&self, kind: ListKind, reason: &str) -> bool {
        let trouble = self.troubles.by_kind[kind as usize].as_ref();
        trouble.is_some_and(|trouble| trouble.reason == reason)
    }

    /// Time at which a list becomes due or settles. No list is due while a listing runs, so that an
    /// older result cannot overwrite a newer result.
    pub fn due(&self) -> Option<Instant> {
        let unsettled = self.paces.iter().filter(|pace| pace.is_unsettled());
        let due = ListKind::ALL
            .into_iter()
            .filter_map(|kind| self.list_due(kind));
        due.filter(|_| self.running.is_empty())
            .chain(unsettled.filter_map(ListPace::settles_at))
            .min()
    }

    /// Takes the lists that are due now from the schedule. The second list has those that are due
    /// because the server announced them. `None` while a listing runs.
    pub fn take_due(&mut self) -> Option<(Vec<ListKind>, Vec<ListKind>)> {
        let now = Instant::now();
        if !self.running.is_empty() {
            return None;
        }
        let is_due = |kind: &ListKind| self.list_due(*kind).is_some_and(|due| due <= now);
        let due: Vec<ListKind> = ListKind::ALL.into_iter().filter(is_due).collect();
        let mut announced = Vec::new();
        for kind in &due {
            let stale = std::mem::take(&mut self.stale[*kind as usize]);
            if stale.announced.is_some() {
                announced.push(*kind);
                let pace = &mut self.paces[*kind as usize];
                pace.in_row = pace.in_row.saturating_add(1);
            }
        }
        (!due.is_empty()).then_some((due, announced))
    }

    /// Drops the listings of the previous session. Unsettled lists stay unsettled, because the
    /// server may announce changes just as often in the new session.
    pub fn reset(&mut self) {
        self.running.abort_all();
        self.stale = Default::default();
        for pace in &mut self.paces {
            pace.failures = 0;
        }
    }

    pub fn start(&mut self, listing: impl Future<Output = FinishedListing> + Send + 'static) {
        self.running.spawn(listing.in_current_span().boxed());
    }

    /// Waits for the running listing to end. Pending while no listing runs. `None` if the listing was
    /// aborted or panicked. Cancel-safe.
    pub async fn done(&mut self, server: &ServerName) -> Option<FinishedListing> {
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
        let failed = [(ListKind::Resources, ListOutcome::Failed("no".to_owned()))];
        let mut listings = Listings::default();
        let mut waits = Vec::new();
        for _ in 0..11 {
            listings.settled(&failed, 1, 1);
            let due = listings.due().expect("it is read again");
            waits.push((due - Instant::now()).as_secs());
            tokio::time::advance(due - Instant::now()).await;
            let resources = (vec![ListKind::Resources], Vec::new());
            assert_eq!(listings.take_due(), Some(resources));
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_does_not_wait_for_a_list_that_failed() {
        let failed = [(ListKind::Resources, ListOutcome::Failed("no".to_owned()))];
        let mut listings = Listings::default();
        listings.settled(&failed, 1, 1);
        listings.announced(ListKind::Tools);
        assert_eq!(listings.due(), Some(Instant::now() + DEBOUNCE));
    }

    const READ: [(ListKind, ListOutcome); 1] = [(ListKind::Tools, ListOutcome::Read)];

    /// Simulates a server that announces its tools before each listing. Returns the delay of each
    /// listing.
    async fn waits(listings: &mut Listings, times: usize) -> Vec<Duration> {
        let mut waits = Vec::new();
        for _ in 0..times {
            listings.announced(ListKind::Tools);
            let wait = listings.due().expect("it is read") - Instant::now();
            waits.push(wait);
            tokio::time::advance(wait).await;
            let tools = vec![ListKind::Tools];
            assert_eq!(listings.take_due(), Some((tools.clone(), tools)));
            listings.settled(&READ, 1, 1);
        }
        waits
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_is_announced_at_each_reading_is_read_ever_less_often() {
        let mut listings = Listings::default();
        let prompt = waits(&mut listings, 6).await;
        assert_eq!(prompt, [DEBOUNCE; 6]);
        assert!(listings.is_unsettled(ListKind::Tools));
        let trouble = listings.settled(&READ, 1, 1).expect("a note");
        assert!(trouble.reason.contains("tools have changed"), "{trouble:?}");
        assert!(!trouble.degrades);
        let seconds: Vec<u64> = waits(&mut listings, 9)
            .await
            .iter()
            .map(Duration::as_secs)
            .collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        // Another list is read at once.
        listings.announced(ListKind::Prompts);
        assert_eq!(listings.due(), Some(Instant::now() + DEBOUNCE));
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_settles() {
        let mut listings = Listings::default();
        waits(&mut listings, 8).await;
        assert!(!listings.settle());
        let due = listings.due().expect("it settles");
        tokio::time::advance(due - Instant::now()).await;
        assert!(listings.settle() && !listings.is_unsettled(ListKind::Tools));
        assert_eq!(listings.trouble(), None);
        assert_eq!(listings.due(), None);
        assert_eq!(waits(&mut listings, 2).await, [DEBOUNCE; 2]);
    }

    /// Announcements that come seconds after a listing do not count as its echo.
    #[tokio::test(start_paused = true)]
    async fn changes_that_are_no_echo_are_read_at_once() {
        for apart in [2 * ECHO, MAX_PAUSE] {
            let mut listings = Listings::default();
            for _ in 0..20 {
                // Two changes, one after the other.
                assert_eq!(waits(&mut listings, 2).await, [DEBOUNCE; 2]);
                tokio::time::advance(apart).await;
            }
            assert!(!listings.is_unsettled(ListKind::Tools));
        }
    }

    /// An announcement during a listing counts as an echo, even after a long pause.
    #[tokio::test(start_paused = true)]
    async fn an_announcement_during_a_reading_is_an_echo() {
        let mut listings = Listings::default();
        waits(&mut listings, 9).await;
        listings.announced(ListKind::Tools);
        let wait = listings.due().expect("it is read") - Instant::now();
        tokio::time::advance(wait).await;
        listings.take_due().expect("it is due");
        listings.start(std::future::pending());
        listings.announced(ListKind::Tools);
        listings.shutdown().await;
        listings.settled(&READ, 1, 1);
        let next = listings.due().expect("it is read") - Instant::now();
        assert!(next > wait, "{next:?} after {wait:?}");
    }
}
