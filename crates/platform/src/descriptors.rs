//! A budget of file descriptors for clients and servers. It reserves descriptors for the operator's
//! connections and for files.

use std::{
    io,
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
};

/// The descriptors that are reserved for files, and for starting processes.
const FILES: usize = 64;

/// The maximum number of descriptors that are reserved for the operator's connections. At a low limit, an
/// eighth of the limit is reserved.
const OPERATOR: usize = 256;

/// The budget of this process.
static BUDGET: LazyLock<Budget> = LazyLock::new(|| Budget::within(limit()));

#[derive(Debug)]
struct Budget {
    /// The limit of the process.
    limit: usize,
    /// The part of the limit that clients and servers may use.
    shared: usize,
    in_use: AtomicUsize,
}

/// Descriptors in use. Dropping the value returns them to the budget.
#[derive(Debug)]
pub struct Descriptors {
    budget: &'static Budget,
    count: usize,
}

/// The error if the budget has too few descriptors left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many files are open: the limit is {limit} (raise it, for example with `ulimit -n`)")]
pub struct Exhausted {
    limit: usize,
}

impl From<Exhausted> for io::Error {
    fn from(exhausted: Exhausted) -> Self {
        Self::other(exhausted)
    }
}

/// Takes descriptors from the budget for a client or a server.
pub fn take(count: usize) -> Result<Descriptors, Exhausted> {
    BUDGET.take(count)
}

/// Number of connections that are reserved for the operator.
pub fn operator() -> usize {
    BUDGET.operator()
}

/// Number of files that this process may have open.
#[cfg(unix)]
pub fn limit() -> usize {
    use rustix::process::{Resource, getrlimit};
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit).unwrap_or(usize::MAX)
}

#[cfg(not(unix))]
pub fn limit() -> usize {
    usize::MAX
}

impl Budget {
    fn within(limit: usize) -> Self {
        let mut budget = Self {
            limit,
            shared: 0,
            in_use: AtomicUsize::default(),
        };
        budget.shared = limit.saturating_sub(FILES + budget.operator());
        budget
    }

    fn operator(&self) -> usize {
        OPERATOR.min(self.limit / 8)
    }

    fn take(&'static self, count: usize) -> Result<Descriptors, Exhausted> {
        let more = |in_use: usize| in_use.checked_add(count).filter(|sum| *sum <= self.shared);
        self.in_use
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .map_err(|_| Exhausted { limit: self.limit })?;
        Ok(Descriptors {
            budget: self,
            count,
        })
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        self.budget.in_use.fetch_sub(self.count, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_are_kept_and_what_is_dropped_can_be_taken_again() {
        let budget: &Budget = Box::leak(Box::new(Budget::within(1024)));
        assert_eq!((budget.operator(), budget.shared), (128, 832));
        let most = budget.take(830).expect("enough are left");
        let few = budget.take(2).expect("two are left");
        assert_eq!(
            budget.take(1).expect_err("none is left"),
            Exhausted { limit: 1024 }
        );
        drop(few);
        assert!(budget.take(3).is_err());
        drop((budget.take(2).expect("two are left"), most));
        assert_eq!(budget.in_use.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_high_limit_keeps_no_more_for_the_operator() {
        assert_eq!(Budget::within(65_536).operator(), OPERATOR);
        assert_eq!(Budget::within(10).shared, 0);
    }
}
