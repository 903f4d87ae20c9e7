//! `mainstay tools`: lists tools, or prints the arguments of one.

use clap::{Args, Subcommand};
use mainstay_api::{self as api, Client};
use mainstay_command_line::{
    CommandError, Exit,
    connect::DaemonArgs,
    host::Host,
    output,
    run_command::{CommandFacts, RunCommand},
    shape::{ItemList, OutputShape, Tabular},
    stderr::complain,
    suggest,
    table::Column,
};
use mainstay_core::{
    display::{self, word},
    message::foreign,
};
use serde_json::Value;

const EXAMPLES: &str = "\
Examples:
  mainstay tools
  mainstay tools alpha                     those of one server
  mainstay tools get alpha/echo
  mainstay tools get alpha/echo --json     with its input schema";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Tools {
    /// Only those of this server
    server: Option<String>,
    #[command(flatten)]
    pub daemon: DaemonArgs,
    #[command(flatten)]
    pub shape: OutputShape,
    #[command(subcommand)]
    action: Option<ToolsAction>,
}

#[derive(Debug, Subcommand)]
enum ToolsAction {
    /// List them (the default)
    List {
        /// Only those of this server
        server: Option<String>,
    },
    /// Show one tool and its arguments
    Get {
        #[arg(value_name = "SERVER/TOOL")]
        name: String,
    },
}

impl RunCommand for Tools {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts::rest_client(&self.daemon).shaped(&self.shape)
    }

    async fn run(self, host: &dyn Host) -> Result<Exit, CommandError> {
        let server = match &self.action {
            Some(ToolsAction::List { server }) => server.as_deref(),
            Some(ToolsAction::Get { .. }) => None,
            None => self.server.as_deref(),
        };
        let ask = async |client: &Client| {
            let mut tools = client.tools().await?;
            if let Some(server) = server {
                tools.tools.retain(|tool| tool.server == server);
                if tools.tools.is_empty() && server.contains('/') {
                    return Err(CommandError::NotFound {
                        subject: format!("server {server}"),
                        hint: format!("`mainstay tools get {}` shows one tool", word(server)),
                    });
                }
                if tools.tools.is_empty() {
                    // Fail if the server does not exist.
                    client.server(server).await?;
                }
            }
            Ok(tools)
        };
        let tools = self.daemon.with(host, ask).await?;
        match self.action {
            Some(ToolsAction::Get { name }) => {
                let tool = find(&tools.tools, &name).ok_or_else(|| {
                    let nearest = suggest::tool(&name, &tools.tools);
                    let suggestion = nearest.map_or_else(String::new, |tool| {
                        format!("did you mean {}? ", word(&tool))
                    });
                    CommandError::NotFound {
                        subject: format!("tool {name}"),
                        hint: format!("{suggestion}`mainstay tools` lists them all"),
                    }
                })?;
                let found = ItemList::one(tool, &["name"]);
                if self.shape.print(self.daemon.json, &found)?.is_some() {
                    show(tool)?;
                }
            }
            Some(ToolsAction::List { .. }) | None => list(&tools, self.daemon.json, &self.shape)?,
        }
        Ok(Exit::DONE)
    }
}

fn list(tools: &api::Tools, json: bool, shape: &OutputShape) -> Result<(), CommandError> {
    let found = ItemList::list::<api::Tool>(tools, &["tools"], &["name"]);
    let Some(Tabular { wide }) = shape.print(json, &found)? else {
        return Ok(());
    };
    if tools.tools.is_empty() {
        complain("no tools; `mainstay list` shows how the servers are");
        return Ok(());
    }
    output::rows_of(&COLUMNS, tools.tools.iter().map(row), wide)
}

/// Prints the tool of this name. If there is none, lists the tools with the word in their names or
/// descriptions.
pub async fn search(
    host: &dyn Host,
    daemon: &DaemonArgs,
    word: Option<&str>,
) -> Result<Exit, CommandError> {
    let ask = async |client: &Client| Ok(client.tools().await?);
    let mut tools = daemon.with(host, ask).await?;
    if let Some(word) = word {
        if let Some(tool) = tools.tools.iter().find(|tool| tool.name == word) {
            if daemon.json {
                output::json(tool)?;
            } else {
                show(tool)?;
            }
            return Ok(Exit::DONE);
        }
        let nearest = suggest::tool(word, &tools.tools);
        let lowercase_word = word.to_lowercase();
        let fits = |text: &str| text.to_lowercase().contains(&lowercase_word);
        tools
            .tools
            .retain(|tool| fits(&tool.name) || fits(&tool.description));
        if tools.tools.is_empty() {
            let suggestion = nearest.map_or_else(String::new, |tool| {
                format!("did you mean {}? ", display::word(&tool))
            });
            return Err(CommandError::NotFound {
                subject: format!("a tool with {word:?} in its name or description"),
                hint: format!("{suggestion}without a word all are listed"),
            });
        }
    }
    list(&tools, daemon.json, &OutputShape::default())?;
    Ok(Exit::DONE)
}

pub(super) const COLUMNS: [Column; 2] = [
    Column::new("NAME").cut_to(32),
    Column::new("DESCRIPTION").cut_to(20),
];

fn row(tool: &api::Tool) -> [String; 2] {
    let description = output::headline(&tool.description).into_owned();
    [tool.name.clone(), description]
}

/// Finds a tool by `server/tool`. If only one tool matches, also finds it by its original name or
/// by `server__tool`.
pub fn find<'t>(tools: &'t [api::Tool], name: &str) -> Option<&'t api::Tool> {
    if let Some(tool) = tools.iter().find(|tool| tool.name == name) {
        return Some(tool);
    }
    let mut candidates = tools.iter().filter(|tool| {
        tool.original_name == name || format!("{}__{}", tool.server, tool.original_name) == name
    });
    candidates.next().filter(|_| candidates.next().is_none())
}

fn show(tool: &api::Tool) -> Result<(), CommandError> {
    output::line(&tool.name)?;
    if !tool.description.is_empty() {
        output::text(&format!("\n{}", tool.description.trim_end()))?;
    }
    // Treat a schema of another shape as empty. `--json` prints it unchanged.
    let schema: Value = foreign::read(tool.input_schema.get()).unwrap_or_default();
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let properties = schema["properties"]
        .as_object()
        .filter(|properties| !properties.is_empty());
    let Some(properties) = properties else {
        return output::text("\nno arguments");
    };
    output::line("")?;
    let rows = properties.iter().map(|(name, property)| {
        [
            name.clone(),
            kind(property),
            if required.contains(&name.as_str()) {
                "required"
            } else {
                ""
            }
            .to_owned(),
            output::headline(property["description"].as_str().unwrap_or_default()).into_owned(),
        ]
    });
    output::table(["ARGUMENT", "TYPE", "", "DESCRIPTION"], rows)
}

/// The type of an argument: `string`, `integer|null`, `"a"|"b"`.
fn kind(property: &Value) -> String {
    let joined = |values: &[Value]| {
        values
            .iter()
            .map(|value| {
                value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned)
            })
            .collect::<Vec<_>>()
            .join("|")
    };
    match (&property["enum"], &property["type"]) {
        (Value::Array(values), _) | (_, Value::Array(values)) => joined(values),
        (_, Value::String(kind)) => kind.clone(),
        _ => "any".to_owned(),
    }
}
