//! `mainstay remove`: ends a server and forgets it.

use clap::Args;
use mainstay_gateway::reload::{Change, change_file};

use super::{
    CommandError, Exit,
    add::{legal, tell},
    connect::{ChangeArgs, ServerSource},
    output, suggest,
};

#[derive(Debug, Args)]
pub struct Remove {
    /// The server
    name: String,
    /// Leave the configuration as it is: the server is back when the daemon is started anew
    #[arg(long)]
    ephemeral: bool,
    #[command(flatten)]
    pub daemon: ChangeArgs,
}

impl Remove {
    pub async fn run(self) -> Result<Exit, CommandError> {
        match self.daemon.place()? {
            ServerSource::Daemon(client) => {
                let removed = client.remove(&self.name, !self.ephemeral).await;
                let removed = suggest::completed(&client, removed.map_err(Into::into)).await?;
                if self.daemon.json {
                    output::json(&removed)?;
                } else {
                    output::line(&format!("{} was removed", removed.name))?;
                }
            }
            ServerSource::File(origin) => {
                let loaded = change_file(&origin, Change::Remove(legal(&self.name)?)).map_err(
                    |failure| {
                        // A file that cannot be used has its own error.
                        let file = origin.load().ok().map(|loaded| loaded.config);
                        suggest::in_file(file.as_ref(), &self.name, failure)
                    },
                )?;
                tell(&self.daemon, &self.name, "removed from", loaded.path)?;
            }
        }
        Ok(Exit::DONE)
    }
}
