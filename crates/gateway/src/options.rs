//! [`GatewayOptions`]: what the engine needs in addition to its configuration.

use std::{path::PathBuf, sync::Arc};

use mainstay_journal::Journal;
use mainstay_platform::{
    clock::SleepClock, environment::ConfigurationSource, lineage::Lineage, state::StateDir,
};

use crate::{access::TokenLimitSource, credential_sources::CredentialSources};

/// Options of the engine in addition to its configuration. With the default options, nothing is
/// stored between runs.
#[derive(Clone, Debug)]
pub struct GatewayOptions {
    /// The private folder whose subfolder `logs/` has the servers' logs. `None`: no logs are stored.
    pub state: Option<PathBuf>,
    /// The folder of the catalog files, shared with other Mainstays. `None`: no catalogs are
    /// stored.
    pub catalogs: Option<PathBuf>,
    /// The journal of calls. `None`: calls are not recorded.
    pub journal: Option<Arc<Journal>>,
    /// The file with the clients' switches. `None`: the switches are lost when Mainstay ends.
    pub switches: Option<PathBuf>,
    /// The limits of clients' tokens. `None`: no token has limits.
    pub token_limits: Option<Arc<dyn TokenLimitSource>>,
    /// The sources of credentials for servers that are reached over HTTP. Without them, requests have the headers of
    /// the configuration alone.
    pub credential_sources: Option<Arc<dyn CredentialSources>>,
    /// The source from which the configuration is read again. `None`: no reloads.
    pub origin: Option<ConfigurationSource>,
    /// The state directory with the versions of the configuration. `None`: no versions are stored.
    pub config_history: Option<StateDir>,
    /// Measures how long the machine has slept, so that sessions are checked after a sleep.
    pub clock: SleepClock,
    /// True if there is only one client (`mainstay mcp`). All questions of servers go to that client.
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
            token_limits: None,
            credential_sources: None,
            origin: None,
            config_history: None,
            clock: SleepClock::system(),
            sole_client: false,
            lineage: Lineage::default(),
        }
    }
}
