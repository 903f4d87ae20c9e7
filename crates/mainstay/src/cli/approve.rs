//! `mainstay approve`: what was added from inside an MCP client may be started.

use clap::Args;

use super::{CommandError, Exit, connect::DaemonArgs, operate, stderr::complain};
use crate::api::{self, Keeping};

#[derive(Debug, Args)]
pub struct Approve {
    /// The server; `mainstay get NAME` shows what would be started
    name: String,
    /// Into the configuration as well; otherwise it is gone when the daemon ends
    #[arg(long)]
    persist: bool,
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

impl Approve {
    pub async fn run(self) -> Result<Exit, CommandError> {
        let keeping = Keeping {
            persist: self.persist,
            ..Keeping::default()
        };
        let operated = self.daemon.with(async |client| {
            let before = client.server(&self.name).await?.server;
            if before.pending.is_some() {
                complain(&format!("approved: {}", wanted(&before)));
            }
            Ok(client.switch(&self.name, "approve", keeping).await?)
        });
        operate::tell(&self.daemon, &operated.await?)?;
        Ok(Exit::DONE)
    }
}

/// What would be started, as one would type it; words with blanks are quoted.
pub fn wanted(server: &api::Server) -> String {
    let Some(pending) = &server.pending else {
        return String::new();
    };
    let word = |word: &String| {
        if word.is_empty() || word.contains(|c: char| c.is_whitespace() || c.is_control()) {
            format!("{word:?}")
        } else {
            word.clone()
        }
    };
    let command = pending.command.iter().map(word).chain(pending.url.clone());
    let mut said = command.collect::<Vec<_>>().join(" ");
    if let Some(cwd) = &pending.cwd {
        said = format!("{said} (in {cwd})");
    }
    if !pending.env.is_empty() {
        said = format!("{said} (with {})", pending.env.join(", "));
    }
    said
}
