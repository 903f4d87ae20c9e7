//! What a daemon is told beside its configuration.

use std::path::PathBuf;

use crate::clock::SleepClock;

#[derive(Clone, Debug)]
pub struct Setting {
    /// The state directory; without one nothing is kept on disk.
    pub state: Option<PathBuf>,
    /// Tells when the machine has slept.
    pub clock: SleepClock,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            state: None,
            clock: SleepClock::system(),
        }
    }
}
