//! Bounds what unread answers hold together. Beyond the bound, the connections whose clients have read
//! nothing for longest are closed.

use std::{collections::HashMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A connection that holds no more than this is not counted: the number of connections is bounded.
const FREE: usize = 64 * 1024;

/// What the connections of one listener hold.
#[derive(Debug)]
pub struct Unread {
    /// Bytes of all (`http.maxUnreadBytes`).
    limit: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    all: usize,
    by_connection: HashMap<u64, UnreadAnswer>,
    next: u64,
}

/// What waits on one connection.
#[derive(Debug)]
struct UnreadAnswer {
    bytes: usize,
    /// When its client read last, as far as can be seen.
    since: Instant,
    given_up: CancellationToken,
}

/// What one connection holds; dropping it gives that back.
#[derive(Debug)]
pub struct Share {
    unread: Arc<Unread>,
    /// Its place among those that are counted.
    number: Option<u64>,
    given_up: CancellationToken,
}

impl Unread {
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            held: Mutex::default(),
        })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // Held for a few operations, never across an await.
        self.held.lock()
    }
}

impl Held {
    /// Gives up connections until the rest is within the limit. One alone may exceed it.
    fn reduce(&mut self, limit: usize) {
        while self.all > limit && self.by_connection.len() > 1 {
            let longest = self.by_connection.iter().min_by_key(|(_, it)| it.since);
            let Some(number) = longest.map(|(number, _)| *number) else {
                return;
            };
            self.remove(number, |answer| answer.given_up.cancel());
        }
    }

    fn remove(&mut self, number: u64, then: impl FnOnce(&UnreadAnswer)) {
        if let Some(answer) = self.by_connection.remove(&number) {
            self.all -= answer.bytes;
            then(&answer);
        }
    }
}

impl Share {
    pub fn new(unread: Arc<Unread>) -> Self {
        Self {
            unread,
            number: None,
            given_up: CancellationToken::new(),
        }
    }

    /// Ends when the connection is to be reset, for what it holds is needed.
    pub fn given_up(&self) -> CancellationToken {
        self.given_up.clone()
    }

    /// So many bytes are held because the last write did not find room for all; `progress` is whether some did.
    pub fn wait(&mut self, bytes: usize, progress: bool) {
        if self.number.is_none() && bytes <= FREE {
            return;
        }
        let mut held = self.unread.held();
        let Some(number) = self.number.filter(|_| bytes > FREE) else {
            match self.number.take() {
                Some(number) => held.remove(number, |_| ()),
                None => {
                    let number = held.next;
                    held.next += 1;
                    self.number = Some(number);
                    let answer = UnreadAnswer {
                        bytes,
                        since: Instant::now(),
                        given_up: self.given_up.clone(),
                    };
                    held.by_connection.insert(number, answer);
                    held.all += bytes;
                    held.reduce(self.unread.limit);
                }
            }
            return;
        };
        let Some(answer) = held.by_connection.get_mut(&number) else {
            // It is given up.
            return;
        };
        let before = std::mem::replace(&mut answer.bytes, bytes);
        if progress {
            answer.since = Instant::now();
        }
        held.all = held.all - before + bytes;
        if bytes > before {
            held.reduce(self.unread.limit);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.unread.held().remove(number, |_| ());
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
    async fn those_who_read_nothing_for_longest_are_given_up() {
        let unread = Unread::new(10 * MIB);
        let mut shares: Vec<Share> = (0..4).map(|_| Share::new(Arc::clone(&unread))).collect();
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
        // What is given up is neither counted again nor given back twice.
        shares[1].wait(3 * MIB, true);
        assert_eq!(unread.held().all, 9 * MIB);
        drop(shares);
        let held = unread.held();
        assert_eq!((held.all, held.by_connection.len()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn one_answer_may_exceed_the_limit_and_small_ones_are_not_counted() {
        let unread = Unread::new(MIB);
        let mut large = Share::new(Arc::clone(&unread));
        large.wait(20 * MIB, false);
        let mut small = Share::new(Arc::clone(&unread));
        small.wait(FREE, false);
        assert!(!large.given_up.is_cancelled());
        assert_eq!(unread.held().all, 20 * MIB);
        large.wait(FREE, true);
        assert_eq!(unread.held().all, 0);
    }
}
