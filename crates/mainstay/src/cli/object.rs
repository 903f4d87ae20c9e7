//! `mainstay object`: arguments or a result by its content identifier.

use clap::Args;

use super::{CommandError, Exit, connect::DaemonArgs, output};

#[derive(Debug, Args)]
pub struct Object {
    /// As records name it: `arguments_cid`, `result_cid`
    cid: String,
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

impl Object {
    /// Prints it as it is stored.
    pub async fn run(self) -> Result<Exit, CommandError> {
        let object = self
            .daemon
            .with(async |client| Ok(client.object(&self.cid).await?))
            .await?;
        output::line(object.get())?;
        Ok(Exit::DONE)
    }
}
