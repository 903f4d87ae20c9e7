//! `mainstay reload`: makes the daemon read its configuration again.

use clap::Args;
use mainstay_command_line::{
    CommandError, Exit,
    connect::DaemonArgs,
    host::Host,
    output,
    run_command::{CommandFacts, RunCommand},
    screen::complain,
};

#[derive(Debug, Args)]
pub struct Reload {
    /// Only say what would change
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

impl RunCommand for Reload {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts {
            under_way: Some("reading the configuration"),
            ..CommandFacts::rest_client(&self.daemon)
        }
    }

    async fn run(self, host: &dyn Host) -> Result<Exit, CommandError> {
        let reloaded = self
            .daemon
            .with(host, async |client| Ok(client.reload(self.dry_run).await?))
            .await?;
        if self.daemon.json {
            output::json(&reloaded)?;
        } else {
            for finding in &reloaded.findings {
                complain(&finding.to_string());
            }
            output::text(&reloaded.summary)?;
        }
        Ok(Exit::DONE)
    }
}
