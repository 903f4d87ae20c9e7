//! What one reading may cost.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::Unreadable;

/// How long one reading may compute. A plain pattern takes a tenth of it for 60 MB.
const MAX_READING: Duration = Duration::from_secs(3);

/// Ends a reading that takes too long, or that nobody waits for any more.
#[derive(Clone, Debug)]
pub struct Budget {
    until: Instant,
    is_unwanted: Arc<AtomicBool>,
}

/// Held by who waits for a reading. Dropping it ends the reading.
#[derive(Debug)]
pub struct Reader(Arc<AtomicBool>);

impl Reader {
    pub fn new() -> Self {
        Self(Arc::default())
    }

    /// What a reading that begins now may cost.
    pub fn budget(&self) -> Budget {
        Budget {
            until: Instant::now() + MAX_READING,
            is_unwanted: Arc::clone(&self.0),
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Budget {
    /// An error once the reading has to end.
    pub fn check(&self) -> Result<(), Unreadable> {
        if self.is_unwanted.load(Ordering::Relaxed) {
            Err(Unreadable::Unwanted)
        } else if Instant::now() >= self.until {
            Err(Unreadable::Slow(MAX_READING))
        } else {
            Ok(())
        }
    }

    #[cfg(test)]
    pub fn spent() -> Self {
        Self {
            until: Instant::now(),
            is_unwanted: Arc::default(),
        }
    }
}
