//! `mainstay remove`: stops a server and removes its entry.

use clap::Args;
use mainstay_command_line::{
    CommandError, Exit,
    connect::{ChangeArgs, ServerSource},
    host::Host,
    output,
    run_command::{CommandFacts, RunCommand},
    suggest,
};
use mainstay_config::{
    Syntax,
    edit::{Document, Entry},
};
use mainstay_core::ids::ServerName;
use mainstay_gateway::reload::{FileChange, change_file};
use mainstay_platform::environment::ConfigurationSource;

use super::add::{bundle, legal, report};

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

impl RunCommand for Remove {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts::printing(self.daemon.json)
    }

    async fn run(self, _: &dyn Host) -> Result<Exit, CommandError> {
        let bundle = match self.daemon.place()? {
            ServerSource::Daemon(client) => {
                let before = client.server(&self.name).await.ok();
                let removed = client.remove(&self.name, !self.ephemeral).await;
                let removed = suggest::completed(&client, removed.map_err(Into::into)).await?;
                if self.daemon.json {
                    output::json(&removed)?;
                } else {
                    output::line(&format!("{} was removed", removed.name))?;
                }
                before.and_then(|before| before.entry)
            }
            ServerSource::File(origin) => {
                let before = entry(&origin, &legal(&self.name)?);
                let loaded = change_file(&origin, FileChange::Remove(legal(&self.name)?)).map_err(
                    |failure| {
                        // Ignore the error of an unusable file. It is reported elsewhere.
                        let file = origin.load().ok().map(|loaded| loaded.config);
                        suggest::in_file(file.as_ref(), &self.name, failure)
                    },
                )?;
                report(&self.daemon, &self.name, "removed from", loaded.path)?;
                before
            }
        };
        let folder = bundle.and_then(|entry| bundle::folder_of(&entry, &self.name));
        if let Some(folder) = folder.filter(|_| !self.ephemeral) {
            bundle::remove_folder(&folder);
        }
        Ok(Exit::DONE)
    }
}

/// The entry before its removal.
fn entry(origin: &ConfigurationSource, name: &ServerName) -> Option<Entry> {
    let text = origin.text().ok()??;
    let syntax = Syntax::of_path(&origin.path()?);
    Document::read(&text, syntax).ok()?.entry(name)
}
