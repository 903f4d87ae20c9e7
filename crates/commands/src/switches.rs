//! `mainstay switches`: switches servers and tools on or off for one client.

use clap::{Args, Subcommand};
use mainstay_api::{SetSwitch, SwitchedOff};
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

const EXAMPLES: &str = "\
Examples:
  mainstay switches
  mainstay switches off claude-code github
  mainstay switches off claude-code github/delete_file
  mainstay switches on claude-code github
  mainstay switches clear claude-code";

pub(super) const COLUMNS: [Column; 2] = [
    Column::new("CLIENT").cut_to(20),
    Column::new("SWITCHED OFF").cut_to(20),
];

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SwitchesCommand {
    #[command(flatten)]
    pub daemon: DaemonArgs,
    #[command(flatten)]
    pub shape: OutputShape,
    #[command(subcommand)]
    action: Option<SwitchesAction>,
}

#[derive(Debug, Subcommand)]
enum SwitchesAction {
    /// List what is off (the default)
    List,
    /// Switch a server or a tool off for a client
    Off(SwitchTarget),
    /// Switch it on again
    On(SwitchTarget),
    /// Switch everything on again
    Clear {
        /// Clear the switches of this client
        #[arg(required_unless_present = "all")]
        client: Option<String>,
        /// Clear the switches of all clients
        #[arg(long, conflicts_with = "client")]
        all: bool,
    },
}

#[derive(Debug, Args)]
struct SwitchTarget {
    /// The client: the name of its token, or else what it calls itself when it connects
    client: String,
    /// A server, or one of its tools
    #[arg(value_name = "SERVER[/TOOL]")]
    target: String,
}

impl RunCommand for SwitchesCommand {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts::rest_client(&self.daemon).shaped(&self.shape)
    }

    async fn run(self, host: &dyn Host) -> Result<Exit, CommandError> {
        match &self.action {
            Some(SwitchesAction::Off(one)) => self.set(host, one, false).await?,
            Some(SwitchesAction::On(one)) => self.set(host, one, true).await?,
            Some(SwitchesAction::Clear { client, .. }) => {
                self.clear(host, client.as_deref()).await?;
            }
            Some(SwitchesAction::List) | None => self.list(host).await?,
        }
        Ok(Exit::DONE)
    }
}

impl SwitchesCommand {
    async fn set(
        &self,
        host: &dyn Host,
        one: &SwitchTarget,
        enabled: bool,
    ) -> Result<(), CommandError> {
        let (server, tool) = match one.target.split_once('/') {
            Some((server, tool)) => (server, Some(tool.to_owned())),
            None => (one.target.as_str(), None),
        };
        let set = SetSwitch {
            server: server.to_owned(),
            tool,
            enabled,
        };
        let is_json = self.shape.only_json(self.daemon.json)?;
        let switched = self
            .daemon
            .with(host, async |client| {
                Ok(client.set_switch(&one.client, &set).await?)
            })
            .await?;
        if is_json {
            return output::json(&switched);
        }
        let state = if enabled { "on" } else { "off" };
        output::line(&format!("{} is {state} for {}", one.target, one.client))
    }

    async fn clear(&self, host: &dyn Host, client: Option<&str>) -> Result<(), CommandError> {
        let is_json = self.shape.only_json(self.daemon.json)?;
        let cleared = self
            .daemon
            .with(host, async |daemon| {
                Ok(daemon.clear_switches(client).await?)
            })
            .await?;
        if is_json {
            return output::json(&cleared);
        }
        let cleared_client = client.unwrap_or("every client");
        output::line(&format!("everything is on for {cleared_client}"))
    }

    async fn list(&self, host: &dyn Host) -> Result<(), CommandError> {
        let all = self
            .daemon
            .with(host, async |client| Ok(client.switches().await?))
            .await?;
        let found = ItemList {
            whole: &all,
            items: &["clients"],
            names: &["name"],
            fields: ["name", "servers", "tools"].map(str::to_owned).to_vec(),
        };
        let Some(Tabular { wide }) = self.shape.print(self.daemon.json, &found)? else {
            return Ok(());
        };
        if all.clients.is_empty() {
            complain("everything is on for every client");
            return Ok(());
        }
        let rows = all.clients.iter().flat_map(|(client, off)| {
            let SwitchedOff { servers, tools } = off;
            let row = |target: &String| [client.clone(), target.clone()];
            servers.iter().chain(tools).map(row)
        });
        output::rows_of(&COLUMNS, rows, wide)
    }
}
