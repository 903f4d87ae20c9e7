//! Identifies the client that makes requests on a connection that several clients share.

use std::sync::atomic::{AtomicU64, Ordering};

/// Identifies one client of a shared connection. A server's question goes to the only client that can have
/// caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Asker(u64);

impl Asker {
    /// Returns an id that no other client has.
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Default for Asker {
    fn default() -> Self {
        Self::new()
    }
}
