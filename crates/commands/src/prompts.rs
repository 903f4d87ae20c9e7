//! `mainstay prompts`: lists prompts, and gets a prompt with its arguments.

use clap::{Args, Subcommand};
use mainstay_api as api;
use mainstay_command_line::{
    CommandError, Exit,
    connect::DaemonArgs,
    host::Host,
    output,
    run_command::{CommandFacts, RunCommand},
    shape::{ItemList, OutputShape, Tabular},
    stderr::complain,
    table::Column,
};
use mainstay_core::message::foreign;
use serde_json::Value;

use super::{content, pairs};

pub(super) const COLUMNS: [Column; 3] = [
    Column::new("NAME").cut_to(24),
    Column::new("ARGUMENTS").cut_to(10).rank(1),
    Column::new("DESCRIPTION").cut_to(20),
];

const EXAMPLES: &str = "\
Examples:
  mainstay prompts
  mainstay prompts get alpha/greeting name=Ada";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Prompts {
    #[command(flatten)]
    pub daemon: DaemonArgs,
    #[command(flatten)]
    pub shape: OutputShape,
    #[command(subcommand)]
    action: Option<PromptsAction>,
}

#[derive(Debug, Subcommand)]
enum PromptsAction {
    /// List them all (the default)
    List,
    /// Fill one in
    Get {
        #[arg(value_name = "SERVER/PROMPT")]
        name: String,
        /// Arguments, always strings
        #[arg(value_name = "KEY=VALUE")]
        pairs: Vec<String>,
    },
}

impl RunCommand for Prompts {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts::rest_client(&self.daemon).shaped(&self.shape)
    }

    async fn run(self, host: &dyn Host) -> Result<Exit, CommandError> {
        match &self.action {
            Some(PromptsAction::Get { name, pairs }) => self.get(host, name, pairs).await?,
            Some(PromptsAction::List) | None => self.list(host).await?,
        }
        Ok(Exit::DONE)
    }
}

impl Prompts {
    async fn list(&self, host: &dyn Host) -> Result<(), CommandError> {
        let list = self
            .daemon
            .with(host, async |client| Ok(client.prompts().await?))
            .await?;
        let found = ItemList::list::<api::Prompt>(&list, &["prompts"], &["name"]);
        let Some(Tabular { wide }) = self.shape.print(self.daemon.json, &found)? else {
            return Ok(());
        };
        if list.prompts.is_empty() {
            complain("no prompts; `mainstay list` shows how the servers are");
            return Ok(());
        }
        let row = |prompt: &api::Prompt| {
            [
                prompt.name.clone(),
                arguments(prompt),
                output::headline(&prompt.description).into_owned(),
            ]
        };
        output::rows_of(&COLUMNS, list.prompts.iter().map(row), wide)
    }

    async fn get(&self, host: &dyn Host, name: &str, words: &[String]) -> Result<(), CommandError> {
        let words = pairs::split(words)?;
        let arguments = (!words.is_empty()).then(|| pairs::strings(&words));
        let get = api::GetPrompt {
            prompt: Some(name.to_owned()),
            arguments,
        };
        let is_json = self.shape.only_json(self.daemon.json)?;
        let answer: api::Answer = self
            .daemon
            .recorded(host, async |client| {
                self.daemon.call(client, name, api::GET_PROMPT, &get).await
            })
            .await?;
        if is_json {
            return output::json(&answer.result);
        }
        let result: Value = foreign::read(answer.result.get()).unwrap_or_default();
        for message in result["messages"].as_array().into_iter().flatten() {
            let role = message["role"].as_str().unwrap_or("unknown role");
            output::data(&format!(
                "{role}: {}",
                content::describe(&message["content"])
            ))?;
        }
        Ok(())
    }
}

/// The names of a prompt's arguments, with a question mark for optional ones: `name style?`.
fn arguments(prompt: &api::Prompt) -> String {
    let arguments: Vec<Value> = foreign::read(prompt.arguments.get()).unwrap_or_default();
    let names: Vec<String> = arguments
        .iter()
        .filter_map(|argument| {
            let name = argument["name"].as_str()?;
            let optional = if argument["required"] == true {
                ""
            } else {
                "?"
            };
            Some(format!("{name}{optional}"))
        })
        .collect();
    names.join(" ")
}
