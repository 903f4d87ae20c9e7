//! Options of the engine beside its configuration.

use std::{path::PathBuf, sync::Arc};

use mainstay_journal::Journal;
use mainstay_platform::{
    clock::SleepClock, environment::Origin, lineage::Lineage, state::StateDir,
};

use crate::access_rules::AccessRules;

/// Options of the engine beside its configuration. The default keeps nothing between runs.
#[derive(Clone, Debug)]
pub struct GatewayOptions {
    /// The folder of servers' logs (`logs/` in it), which is private. Without it there are none.
    pub state: Option<PathBuf>,
    /// Where catalogs are kept between runs, shared with other Mainstays.
    pub catalogs: Option<PathBuf>,
    /// Where calls are recorded; without one they are not.
    pub journal: Option<Arc<Journal>>,
    /// Where clients' switches are kept between runs; without a place, for this run only.
    pub switches: Option<PathBuf>,
    /// Which principal may see and use what; without rules, everything.
    pub access_rules: Option<Arc<dyn AccessRules>>,
    /// Where the configuration can be read again; without one it stays as it is.
    pub origin: Option<Origin>,
    /// The state directory in which versions of the configuration are kept; without one there are none.
    pub config_history: Option<StateDir>,
    /// Tells when the machine has slept.
    pub clock: SleepClock,
    /// There is one client only (`mainstay mcp`): it is asked what servers ask.
    pub sole_client: bool,
    /// The Mainstays above this one, and the marks of its servers' processes.
    pub lineage: Lineage,
}

impl Default for GatewayOptions {
    fn default() -> Self {
        Self {
            state: None,
            catalogs: None,
            journal: None,
            switches: None,
            access_rules: None,
            origin: None,
            config_history: None,
            clock: SleepClock::system(),
            sole_client: false,
            lineage: Lineage::default(),
        }
    }
}
