//! `mainstay list`: the servers and how they are.

use std::time::Duration;

use clap::Args;

use super::{CommandError, Exit, connect::DaemonArgs, output, stderr::complain};
use crate::api;

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
    let status = if server.enabled {
        &server.status
    } else {
        "disabled"
    };
    let pid = server.pid.map(|pid| pid.to_string()).unwrap_or_default();
    let detail = match (&server.last_error, server.uptime_ms) {
        _ if server.pending.is_some() => {
            let pending = server.pending.as_ref();
            pending.map(super::approve::wanted).unwrap_or_default()
        }
        (None, Some(uptime)) => format!("up {}", output::span(Duration::from_millis(uptime))),
        (None, None) => String::new(),
        (reason, _) => output::trouble(
            reason.as_deref(),
            server.reconnect_attempt.unwrap_or_default(),
            server.next_retry_ms.map(Duration::from_millis),
        ),
    };
    [
        server.name.clone(),
        status.to_owned(),
        server.transport.clone(),
        server.tool_count.to_string(),
        pid,
        detail,
    ]
}
