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

/// How often in a row a list is read as soon as the server says that it has changed. A list that goes on changing
/// is read after a pause since it was read last, then after twice the pause, and so on: a server may announce a
/// change whenever it is listed.
const PROMPT_LISTINGS: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_mins(1);

/// An announcement while a list is read, or so soon after, may be nothing but an echo of the reading. A later one is a
/// change of its own, and each such time that has passed makes up for one reading.
const ECHO: Duration = Duration::from_secs(2);

/// A list that the server has not announced for so long has settled. Longer than the longest pause, after which a
/// server that announces at each listing does it again.
const QUIET: Duration = Duration::from_mins(2);

/// Lists that could not be read are read again after this time, then after twice as long, and so on.
const RETRY: Duration = Duration::from_secs(10);
const MAX_RETRY: Duration = Duration::from_mins(10);

const KINDS: usize = ListKind::ALL.len();

/// When to list, and the listing that runs.
#[derive(Default)]
pub struct Listings {
    running: JoinSet<Done>,
    stale: [Stale; KINDS],
    paces: [Pace; KINDS],
    troubles: Troubles,
}

/// Why a list is to be read, if it is.
#[derive(Clone, Copy, Debug, Default)]
struct Stale {
    /// When the server first said that it has changed since it was read.
    announced: Option<Instant>,
    /// When it is read again because it could not be read.
    retry: Option<Instant>,
}

/// How often a list is announced and read.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    /// How often in a row it was read because the server announced it.
    in_row: u32,
    announced: Option<Instant>,
    /// When it was read last.
    listed: Option<Instant>,
    /// How often in a row it could not be read.
    failures: u32,
}

impl Pace {
    /// The server has gone on announcing it for long.
    fn is_unsettled(&self) -> bool {
        self.in_row > PROMPT_LISTINGS
    }

    /// The least time between two readings.
    fn pause(&self) -> Duration {
        match self.in_row.checked_sub(PROMPT_LISTINGS) {
            None | Some(0) => Duration::ZERO,
            Some(more) => doubled(PAUSE, more, MAX_PAUSE),
        }
    }

    /// When it counts as settled, if it is not announced again.
    fn settles_at(&self) -> Option<Instant> {
        self.announced.map(|at| at + QUIET)
    }
}

/// A time that doubles each time, up to the longest.
fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    let factor = 2_u32.saturating_pow(times.saturating_sub(1));
    first.saturating_mul(factor).min(longest)
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
    by_kind: [Option<Trouble>; KINDS],
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

    /// When this list is to be read.
    fn due_of(&self, kind: ListKind) -> Option<Instant> {
        let (stale, pace) = (self.stale[kind as usize], self.paces[kind as usize]);
        let announced = stale.announced.map(|at| {
            let paced = pace.listed.map(|listed| listed + pace.pause());
            paced.map_or(at + DEBOUNCE, |paced| paced.max(at + DEBOUNCE))
        });
        announced.into_iter().chain(stale.retry).min()
    }

    /// Whether the server announces this list again and again. What it changes is told rarely then.
    pub fn is_unsettled(&self, kind: ListKind) -> bool {
        self.paces[kind as usize].is_unsettled()
    }

    /// Whether a list has settled by now that had been announced again and again.
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
        let now = Instant::now();
        for (kind, outcome) in lists {
            let pace = &mut self.paces[*kind as usize];
            pace.listed = Some(now);
            if matches!(outcome, Outcome::Failed(_)) {
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

    /// The trouble with the lists as of now: the first that degrades the server, or else the first.
    pub fn trouble(&self) -> Option<Trouble> {
        let gone = self.troubles.tools_gone.map(|had| Trouble {
            reason: format!("it lists no tools; it had {had}"),
            degrades: true,
        });
        let unsettled = ListKind::ALL
            .into_iter()
            .filter(|kind| self.is_unsettled(*kind));
        let unsettled = unsettled.map(|kind| Trouble {
            reason: format!(
                "it says again and again that its {} have changed; they are read every {} s at most",
                kind.member(),
                MAX_PAUSE.as_secs()
            ),
            degrades: false,
        });
        let mut known: Vec<_> = self.troubles.by_kind.iter().flatten().cloned().collect();
        known.extend(gone);
        known.extend(unsettled);
        known.sort_by_key(|trouble| !trouble.degrades);
        known.into_iter().next()
    }

    /// Whether it is known that this list cannot be read, and why.
    pub fn is_known(&self, kind: ListKind, reason: &str) -> bool {
        let known = self.troubles.by_kind[kind as usize].as_ref();
        known.is_some_and(|trouble| trouble.reason == reason)
    }

    /// When [`Listings::take_due`] has something, or a list settles. Nothing is read while a listing runs: an older
    /// result must not overwrite a newer one.
    pub fn due(&self) -> Option<Instant> {
        let unsettled = self.paces.iter().filter(|pace| pace.is_unsettled());
        let due = ListKind::ALL
            .into_iter()
            .filter_map(|kind| self.due_of(kind));
        due.filter(|_| self.running.is_empty())
            .chain(unsettled.filter_map(Pace::settles_at))
            .min()
    }

    /// Takes the lists that are due now, and those of them that the server has announced.
    pub fn take_due(&mut self) -> Option<(Vec<ListKind>, Vec<ListKind>)> {
        let now = Instant::now();
        if !self.running.is_empty() {
            return None;
        }
        let is_due = |kind: &ListKind| self.due_of(*kind).is_some_and(|due| due <= now);
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

    /// A new session begins. Listings of the session before are dropped. A server that announced its lists again and
    /// again may go on.
    pub fn reset(&mut self) {
        self.running.abort_all();
        self.stale = Default::default();
        for pace in &mut self.paces {
            pace.failures = 0;
        }
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

    const READ: [(ListKind, Outcome); 1] = [(ListKind::Tools, Outcome::Read)];

    /// Reads a list at once that is announced at each reading; returns the time until each reading.
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

    /// A person, or a program, that changes a list every few seconds is no echo of the readings.
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

    /// An announcement that comes while the list is read is an echo, however long the pause before was.
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
