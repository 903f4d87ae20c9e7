//! `mainstay start`, `stop`, `restart` and `reconnect`: what an operator wants of a server, and
//! whether it came about (B12, O2).

use clap::Args;
use futures_util::future::join_all;
use serde_json::json;

use super::{
    CommandError, Exit,
    connect::DaemonArgs,
    output,
    screen::{complain, complain_json},
};
use crate::api::{Client, ClientError, Operated};

#[derive(Debug, Args)]
pub struct Operate {
    /// The server
    name: String,
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

#[derive(Debug, Args)]
pub struct Reconnect {
    /// The server
    #[arg(required_unless_present = "all")]
    name: Option<String>,
    /// Every server that is to be up
    #[arg(long, conflicts_with = "name")]
    all: bool,
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

impl Operate {
    /// `operation` as the REST route has it.
    pub async fn run(self, operation: &str) -> Result<Exit, CommandError> {
        let operated = self
            .daemon
            .with(async |client| Ok(client.operate(&self.name, operation).await?))
            .await?;
        tell(&self.daemon, &operated)?;
        Ok(Exit::DONE)
    }
}

impl Reconnect {
    /// With `--all` every server is tried, and those that failed are named at the end.
    pub async fn run(self) -> Result<Exit, CommandError> {
        if let Some(name) = self.name {
            let one = Operate {
                name,
                daemon: self.daemon,
            };
            return one.run("reconnect").await;
        }
        let operated = self.daemon.with(reconnect_all).await?;
        let mut exit = Exit::DONE;
        for (name, operated) in operated {
            match operated {
                Ok(operated) => tell(&self.daemon, &operated)?,
                Err(error) => {
                    exit = Exit::FAILED;
                    if self.daemon.json {
                        let (code, message) = (error.code(), error.to_string());
                        complain_json(&json!({"error": code, "server": name, "message": message}));
                    } else {
                        complain(&format!("{name}: {error}"));
                    }
                }
            }
        }
        Ok(exit)
    }
}

type Outcomes = Vec<(String, Result<Operated, ClientError>)>;

async fn reconnect_all(client: &Client) -> Result<Outcomes, CommandError> {
    let servers = client.servers().await?.servers;
    let wanted = servers.into_iter().filter(|server| server.wanted);
    Ok(join_all(wanted.map(async |server| {
        let operated = client.operate(&server.name, "reconnect").await;
        (server.name, operated)
    }))
    .await)
}

/// Says what came of it, and on stderr what is odd about it.
pub fn tell(daemon: &DaemonArgs, operated: &Operated) -> Result<(), CommandError> {
    if daemon.json {
        return output::json(operated);
    }
    for warning in &operated.warnings {
        complain(&format!("warning: {warning}"));
    }
    let tools = output::count(operated.tools.len(), "tool");
    let said = operated
        .error
        .as_ref()
        .map_or(tools, |error| output::one_line(error).into_owned());
    output::line(&format!("{} is {}, {said}", operated.name, operated.status))
}
