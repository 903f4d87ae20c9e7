//! `mainstay call`: calls one tool.

mod arguments;

use clap::Args;
use mainstay_api as api;
use mainstay_command_line::{
    CommandError, Exit,
    connect::DaemonArgs,
    host::Host,
    output,
    run_command::{CommandFacts, RunCommand},
    stderr::complain,
};

pub use self::arguments::ArgumentInput;
use self::arguments::CallArguments;
use super::{content, tools};

const EXAMPLES: &str = "\
Examples:
  mainstay call alpha/echo text=hello
  mainstay call alpha/add a=2 b=3
  mainstay call alpha/add --args '{\"a\": 2, \"b\": 3}'
  mainstay call files/write path=notes.md text=@notes.md
  mainstay call files/write @arguments.json
  jq … | mainstay call files/write -

The value of KEY=VALUE is taken as JSON where that is of a type the tool's
schema has for KEY, else as a string. As a value, @FILE is the text of a file,
@- that of stdin, and @@ a single @. On a terminal, required arguments that are
missing are asked for.

The exit code is 1 if the tool reports an error, 2 if arguments are missing, 5
if it does not answer in time, 130 after Ctrl-C, which cancels the call.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CallCommand {
    /// The tool, as `mainstay tools` lists it
    #[arg(value_name = "SERVER/TOOL")]
    tool: String,
    /// Arguments, or all of them as a JSON object in a file (@FILE) or on stdin (-)
    #[arg(value_name = "KEY=VALUE", conflicts_with = "args")]
    pairs: Vec<String>,
    /// All arguments as a JSON object, or @FILE that holds it
    #[arg(long, value_name = "JSON|@FILE")]
    args: Option<String>,
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

impl RunCommand for CallCommand {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts::rest_client(&self.daemon)
    }

    async fn run(self, host: &dyn Host) -> Result<Exit, CommandError> {
        self.run_with(ArgumentInput::Own, host).await
    }
}

impl CallCommand {
    pub async fn run_with(
        self,
        input: ArgumentInput,
        host: &dyn Host,
    ) -> Result<Exit, CommandError> {
        let arguments = CallArguments::read(self.args.as_deref(), &self.pairs, input)?;
        let may_ask = input == ArgumentInput::Own && !self.daemon.json;
        let answer: api::Answer = self
            .daemon
            .recorded(host, async |client| {
                let catalog = if arguments.needs_schema() {
                    Some(client.tools().await?.tools)
                } else {
                    None
                };
                let tool = catalog
                    .as_deref()
                    .and_then(|catalog| tools::find(catalog, &self.tool));
                let call = api::Call {
                    tool: Some(self.tool.clone()),
                    arguments: arguments.complete(tool, input, may_ask).await?,
                };
                self.daemon.call(client, &self.tool, api::CALL, &call).await
            })
            .await?;
        let result = content::ToolResult::read(&answer.result);
        if self.daemon.json {
            output::json(&answer.result)?;
        } else {
            result.print()?;
        }
        if result.is_error {
            if !self.daemon.json {
                complain(&format!("error: {} reported an error", self.tool));
            }
            return Ok(Exit::FAILED);
        }
        Ok(Exit::DONE)
    }
}
