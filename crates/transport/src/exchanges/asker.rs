//! Who asks on a connection that several clients share.

use std::sync::atomic::{AtomicU64, Ordering};

/// Tells the clients of a shared connection apart: a server's question goes to the only one that can
/// have caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Asker(u64);

impl Asker {
    /// Another than all before.
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
