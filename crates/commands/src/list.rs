//! `mainstay list`: lists servers and their status.

use std::time::Duration;

use clap::Args;
use mainstay_api::{self as api, Client};
use mainstay_command_line::{
    CommandError, Exit,
    connect::DaemonArgs,
    host::Host,
    output, pending,
    run_command::{CommandFacts, RunCommand},
    shape::{self, ItemList, OutputShape, Tabular},
    stderr::complain,
    table::{Cell, Column},
    trouble::{self, word},
};

use super::watch::{self, Block};

const EXAMPLES: &str = "\
Examples:
  mainstay list
  mainstay list --watch                    again after each change, until Ctrl-C
  mainstay list -o wide
  mainstay list --format '{name}\\t{status}'";

/// The interval at which `--watch` updates durations.
const TICK: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct List {
    /// Show them again after each change, until Ctrl-C
    #[arg(short, long, conflicts_with = "format")]
    watch: bool,
    #[command(flatten)]
    pub daemon: DaemonArgs,
    #[command(flatten)]
    pub shape: OutputShape,
}

impl List {
    /// The list without options.
    pub fn with_defaults(daemon: DaemonArgs) -> Self {
        Self {
            watch: false,
            daemon,
            shape: OutputShape::default(),
        }
    }
}

impl RunCommand for List {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts::rest_client(&self.daemon).shaped(&self.shape)
    }

    async fn run(self, host: &dyn Host) -> Result<Exit, CommandError> {
        if self.watch {
            let form = self.shape.watched(self.daemon.json)?;
            let look = async |client: &Client| {
                let list = client.servers().await?;
                Ok(match form {
                    Some(tabular) => Block::Lines(lines(&list, tabular)),
                    None => Block::Json(shape::value(&list)?),
                })
            };
            return watch::watch(host, &self.daemon, TICK, look).await;
        }
        let list = self
            .daemon
            .with(host, async |client| Ok(client.servers().await?))
            .await?;
        let found = ItemList::list::<api::Server>(&list, &["servers"], &["name"]);
        let Some(Tabular { wide }) = self.shape.print(self.daemon.json, &found)? else {
            return Ok(Exit::DONE);
        };
        for warning in &list.warnings {
            complain(&format!("warning: {warning}"));
        }
        if list.servers.is_empty() {
            complain("no servers are configured");
        } else {
            output::rows_of(&COLUMNS, list.servers.iter().map(row), wide)?;
        }
        Ok(Exit::DONE)
    }
}

/// The lines that `--watch` prints.
fn lines(list: &api::Servers, tabular: Tabular) -> Vec<String> {
    let warning_lines = list
        .warnings
        .iter()
        .map(|warning| output::one_line(&format!("warning: {warning}")).into_owned());
    let width = output::width();
    let rows = list.servers.iter().map(row);
    let table = output::lines_of(&COLUMNS, rows, tabular.wide, width);
    warning_lines.chain(table).collect()
}

pub(super) const COLUMNS: [Column; 8] = [
    Column::new("NAME").cut_to(20),
    Column::new("STATUS"),
    Column::new("TRANSPORT").rank(2),
    Column::new("TOOLS").rank(1),
    Column::new("RESOURCES").wide(),
    Column::new("PROMPTS").wide(),
    Column::new("PID").rank(3),
    Column::new("DETAIL").cut_to(24),
];

fn row(server: &api::Server) -> [Cell; 8] {
    let pid = server.pid.map(|pid| pid.to_string()).unwrap_or_default();
    [
        server.name.clone().into(),
        Cell::status(word(server)),
        server.transport.clone().into(),
        server.tool_count.to_string().into(),
        server.resource_count.to_string().into(),
        server.prompt_count.to_string().into(),
        pid.into(),
        detail(server).into(),
    ]
}

fn detail(server: &api::Server) -> String {
    match &server.pending {
        Some(pending) => pending::summary(pending),
        None => trouble::detail(server),
    }
}
