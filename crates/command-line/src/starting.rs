//! Shared by the commands that start servers: the interval of health checks, and warnings about a
//! configuration.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use mainstay_platform::environment::{ClientsFlags, ConfigurationSource, Loaded};

use super::stderr::complain;

/// Interval of health checks, for all commands that start servers.
#[derive(Clone, Copy, Debug, Args)]
pub struct HealthInterval {
    /// Ask a silent server after this many seconds, 0 is never; what the file says wins
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=86_400))]
    health_interval: Option<u64>,
}

impl HealthInterval {
    pub const fn is_given(self) -> bool {
        self.health_interval.is_some()
    }

    /// The configuration that is read with these options.
    pub fn origin(self, flag: Option<PathBuf>, clients: ClientsFlags) -> ConfigurationSource {
        let interval = |seconds| (seconds > 0).then(|| Duration::from_secs(seconds));
        ConfigurationSource {
            flag,
            health_interval: self.health_interval.map(interval),
            clients,
        }
    }
}

/// Prints warnings about a valid configuration on stderr.
pub fn print_findings(loaded: &Loaded) {
    for finding in loaded.findings() {
        complain(&finding);
    }
}
