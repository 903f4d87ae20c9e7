//! `mainstay call`: calls one tool.

use std::{fs, io, io::Read as _};

use clap::Args;
use mainstay_api::{self as api, Raw};
use serde_json::value::RawValue;

use super::{
    CommandError, Exit, connect::DaemonArgs, content, output, pairs, stderr::complain, tools,
};

const EXAMPLES: &str = "\
Examples:
  mainstay call alpha/echo text=hello
  mainstay call alpha/add a=2 b=3
  mainstay call alpha/add --args '{\"a\": 2, \"b\": 3}'
  mainstay call files/write --args @arguments.json              (@- reads stdin)

The value of KEY=VALUE is taken as JSON where that is of a type the tool's
schema has for KEY, else as a string. The exit code is 1 if the tool reports an
error, 5 if it does not answer in time.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Call {
    /// The tool, as `mainstay tools` lists it
    #[arg(value_name = "SERVER/TOOL")]
    tool: String,
    /// Arguments
    #[arg(value_name = "KEY=VALUE", conflicts_with = "args")]
    pairs: Vec<String>,
    /// All arguments as a JSON object, or @FILE that holds it
    #[arg(long, value_name = "JSON|@FILE")]
    args: Option<String>,
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

impl Call {
    pub async fn run(self) -> Result<Exit, CommandError> {
        let given = self.args.as_deref().map(read_arguments).transpose()?;
        let pairs = pairs::split(&self.pairs)?;
        let answer: api::Answer = self
            .daemon
            .recorded(async |client| {
                let arguments = match given {
                    Some(arguments) => Some(arguments),
                    None if pairs.is_empty() => None,
                    None => {
                        let known = client.tools().await?;
                        let schema = tools::find(&known.tools, &self.tool)
                            .map(|tool| tool.input_schema.get());
                        Some(pairs::typed(&pairs, schema))
                    }
                };
                let call = api::Call {
                    tool: Some(self.tool.clone()),
                    arguments,
                };
                self.daemon.call(client, api::CALL, &call).await
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

/// `--args`: JSON, `@FILE`, or `@-` for stdin.
fn read_arguments(given: &str) -> Result<Raw, CommandError> {
    let unreadable = |source| CommandError::Read {
        path: given.trim_start_matches('@').to_owned(),
        source,
    };
    let text = match given.strip_prefix('@') {
        None => given.to_owned(),
        Some("-") => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map_err(unreadable)?;
            text
        }
        Some(path) => fs::read_to_string(path).map_err(unreadable)?,
    };
    let wrong = |reason: String| CommandError::Usage {
        message: format!("--args is no JSON object: {reason}"),
        hint: Some("such as --args '{\"text\": \"hello\"}'".to_owned()),
    };
    let arguments =
        RawValue::from_string(text.trim().to_owned()).map_err(|error| wrong(error.to_string()))?;
    if arguments.get().starts_with('{') {
        Ok(arguments)
    } else {
        Err(wrong("it is another kind of JSON".to_owned()))
    }
}
