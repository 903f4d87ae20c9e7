//! `mainstay read`: prints the contents of a resource.

use clap::Args;
use mainstay_api as api;
use mainstay_command_line::{
    CommandError, Exit,
    connect::DaemonArgs,
    host::Host,
    output,
    run_command::{CommandFacts, RunCommand},
};
use mainstay_core::message::foreign;
use serde_json::Value;

use super::content;

const EXAMPLES: &str = "\
Examples:
  mainstay read demo://alpha/about
  mainstay read alpha demo://alpha/about   from this server, whoever else has it";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "mainstay read [OPTIONS] [SERVER] <URI>")]
pub struct ReadCommand {
    /// The resource, and before it, where it matters, the server
    #[arg(value_name = "URI", num_args = 1..=2, required = true)]
    resource: Vec<String>,
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

impl RunCommand for ReadCommand {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts::rest_client(&self.daemon)
    }

    async fn run(mut self, host: &dyn Host) -> Result<Exit, CommandError> {
        let uri = self.resource.pop();
        let label = uri.clone().unwrap_or_default();
        let request = api::Read {
            server: self.resource.pop(),
            uri,
        };
        let read: api::WholeRead = self
            .daemon
            .recorded(host, async |client| {
                self.daemon
                    .call(client, &label, api::READ_WHOLE, &request)
                    .await
            })
            .await?;
        if self.daemon.json {
            output::json(&read.result)?;
            return Ok(Exit::DONE);
        }
        let result: Value = foreign::read(read.result.get()).unwrap_or_default();
        for item in result["contents"].as_array().into_iter().flatten() {
            output::data(&content::describe(item))?;
        }
        Ok(Exit::DONE)
    }
}
