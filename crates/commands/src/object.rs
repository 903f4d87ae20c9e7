//! `mainstay object`: prints arguments or a result by its content identifier.

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
pub struct ObjectCommand {
    /// As records name it: `arguments_cid`, `result_cid`
    cid: String,
    /// Look into the journal of this instance, which needs no daemon
    #[arg(long, value_name = "NAME", conflicts_with_all = ["url", "config"])]
    instance: Option<String>,
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

impl RunCommand for ObjectCommand {
    type Host<'h> = dyn StoreHost + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts::rest_client(&self.daemon)
    }

    /// Prints the object. If stdout is not a terminal, writes exactly the stored bytes.
    async fn run(self, host: &dyn StoreHost) -> Result<Exit, CommandError> {
        let mut archive = match &self.instance {
            Some(instance) => Archive::of_instance(host, instance)?,
            None => match self.ask(host).await {
                Err(CommandError::Client(ClientError::NotRunning { dir })) => {
                    Archive::all(host, &dir)?.ok_or(ClientError::NotRunning { dir })?
                }
                answer => return answer.map(|()| Exit::DONE),
            },
        };
        let bytes = archive.object(&self.cid)?;
        output::bytes(&bytes)?;
        Ok(Exit::DONE)
    }
}

impl ObjectCommand {
    async fn ask(&self, host: &dyn StoreHost) -> Result<(), CommandError> {
        let ask = async |client: &Client| Ok(client.object(&self.cid).await?);
        output::bytes(self.daemon.with(host, ask).await?.get().as_bytes())
    }
}
