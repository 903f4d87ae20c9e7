//! Limits the memory of answers that clients do not read. Above the limit, connections are closed:
//! first the one that has made no progress for longest.

use std::{collections::HashMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Number of unread bytes of a connection that do not count.
const MIN_COUNTED_BYTES: usize = 64 * 1024;

/// The unread answers of all connections of a listener.
#[derive(Debug)]
pub struct UnreadAnswers {
    /// Maximum number of unread bytes (`http.maxUnreadBytes`).
    limit: usize,
    totals: Mutex<UnreadTotals>,
}

#[derive(Debug, Default)]
struct UnreadTotals {
    all: usize,
    by_connection: HashMap<u64, UnreadAnswer>,
    next: u64,
}

/// The unread answer of one connection.
#[derive(Debug)]
struct UnreadAnswer {
    bytes: usize,
    /// Time at which a write last made progress, or at which counting started.
    since: Instant,
    given_up: CancellationToken,
}

/// The unread bytes of one connection. Dropping the share subtracts them.
#[derive(Debug)]
pub struct Share {
    unread: Arc<UnreadAnswers>,
    /// The key in `by_connection`; `None` if the answer does not count.
    number: Option<u64>,
    given_up: CancellationToken,
}

impl UnreadAnswers {
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            totals: Mutex::default(),
        })
    }

    fn totals(&self) -> MutexGuard<'_, UnreadTotals> {
        // Locked for a few operations, never across an await.
        self.totals.lock()
    }
}

impl UnreadTotals {
    /// Gives up connections until the limit holds. A single connection may exceed the limit.
    fn reduce(&mut self, limit: usize) {
        while self.all > limit && self.by_connection.len() > 1 {
            let longest_unread = self
                .by_connection
                .iter()
                .min_by_key(|(_, answer)| answer.since);
            let Some(number) = longest_unread.map(|(number, _)| *number) else {
                return;
            };
            self.remove(number, |answer| answer.given_up.cancel());
        }
    }

    fn remove(&mut self, number: u64, action: impl FnOnce(&UnreadAnswer)) {
        if let Some(answer) = self.by_connection.remove(&number) {
            self.all -= answer.bytes;
            action(&answer);
        }
    }
}

impl Share {
    pub fn new(unread_answers: Arc<UnreadAnswers>) -> Self {
        Self {
            unread: unread_answers,
            number: None,
            given_up: CancellationToken::new(),
        }
    }

    /// Cancelled when the connection must be reset, because others need its memory.
    pub fn given_up(&self) -> CancellationToken {
        self.given_up.clone()
    }

    /// Sets the number of unread bytes after a write. `progress` is true if the write wrote some.
    pub fn wait(&mut self, bytes: usize, progress: bool) {
        if self.number.is_none() && bytes <= MIN_COUNTED_BYTES {
            return;
        }
        let mut totals = self.unread.totals();
        let Some(number) = self.number.filter(|_| bytes > MIN_COUNTED_BYTES) else {
            match self.number.take() {
                Some(number) => totals.remove(number, |_| ()),
                None => {
                    let number = totals.next;
                    totals.next += 1;
                    self.number = Some(number);
                    let answer = UnreadAnswer {
                        bytes,
                        since: Instant::now(),
                        given_up: self.given_up.clone(),
                    };
                    totals.by_connection.insert(number, answer);
                    totals.all += bytes;
                    totals.reduce(self.unread.limit);
                }
            }
            return;
        };
        let Some(answer) = totals.by_connection.get_mut(&number) else {
            // The connection has already been given up.
            return;
        };
        let previous_bytes = std::mem::replace(&mut answer.bytes, bytes);
        if progress {
            answer.since = Instant::now();
        }
        totals.all = totals.all - previous_bytes + bytes;
        if bytes > previous_bytes {
            totals.reduce(self.unread.limit);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.unread.totals().remove(number, |_| ());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    const MIB: usize = 1024 * 1024;

    #[tokio::test(start_paused = true)]
    async fn the_longest_unread_answers_are_given_up() {
        let unread_answers = UnreadAnswers::new(10 * MIB);
        let mut shares: Vec<Share> = (0..4)
            .map(|_| Share::new(Arc::clone(&unread_answers)))
            .collect();
        for share in &mut shares[..3] {
            share.wait(3 * MIB, true);
            advance(Duration::from_millis(1)).await;
        }
        shares[0].wait(2 * MIB, true);
        let is_given_up = |share: &Share| share.given_up.is_cancelled();
        assert!(!shares.iter().any(is_given_up));
        shares[3].wait(4 * MIB, true);
        let given_up: Vec<bool> = shares.iter().map(is_given_up).collect();
        assert_eq!(given_up, [false, true, false, false]);
        // A connection that was given up is not counted again.
        shares[1].wait(3 * MIB, true);
        assert_eq!(unread_answers.totals().all, 9 * MIB);
        drop(shares);
        let totals = unread_answers.totals();
        assert_eq!((totals.all, totals.by_connection.len()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn one_answer_may_exceed_the_limit_and_small_ones_are_not_counted() {
        let unread_answers = UnreadAnswers::new(MIB);
        let mut large_share = Share::new(Arc::clone(&unread_answers));
        large_share.wait(20 * MIB, false);
        let mut small_share = Share::new(Arc::clone(&unread_answers));
        small_share.wait(MIN_COUNTED_BYTES, false);
        assert!(!large_share.given_up.is_cancelled());
        assert_eq!(unread_answers.totals().all, 20 * MIB);
        large_share.wait(MIN_COUNTED_BYTES, true);
        assert_eq!(unread_answers.totals().all, 0);
    }
}
