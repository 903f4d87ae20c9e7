//! `mainstay list`: lists servers and their status.

use clap::Args;
use mainstay_api as api;

use super::{
    CommandError, Exit, approve,
    connect::DaemonArgs,
    output,
    stderr::complain,
    trouble::{self, word},
};

#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

impl List {
    pub async fn run(self) -> Result<Exit, CommandError> {
        let list = self
            .daemon
            .with(async |client| Ok(client.servers().await?))
            .await?;
        if !self.daemon.json {
            for warning in &list.warnings {
                complain(&format!("warning: {warning}"));
            }
        }
        if self.daemon.json {
            output::json(&list)?;
        } else if list.servers.is_empty() {
            complain("no servers are configured");
        } else {
            output::table(
                ["NAME", "STATUS", "TRANSPORT", "TOOLS", "PID", "DETAIL"],
                list.servers.iter().map(row),
            )?;
        }
        Ok(Exit::DONE)
    }
}

fn row(server: &api::Server) -> [String; 6] {
    let pid = server.pid.map(|pid| pid.to_string()).unwrap_or_default();
    [
        server.name.clone(),
        word(server).to_owned(),
        server.transport.clone(),
        server.tool_count.to_string(),
        pid,
        detail(server),
    ]
}

fn detail(server: &api::Server) -> String {
    match &server.pending {
        Some(pending) => approve::wanted(pending),
        None => trouble::detail(server),
    }
}
