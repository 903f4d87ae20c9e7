//! `mainstay object`: arguments or a result by its content identifier.

use clap::Args;
use mainstay_api::{Client, ClientError};
use mainstay_command_line::{
    CommandError, Exit,
    connect::DaemonArgs,
    output,
    run_command::{CommandFacts, RunCommand},
};

use super::{archive::Archive, store::StoreHost};

#[derive(Debug, Args)]
pub struct Object {
    /// As records name it: `arguments_cid`, `result_cid`
    cid: String,
    /// Look into the journal of this instance, which needs no daemon
    #[arg(long, value_name = "NAME", conflicts_with_all = ["url", "config"])]
    instance: Option<String>,
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

impl RunCommand for Object {
    type Host<'h> = dyn StoreHost + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts::asking(&self.daemon)
    }

    /// Prints it as it is stored: in a pipe, these bytes and no others.
    async fn run(self, host: &dyn StoreHost) -> Result<Exit, CommandError> {
        let mut archive = match &self.instance {
            Some(instance) => Archive::of(host, instance)?,
            None => match self.ask(host).await {
                Err(CommandError::Client(ClientError::NotRunning { dir })) => {
                    Archive::all(host, &dir)?.ok_or(ClientError::NotRunning { dir })?
                }
                asked => return asked.map(|()| Exit::DONE),
            },
        };
        let bytes = archive.object(&self.cid)?;
        output::bytes(&bytes)?;
        Ok(Exit::DONE)
    }
}

impl Object {
    async fn ask(&self, host: &dyn StoreHost) -> Result<(), CommandError> {
        let ask = async |client: &Client| Ok(client.object(&self.cid).await?);
        output::bytes(self.daemon.with(host, ask).await?.get().as_bytes())
    }
}
