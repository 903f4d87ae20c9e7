//! `mainstay get`: shows a server's status, and its entry without secrets.

use clap::Args;
use mainstay_api as api;
use mainstay_command_line::{
    CommandError, Exit,
    connect::DaemonArgs,
    host::Host,
    output, pending,
    run_command::{CommandFacts, RunCommand},
    shape::{ItemList, OutputShape},
    trouble::{detail, word},
};
use mainstay_core::display;

#[derive(Debug, Args)]
pub struct Get {
    /// The server
    name: String,
    #[command(flatten)]
    pub daemon: DaemonArgs,
    #[command(flatten)]
    pub shape: OutputShape,
}

impl RunCommand for Get {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts::rest_client(&self.daemon).shaped(&self.shape)
    }

    async fn run(self, host: &dyn Host) -> Result<Exit, CommandError> {
        let details = self
            .daemon
            .with(host, async |client| Ok(client.server(&self.name).await?))
            .await?;
        let found = ItemList::one(&details, &["server.name"]);
        if self.shape.print(self.daemon.json, &found)?.is_some() {
            for line in status_lines(&details) {
                output::sentence(&line)?;
            }
            if let Some(entry) = details.entry {
                let entry = format!("{:#}", serde_json::Value::Object(entry));
                output::text(&display::json(&entry))?;
            }
        }
        Ok(Exit::DONE)
    }
}

fn status_lines(details: &api::ServerDetails) -> Vec<String> {
    let server = &details.server;
    let status = word(server);
    let tools = output::count(server.tool_count, "tool");
    let mut lines = vec![format!("{} is {status}, {tools}", server.name)];
    if let Some(hidden) = hidden(server) {
        lines.push(format!("  {hidden}"));
    }
    lines.extend(
        server
            .unmatched_tools
            .iter()
            .map(|line| format!("  {line}")),
    );
    if let Some(pending) = &server.pending {
        lines.push("  waits for approval:".to_owned());
        lines.extend(
            pending::whole(pending)
                .iter()
                .map(|line| format!("  {line}")),
        );
    }
    if server.pending.is_none() {
        lines.push(format!("  {}", detail(server)));
    }
    if let Some(listening) = server
        .listening
        .as_ref()
        .filter(|listening| !listening.open)
    {
        let reason = listening.reason.as_deref().unwrap_or_default();
        lines.push(format!("  listening: no ({reason})"));
    }
    if server.ephemeral {
        lines.push("  not in the configuration: gone when the daemon ends".to_owned());
    }
    lines
}

/// The line about tools that `strictToolNames` hides from clients.
fn hidden(server: &api::Server) -> Option<String> {
    let (count, names) = (server.hidden_tool_count, &server.hidden_tools);
    let more = match count.saturating_sub(names.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    let tools = output::count(count, "tool");
    (count > 0).then(|| format!("strictToolNames hides {tools}: {}{more}", names.join(", ")))
}
