//! Options of a daemon beside its configuration.

use std::{path::PathBuf, sync::Arc, time::Duration};

use mainstay_core::config::Secret;

use crate::{clock::SleepClock, journal::Journal, lineage::Lineage, surroundings::Origin};

#[derive(Clone, Debug)]
pub struct Setting {
    /// The folder of servers' logs (`logs/` in it), which is private. Without it there are none.
    pub state: Option<PathBuf>,
    /// Seals the ids of clients' sessions, so that a later run knows them; without one none does.
    pub session_key: Option<Secret>,
    /// Where catalogs are kept between runs, shared with other Mainstays.
    pub catalogs: Option<PathBuf>,
    /// Where calls are recorded; without one they are not.
    pub journal: Option<Arc<Journal>>,
    /// Where clients' switches are kept between runs; without a place, for this run only.
    pub switches: Option<PathBuf>,
    /// Where the configuration can be read again; without one it stays as it is.
    pub origin: Option<Origin>,
    /// Demands no token, unless the configuration says otherwise (`serve --insecure`).
    pub insecure: bool,
    /// Tells when the machine has slept.
    pub clock: SleepClock,
    /// There is one client only (`mainstay mcp`): it is asked what servers ask.
    pub sole_client: bool,
    /// The Mainstays above this one, and the marks of its servers' processes.
    pub lineage: Lineage,
    /// How long clients may stand still.
    pub pauses: Pauses,
}

/// How long clients may stand still.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    /// Between two pieces of a request's body.
    pub body: Duration,
    /// How often a connection is looked at. One that reads too little of an answer is ended at the second
    /// look.
    pub look: Duration,
}

impl Default for Pauses {
    fn default() -> Self {
        Self {
            // A machine may be busy, a network may lose packets.
            body: Duration::from_secs(10),
            look: Duration::from_secs(30),
        }
    }
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            state: None,
            session_key: None,
            catalogs: None,
            journal: None,
            switches: None,
            origin: None,
            insecure: false,
            clock: SleepClock::system(),
            sole_client: false,
            lineage: Lineage::default(),
            pauses: Pauses::default(),
        }
    }
}
