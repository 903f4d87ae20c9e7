//! `mainstay enable` and `disable`: switches a server on or off.

use clap::Args;
use mainstay_api::Keeping;
use mainstay_command_line::{
    CommandError, Exit,
    connect::{ChangeArgs, ServerSource},
    host::Host,
    output,
    run_command::{CommandFacts, RunCommand},
    suggest,
};
use mainstay_gateway::reload::{FileChange, change_file};

use super::{
    add::{legal, report},
    operate,
};

#[derive(Debug, Args)]
pub struct Switch {
    /// The server
    name: String,
    /// Leave the configuration as it is: it holds again when the daemon is started anew
    #[arg(long)]
    ephemeral: bool,
    #[command(flatten)]
    pub daemon: ChangeArgs,
}

/// Defines the commands `enable` and `disable`.
macro_rules! switch_commands {
    ($($name:ident => $enabled:literal;)*) => {$(
        #[derive(Debug, Args)]
        pub struct $name {
            #[command(flatten)]
            switch: Switch,
        }

        impl RunCommand for $name {
            type Host<'h> = dyn Host + 'h;

            fn facts(&self) -> CommandFacts {
                CommandFacts::printing(self.switch.daemon.json)
            }

            async fn run(self, _: &dyn Host) -> Result<Exit, CommandError> {
                self.switch.run($enabled).await
            }
        }
    )*};
}

switch_commands! {
    Enable => true;
    Disable => false;
}

impl Switch {
    pub async fn run(self, enabled: bool) -> Result<Exit, CommandError> {
        let (switch, change) = if enabled {
            ("enable", "enabled in")
        } else {
            ("disable", "disabled in")
        };
        match self.daemon.place()? {
            ServerSource::Daemon(client) => {
                let keeping = Keeping {
                    persist: !self.ephemeral,
                    ..Keeping::default()
                };
                let operated = client.switch(&self.name, switch, keeping).await;
                let operated = suggest::completed(&client, operated.map_err(Into::into)).await?;
                if enabled || self.daemon.json {
                    operate::report(self.daemon.json, &operated)?;
                } else {
                    output::line(&format!("{} is disabled", operated.name))?;
                }
            }
            ServerSource::File(origin) => {
                let name = legal(&self.name)?;
                let loaded = change_file(&origin, FileChange::Switch { name, enabled }).map_err(
                    |failure| {
                        // Ignore the error of an unusable file. It is reported elsewhere.
                        let file = origin.load().ok().map(|loaded| loaded.config);
                        suggest::in_file(file.as_ref(), &self.name, failure)
                    },
                )?;
                report(&self.daemon, &self.name, change, loaded.path)?;
            }
        }
        Ok(Exit::DONE)
    }
}
