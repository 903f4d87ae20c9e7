//! Bounds the bytes of answers to Mainstay's own requests.
//!
//! A piece of an answer is counted when it arrives, before it is stored. An answer that exceeds its budget is
//! given up in the middle.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// A limit on the bytes that one reader may use. Bytes stay counted while the reader, or the value that it
/// has read, lives. Clones share the count.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Counted>);

#[derive(Debug)]
struct Counted {
    limit: usize,
    used: AtomicUsize,
    reserve: Option<Reserve>,
    /// True once the reserve has refused bytes although `limit` had room.
    reserve_refused: AtomicBool,
}

/// A pool of bytes that many budgets share. Each budget also has a part of its own. Clones share the count.
#[derive(Clone, Debug)]
pub struct Reserve(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    limit: usize,
    /// The bytes that each budget may use before it takes bytes from the pool.
    own_part: usize,
    used: AtomicUsize,
}

impl Reserve {
    /// Creates a pool of `limit` bytes for all budgets together. Each budget has `own_part` bytes in
    /// addition.
    pub fn new(limit: usize, own_part: usize) -> Self {
        Self(Arc::new(Pool {
            limit,
            own_part,
            used: AtomicUsize::new(0),
        }))
    }

    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// The bytes of the pool that a budget holds if it has used `used` bytes.
    fn part(&self, used: usize) -> usize {
        used.saturating_sub(self.0.own_part)
    }

    fn take(&self, bytes: usize) -> bool {
        let sum = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.0.limit);
        let used = &self.0.used;
        used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum)
            .is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.0.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Budget {
    pub fn new(limit: usize) -> Self {
        Self::with(limit, None)
    }

    /// Creates a budget that takes bytes from the reserve once its own part is used up.
    pub fn with_reserve(limit: usize, reserve: &Reserve) -> Self {
        Self::with(limit, Some(reserve.clone()))
    }

    fn with(limit: usize, reserve: Option<Reserve>) -> Self {
        Self(Arc::new(Counted {
            limit,
            used: AtomicUsize::new(0),
            reserve,
            reserve_refused: AtomicBool::new(false),
        }))
    }

    pub fn limit(&self) -> usize {
        self.0.limit
    }

    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    pub fn left(&self) -> usize {
        self.0.limit.saturating_sub(self.used())
    }

    /// Counts bytes that have arrived. Returns `false` if they exceed the budget or the reserve. Only one
    /// task may call this at a time.
    #[must_use]
    pub fn take(&self, bytes: usize) -> bool {
        let used = self.used();
        let after = match used.checked_add(bytes) {
            Some(after) if after <= self.0.limit => after,
            _ => return false,
        };
        if let Some(reserve) = &self.0.reserve
            && !reserve.take(reserve.part(after) - reserve.part(used))
        {
            self.0.reserve_refused.store(true, Ordering::Relaxed);
            return false;
        }
        self.0.used.store(after, Ordering::Relaxed);
        true
    }

    /// Lowers the count to `bytes`. The stored part of an answer may be smaller than its text.
    pub fn shrink_to(&self, bytes: usize) {
        let used = self.used();
        if bytes < used {
            self.0.used.store(bytes, Ordering::Relaxed);
            if let Some(reserve) = &self.0.reserve {
                reserve.give_back(reserve.part(used) - reserve.part(bytes));
            }
        }
    }

    /// True if the reserve has refused bytes although the budget had room.
    pub fn was_refused_by_reserve(&self) -> bool {
        self.0.reserve_refused.load(Ordering::Relaxed)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(reserve) = &self.reserve {
            reserve.give_back(reserve.part(*self.used.get_mut()));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_has_its_own_part_and_all_share_the_rest() {
        let reserve = Reserve::new(100, 10);
        let (one, other) = (
            Budget::with_reserve(200, &reserve),
            Budget::with_reserve(200, &reserve),
        );
        assert!(one.take(110) && !one.take(1));
        assert!(one.was_refused_by_reserve());
        assert!(other.take(10) && !other.take(1));
        one.shrink_to(60);
        assert!(other.take(50) && !other.take(1));
        drop(one);
        assert!(other.take(50) && !other.take(1));
        let third = Budget::with_reserve(5, &reserve);
        assert!(third.take(5) && !third.take(1) && !third.was_refused_by_reserve());
    }

    proptest! {
        /// The sums hold after any sequence of `take` and `shrink_to`. At the end, no byte stays counted.
        #[test]
        fn no_budget_and_no_reserve_is_exceeded(
            steps in prop::collection::vec((0..4usize, prop::option::of(0..80usize), 0..120usize), 0..60),
        ) {
            let reserve = Reserve::new(150, 20);
            let make = || Budget::with_reserve(100, &reserve);
            let mut budgets = [make(), make(), make(), make()];
            for (index, shrink, bytes) in steps {
                match shrink {
                    Some(to) => budgets[index].shrink_to(to),
                    None if bytes > 110 => budgets[index] = make(),
                    None => drop(budgets[index].take(bytes)),
                }
                prop_assert!(budgets.iter().all(|budget| budget.used() <= 100));
                let shared: usize = budgets.iter().map(|budget| budget.used().saturating_sub(20)).sum();
                prop_assert!(shared <= 150);
                prop_assert_eq!(reserve.0.used.load(Ordering::Relaxed), shared);
            }
            drop(budgets);
            prop_assert_eq!(reserve.0.used.load(Ordering::Relaxed), 0);
        }
    }
}
