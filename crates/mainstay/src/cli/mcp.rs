//! `mainstay mcp`: the aggregate for one client on stdin and stdout. If a daemon serves the same
//! configuration, it is a front for that daemon. If not, it starts its own servers, and other commands can
//! reach them.

mod standalone;

use std::{path::PathBuf, time::Duration};

use clap::Args;
use mainstay_command_line::{
    CommandError, Exit,
    clients::ClientsArgs,
    host::Host,
    run_command::{CommandFacts, Guard, Role, RunCommand},
    signals::Signals,
    starting::{self, HealthInterval},
    suggest,
};
use mainstay_commands::warn_of_unread_rules;
use mainstay_core::ids::ProfileName;
use mainstay_front::{self as front, ClientInput, Finder, Starter};
use mainstay_platform::{environment::Loaded, lineage::Lineage};

use self::standalone::{McpEnd, Standalone};
use super::serve;

/// The time limit for the return of a daemon that has just disappeared.
const WAIT: Duration = Duration::from_secs(20);

const EXAMPLES: &str = "\
Examples:
  claude mcp add mainstay -- mainstay mcp
  mainstay mcp --config servers.json
  mainstay mcp --profile meta
  mainstay mcp --standalone";

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
    health: HealthInterval,
    /// Start servers of its own, even if a daemon serves the same configuration
    #[arg(long)]
    standalone: bool,
}

impl Mcp {
    /// Returns the means to find and start the daemon of this configuration. Does not search for the daemon.
    /// `None` for a standalone run or an invalid profile path, or if `MAINSTAY_URL` is set.
    fn finder(&self, config: Option<&str>) -> Option<(Finder, Starter)> {
        let config = config.filter(|_| !self.standalone)?;
        // MAINSTAY_URL is only for the commands.
        if std::env::var_os("MAINSTAY_URL").is_some() {
            return None;
        }
        let finder = Finder {
            url: None,
            path: front::path(Some(&self.profile), None).ok()?,
            config: Some(config.to_owned()),
        };
        Some((finder, Starter::new(config.into())))
    }

    /// Attaches the client to the daemon that serves the same configuration, if there is one.
    async fn attach(&self, config: Option<&str>) -> Option<Result<Exit, CommandError>> {
        let (finder, starter) = self.finder(config)?;
        finder.find(0).ok()?;
        Some(Box::pin(front::run(finder, WAIT, Some(starter))).await)
    }
}

impl RunCommand for Mcp {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts {
            role: Role::Daemon,
            guard: Guard::WithoutTerminal,
            ..CommandFacts::default()
        }
    }

    /// Ends when the client has closed its end and has all answers, or when it stops reading. Writes only MCP
    /// messages to stdout.
    async fn run(self, _: &dyn Host) -> Result<Exit, CommandError> {
        let origin = self
            .health
            .origin(self.config.clone(), self.clients.clone().into());
        let mut loaded = origin.load()?;
        warn_of_unread_rules(&mut loaded);
        starting::print_findings(&loaded);
        self.check_profile(&loaded)?;
        let lineage = Lineage::begin(loaded.path.as_deref())?;
        let config = serve::shareable(&origin, &loaded);
        if let Some(served) = Box::pin(self.attach(config.as_deref())).await {
            return served;
        }
        let mut signals = Signals::listen().map_err(CommandError::Signals)?;
        let standalone = Standalone::start(&loaded, origin, lineage, config)?;
        let mut client = ClientInput::new(tokio::io::stdin(), standalone.max_message());
        let end = Box::pin(standalone.serve(&mut client, &self, &mut signals)).await?;
        match end {
            McpEnd::Over(exit) => Ok(exit),
            McpEnd::HandedOver(successor) => {
                let (finder, starter) = *successor;
                Box::pin(front::serve(client, finder, WAIT, Some(starter), signals)).await
            }
        }
    }
}

impl Mcp {
    fn check_profile(&self, loaded: &Loaded) -> Result<(), CommandError> {
        let profiles = &loaded.config.profiles;
        let names: Vec<&str> = profiles
            .iter()
            .map(|profile| profile.name.as_str())
            .collect();
        if names.contains(&self.profile.as_str()) {
            return Ok(());
        }
        let message = format!(
            "there is no profile {:?} in the configuration",
            self.profile
        );
        Err(CommandError::Usage {
            message,
            hint: Some(suggest::nearest_or_all(&self.profile, &names)),
        })
    }
}
