//! `mainstay start`, `stop`, `restart` and `reconnect`: runs operations on servers, and reports their
//! results.

use std::collections::HashSet;

use clap::Args;
use futures_util::future::join_all;
use mainstay_api::{self as api, Client, Operated};
use mainstay_command_line::{
    CommandError, Exit,
    connect::DaemonArgs,
    host::Host,
    output,
    run_command::{CommandFacts, RunCommand},
    screen::complain,
    suggest,
};

#[derive(Debug, Args)]
pub struct Operate {
    /// The servers
    #[arg(value_name = "NAME", required_unless_present = "all")]
    names: Vec<String>,
    /// Every server that is to be up; with `start`, every server that may be
    #[arg(long, conflicts_with = "names")]
    all: bool,
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// Defines a command for each operation.
macro_rules! operation_commands {
    ($($name:ident => $operation:literal, $under_way:literal;)*) => {$(
        #[derive(Debug, Args)]
        pub struct $name {
            #[command(flatten)]
            operate: Operate,
        }

        impl RunCommand for $name {
            type Host<'h> = dyn Host + 'h;

            fn facts(&self) -> CommandFacts {
                CommandFacts {
                    under_way: Some($under_way),
                    ..CommandFacts::rest_client(&self.operate.daemon)
                }
            }

            async fn run(self, host: &dyn Host) -> Result<Exit, CommandError> {
                self.operate.run($operation, host).await
            }
        }
    )*};
}

operation_commands! {
    Start => "start", "starting";
    Stop => "stop", "stopping";
    Restart => "restart", "restarting";
    Reconnect => "reconnect", "reconnecting";
}

type Outcomes = Vec<(String, Result<Operated, CommandError>)>;

impl Operate {
    /// Runs an operation, given its name in the REST route. Tries all servers, and reports the
    /// failures.
    pub async fn run(self, operation: &str, host: &dyn Host) -> Result<Exit, CommandError> {
        if let [name] = self.names.as_slice() {
            let operate = async |client: &Client| Ok(client.operate(name, operation).await?);
            let operated = self.daemon.with(host, operate).await?;
            report(self.daemon.json, &operated)?;
            return Ok(Exit::DONE);
        }
        let operate = async |client: &Client| self.operate(client, operation).await;
        let mut exits = Vec::new();
        for (name, operated) in self.daemon.with(host, operate).await? {
            match operated {
                Ok(operated) => {
                    exits.push(Exit::DONE);
                    report(self.daemon.json, &operated)?;
                }
                Err(error) => {
                    exits.push(error.exit());
                    error.report_of(&name, self.daemon.json);
                }
            }
        }
        // Return the exit code that all servers have in common. If they differ, return the code for failures.
        Ok(match exits.split_first() {
            None => Exit::DONE,
            Some((first, rest)) if rest.iter().all(|exit| exit == first) => *first,
            Some(_) => Exit::FAILED,
        })
    }

    async fn operate(&self, client: &Client, operation: &str) -> Result<Outcomes, CommandError> {
        let mut names = self.names.clone();
        if self.all {
            let is_target = |server: &api::Server| match operation {
                "start" => server.enabled && server.pending.is_none(),
                _ => server.wanted,
            };
            let servers = client.servers().await?.servers;
            if operation == "start" && !self.daemon.json {
                for server in servers.iter().filter(|server| !is_target(server)) {
                    let reason = match server.pending {
                        Some(_) => "waits for approval",
                        None => "is disabled",
                    };
                    complain(&format!("{} was skipped: it {reason}", server.name));
                }
            }
            let targets = servers.into_iter().filter(is_target);
            names.extend(targets.map(|server| server.name));
        }
        // If a server is named twice, run the operation once.
        let mut seen_names = HashSet::new();
        names.retain(|name| seen_names.insert(name.clone()));
        Ok(join_all(names.into_iter().map(async |name| {
            let operated = client.operate(&name, operation).await;
            let operated = suggest::completed(client, operated.map_err(Into::into)).await;
            (name, operated)
        }))
        .await)
    }
}

/// Prints the server's new status, and its warnings on stderr.
pub fn report(json: bool, operated: &Operated) -> Result<(), CommandError> {
    if json {
        return output::json(operated);
    }
    for warning in &operated.warnings {
        complain(&format!("warning: {warning}"));
    }
    let tools = output::count(operated.tools.len(), "tool");
    let detail = operated
        .error
        .as_ref()
        .map_or(tools, |error| output::one_line(error).into_owned());
    output::line(&format!(
        "{} is {}, {detail}",
        operated.name, operated.status
    ))
}
