//! `mainstay mcp`: the aggregate for one client on stdin and stdout, without a daemon.

use std::path::PathBuf;

use clap::Args;

use super::{CommandError, Exit, serve, signals::Signals};
use crate::{daemon::Daemon, lineage::Lineage, setting::Setting};

const EXAMPLES: &str = "\
Examples:
  claude mcp add mainstay -- mainstay mcp
  mainstay mcp --config servers.json";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Mcp {
    /// The configuration [default: $MAINSTAY_CONFIG, or config.json in $MAINSTAY_HOME or ~/.config/mainstay]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    health: serve::HealthInterval,
}

impl Mcp {
    /// Ends when the client closes its end. Only the protocol is written to stdout.
    pub async fn run(self) -> Result<Exit, CommandError> {
        let loaded = self.health.origin(self.config).load()?;
        serve::tell_findings(&loaded);
        let lineage = Lineage::begin(loaded.path.as_deref())?;
        let mut signals = Signals::listen().map_err(CommandError::Signals)?;
        let daemon = Daemon::start(
            &loaded.config,
            Setting {
                lineage,
                ..Setting::default()
            },
        );
        tokio::select! {
            () = daemon.serve_stdio(tokio::io::stdin(), tokio::io::stdout()) => signals.asked_otherwise(),
            _ = signals.next() => {}
        }
        serve::stop(daemon, None, &mut signals).await
    }
}
