//! The time limit of one reading of an object.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::ExcerptError;

/// Time limit of one reading. A simple pattern takes a tenth of it for 60 MB.
const MAX_READING: Duration = Duration::from_secs(3);

/// Ends a reading at its time limit, or when its caller has stopped waiting.
#[derive(Clone, Debug)]
pub struct Budget {
    until: Instant,
    is_abandoned: Arc<AtomicBool>,
}

/// Held by the caller of a reading. Dropping it ends the reading.
#[derive(Debug)]
pub struct Reader(Arc<AtomicBool>);

impl Reader {
    pub fn new() -> Self {
        Self(Arc::default())
    }

    /// The budget of a reading that starts now.
    pub fn budget(&self) -> Budget {
        Budget {
            until: Instant::now() + MAX_READING,
            is_abandoned: Arc::clone(&self.0),
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Budget {
    /// Returns an error if the reading must end now.
    pub fn check(&self) -> Result<(), ExcerptError> {
        if self.is_abandoned.load(Ordering::Relaxed) {
            Err(ExcerptError::Abandoned)
        } else if Instant::now() >= self.until {
            Err(ExcerptError::Slow(MAX_READING))
        } else {
            Ok(())
        }
    }

    #[cfg(test)]
    pub fn spent() -> Self {
        Self {
            until: Instant::now(),
            is_abandoned: Arc::default(),
        }
    }
}
