//! Has starts of one package take turns while its cache is cold. `npx` and `uvx` fetch a package when they start it, and
//! several at once break what the others have fetched. Once a start had its handshake, the package is there.

use std::{collections::HashMap, sync::Arc, time::Duration};

use mainstay_core::{config::StdioLaunch, programs::CachedPackage};
use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::OwnedMutexGuard, time::Instant};

/// Packages that are remembered. Starts of more take no turns.
const MAX_PACKAGES: usize = 4096;

/// How long a start may keep others of its package waiting. A server that never has its handshake does not keep the
/// others from theirs.
const LONGEST_TURN: Duration = Duration::from_mins(3);

/// The packages of this run.
#[derive(Debug, Default)]
pub struct ColdPackages(Mutex<HashMap<CachedPackage, Package>>);

#[derive(Clone, Debug, Default)]
struct Package {
    turn: Arc<tokio::sync::Mutex<()>>,
    /// A start of it had its handshake.
    is_warm: bool,
}

/// Held by the one start that may fetch its package now.
#[derive(Debug)]
pub struct ColdTurn {
    packages: Arc<ColdPackages>,
    package: CachedPackage,
    since: Instant,
    _turn: OwnedMutexGuard<()>,
}

impl ColdPackages {
    fn packages(&self) -> MutexGuard<'_, HashMap<CachedPackage, Package>> {
        // Held for a map operation, never across an await.
        self.0.lock()
    }

    /// The package of a start that may have to wait for its turn, and the queue.
    fn cold(&self, launch: &StdioLaunch) -> Option<(CachedPackage, Package)> {
        let package = CachedPackage::of(&launch.command, &launch.args)?;
        let mut packages = self.packages();
        if packages.len() >= MAX_PACKAGES && !packages.contains_key(&package) {
            return None;
        }
        let known = packages.entry(package.clone()).or_default().clone();
        (!known.is_warm).then_some((package, known))
    }

    /// Whether another start of its package keeps this one waiting.
    pub fn is_taken(&self, launch: &StdioLaunch) -> bool {
        let cold = self.cold(launch);
        cold.is_some_and(|(_, known)| known.turn.try_lock().is_err())
    }

    /// Resolves when no other start fetches this one's package; to `None` where that does not matter.
    pub async fn turn(self: &Arc<Self>, launch: &StdioLaunch) -> Option<ColdTurn> {
        let (package, known) = self.cold(launch)?;
        let turn = known.turn.lock_owned().await;
        let is_warm = |known: &Package| known.is_warm;
        if self.packages().get(&package).is_some_and(is_warm) {
            return None;
        }
        Some(ColdTurn {
            packages: Arc::clone(self),
            package,
            since: Instant::now(),
            _turn: turn,
        })
    }
}

impl ColdTurn {
    /// Its start had its handshake: the package is there.
    pub fn succeeded(self) {
        if let Some(known) = self.packages.packages().get_mut(&self.package) {
            known.is_warm = true;
        }
    }

    /// Whether it has lasted so long that others are let in.
    pub fn is_over(&self) -> bool {
        self.since.elapsed() >= LONGEST_TURN
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn npx(package: &str) -> StdioLaunch {
        StdioLaunch {
            command: "npx".to_owned(),
            args: vec!["-y".to_owned(), package.to_owned()],
            ..StdioLaunch::default()
        }
    }

    #[tokio::test]
    async fn starts_of_one_package_take_turns_until_one_has_succeeded() {
        let packages = Arc::<ColdPackages>::default();
        let first = packages.turn(&npx("a")).await.expect("a turn");
        assert!(packages.is_taken(&npx("a")) && !packages.is_taken(&npx("b")));
        let (one, other) = (npx("a"), npx("a"));
        let mut second = Box::pin(packages.turn(&one));
        let mut third = Box::pin(packages.turn(&other));
        assert!((&mut second).now_or_never().is_none());
        assert!(packages.turn(&npx("b")).await.is_some(), "another package");
        assert!(packages.turn(&StdioLaunch::default()).await.is_none());
        // It failed: the next one fetches.
        drop(first);
        let second = second.await.expect("a turn");
        assert!((&mut third).now_or_never().is_none());
        second.succeeded();
        assert!(third.await.is_none(), "it is there");
        assert!(packages.turn(&npx("a")).await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_has_an_end() {
        let packages = Arc::<ColdPackages>::default();
        let turn = packages.turn(&npx("a")).await.expect("a turn");
        assert!(!turn.is_over());
        tokio::time::advance(LONGEST_TURN).await;
        assert!(turn.is_over());
    }
}
