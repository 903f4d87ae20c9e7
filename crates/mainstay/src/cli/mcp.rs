//! `mainstay mcp`: the aggregate for one client on stdin and stdout, without a daemon.

use std::path::PathBuf;

use clap::Args;
use mainstay_core::ids::ProfileName;
use mainstay_gateway::GatewayOptions;
use mainstay_platform::{lineage::Lineage, state::StateDir};
use tokio::sync::oneshot;

use super::{
    CommandError, Exit, clients::ClientsArgs, instance::Kept, screen, serve, signals::Signals,
};
use crate::daemon::Daemon;

const EXAMPLES: &str = "\
Examples:
  claude mcp add mainstay -- mainstay mcp
  mainstay mcp --config servers.json
  mainstay mcp --profile meta";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Mcp {
    /// The configuration [default: $MAINSTAY_CONFIG, or config.json in $MAINSTAY_HOME or ~/.config/mainstay]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The profile of the configuration that the client sees
    #[arg(long, value_name = "NAME", default_value = ProfileName::DEFAULT)]
    profile: String,
    #[command(flatten)]
    clients: ClientsArgs,
    #[command(flatten)]
    health: serve::HealthInterval,
}

impl Mcp {
    /// Ends when the client has closed its end and is answered, or reads no more. Only the protocol is
    /// written to stdout.
    pub async fn run(self) -> Result<Exit, CommandError> {
        let loaded = self
            .health
            .origin(self.config, self.clients.into())
            .load()?;
        serve::tell_findings(&loaded);
        let profiles = loaded.config.profiles.iter();
        let known: Vec<&str> = profiles.map(|profile| profile.name.as_str()).collect();
        if !known.contains(&self.profile.as_str()) {
            return Err(CommandError::Usage {
                message: format!(
                    "there is no profile {:?} in the configuration",
                    self.profile
                ),
                hint: Some(format!("it has {}", known.join(", "))),
            });
        }
        let lineage = Lineage::begin(loaded.path.as_deref())?;
        let mut signals = Signals::listen().map_err(CommandError::Signals)?;
        let Kept {
            state,
            instance,
            journal,
        } = Kept::open(&loaded, &lineage)?;
        let daemon = Daemon::start(
            &loaded.config,
            GatewayOptions {
                state: instance.as_ref().map(|instance| instance.path().to_owned()),
                catalogs: state.as_ref().map(StateDir::catalogs),
                journal,
                switches: state.as_ref().map(StateDir::switches),
                lineage,
                sole_client: true,
                ..GatewayOptions::default()
            },
        );
        let registry = &daemon.gateway.registry;
        let profile = registry.profile(&self.profile);
        let profile = profile.expect("the configuration has it, and is not read again");
        let (stdout, shown) = screen::protocol();
        let serving = daemon.serve_stdio(profile, tokio::io::stdin(), stdout);
        let (tell, mut told) = oneshot::channel();
        // A door like others: the client is heard while calls have their time to end.
        let door = tokio::spawn(async move {
            let (served, ()) = tokio::join!(serving, shown);
            // The receiver is gone if the time limit has passed.
            tell.send(served).ok();
        });
        let mut served = None;
        tokio::select! {
            ended = &mut told => {
                served = Some(ended);
                signals.asked_otherwise();
            }
            () = screen::gone() => signals.asked_otherwise(),
            _ = signals.next() => {}
        }
        let exit = serve::stop(daemon, Some(door), &mut signals).await?;
        let served = match served {
            Some(served) => served,
            None => told.await,
        };
        // Without a word of it, its time has run out.
        let served = served.unwrap_or(Ok(()));
        served.map(|()| exit).map_err(CommandError::Output)
    }
}
