//! `mainstay approve`: approves a server that an MCP client added, after a person has read its command. The
//! approval carries the digest of the printed command.

use std::io::{self, BufRead, IsTerminal as _};

use clap::Args;
use mainstay_api::Approval;
use mainstay_command_line::{
    CommandError, Exit,
    connect::DaemonArgs,
    host::Host,
    pending,
    run_command::{CommandFacts, RunCommand},
    screen::{ask, complain},
};

use super::operate;

#[derive(Debug, Args)]
pub struct Approve {
    /// The server; `mainstay get NAME` shows what would be started
    name: String,
    /// Save the server in the configuration, so that it outlives the daemon
    #[arg(long)]
    persist: bool,
    /// Do not ask: approve what is shown
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

impl RunCommand for Approve {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts::rest_client(&self.daemon)
    }

    async fn run(self, host: &dyn Host) -> Result<Exit, CommandError> {
        let operated = self.daemon.with(host, async |client| {
            let pending = client.server(&self.name).await?.server.pending;
            // Without a pending entry the daemon refuses the approval with a reason.
            let mut approval = Approval {
                digest: None,
                persist: self.persist,
            };
            if let Some(pending) = pending {
                complain(&format!("{} would be started as:", self.name));
                for line in pending::whole(&pending) {
                    complain(&line);
                }
                self.confirm()?;
                approval.digest = pending.digest;
            }
            Ok(client.approve(&self.name, &approval).await?)
        });
        operate::report(self.daemon.json, &operated.await?)?;
        Ok(Exit::DONE)
    }
}

impl Approve {
    /// Asks the person at the terminal. Fails without their consent.
    fn confirm(&self) -> Result<(), CommandError> {
        if self.yes {
            return Ok(());
        }
        let input = io::stdin();
        if !input.is_terminal() {
            return Err(CommandError::Usage {
                message: "nobody can be asked: stdin is no terminal".to_owned(),
                hint: Some("with --yes, what is shown is approved".to_owned()),
            });
        }
        // If stderr is not a terminal, nobody sees the question. An empty answer counts as "no".
        ask("approve it? [y/N]");
        if says_yes(input.lock()) {
            Ok(())
        } else {
            Err(CommandError::NotApproved(self.name.clone()))
        }
    }
}

fn says_yes(mut input: impl BufRead) -> bool {
    let mut answer = String::new();
    let read = input.read_line(&mut answer).is_ok();
    let answer = answer.trim();
    read && ["y", "yes"]
        .iter()
        .any(|yes| answer.eq_ignore_ascii_case(yes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_one() {
        for (answer, expected) in [
            ("y\n", true),
            ("YES\n", true),
            ("", false),
            ("\n", false),
            ("n\n", false),
            ("yesterday\n", false),
        ] {
            assert_eq!(says_yes(answer.as_bytes()), expected, "{answer:?}");
        }
    }
}
