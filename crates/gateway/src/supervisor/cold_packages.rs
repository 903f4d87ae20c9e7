//! Serializes the starts of a package that is not cached yet. `npx` and `uvx` fetch a package when
//! they start it, and concurrent fetches of a package break each other's files. After the handshake
//! of one start, the package is cached.

use std::{collections::HashMap, sync::Arc, time::Duration};

use mainstay_core::{config::StdioLaunch, programs::CachedPackage};
use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::OwnedMutexGuard, time::Instant};

/// Maximum number of remembered packages. Starts of further packages are not serialized.
const MAX_PACKAGES: usize = 4096;

/// Time for which a start may block other starts of its package. Limited, because a server may never
/// complete its handshake.
const LONGEST_TURN: Duration = Duration::from_mins(3);

/// The packages that were started in this run.
#[derive(Debug, Default)]
pub struct ColdPackages(Mutex<HashMap<CachedPackage, PackageState>>);

#[derive(Clone, Debug, Default)]
struct PackageState {
    turn: Arc<tokio::sync::Mutex<()>>,
    /// True after the handshake of a start of this package.
    is_warm: bool,
}

/// Permission to fetch a package. Only one start of each package has it at a time. Dropping the
/// value ends the turn.
#[derive(Debug)]
pub struct ColdTurn {
    packages: Arc<ColdPackages>,
    package: CachedPackage,
    since: Instant,
    _turn: OwnedMutexGuard<()>,
}

impl ColdPackages {
    fn packages(&self) -> MutexGuard<'_, HashMap<CachedPackage, PackageState>> {
        // Held for a map operation, never across an await.
        self.0.lock()
    }

    /// The package of a start, if the package is not cached yet.
    fn cold(&self, launch: &StdioLaunch) -> Option<(CachedPackage, PackageState)> {
        let package = CachedPackage::from_command(&launch.command, &launch.args)?;
        let mut packages = self.packages();
        if packages.len() >= MAX_PACKAGES && !packages.contains_key(&package) {
            return None;
        }
        let state = packages.entry(package.clone()).or_default().clone();
        (!state.is_warm).then_some((package, state))
    }

    /// True if the start must wait for another start of its package.
    pub fn is_taken(&self, launch: &StdioLaunch) -> bool {
        let cold = self.cold(launch);
        cold.is_some_and(|(_, state)| state.turn.try_lock().is_err())
    }

    /// Waits until no other start fetches the package. `None` if the start needs no turn.
    pub async fn turn(self: &Arc<Self>, launch: &StdioLaunch) -> Option<ColdTurn> {
        let (package, state) = self.cold(launch)?;
        let turn = state.turn.lock_owned().await;
        let is_warm = |state: &PackageState| state.is_warm;
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
    /// Marks the package as cached, after the start's handshake.
    pub fn succeeded(self) {
        if let Some(state) = self.packages.packages().get_mut(&self.package) {
            state.is_warm = true;
        }
    }

    /// True if the turn has lasted too long, so that other starts may begin.
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
        // The first start failed, so the second start gets a turn.
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
