//! `mainstay approve`: what was added from inside an MCP client may be started, once a person has seen
//! it. What is approved is what was shown: the digest of it goes along.

use std::io::{self, BufRead, IsTerminal as _, Write as _};

use clap::Args;
use serde_json::Value;

use super::{CommandError, Exit, connect::DaemonArgs, operate, stderr::complain};
use crate::api::{self, Approval};

#[derive(Debug, Args)]
pub struct Approve {
    /// The server; `mainstay get NAME` shows what would be started
    name: String,
    /// Into the configuration as well; otherwise it is gone when the daemon ends
    #[arg(long)]
    persist: bool,
    /// Do not ask: approve what is shown
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

impl Approve {
    pub async fn run(self) -> Result<Exit, CommandError> {
        let operated = self.daemon.with(async |client| {
            let pending = client.server(&self.name).await?.server.pending;
            // The daemon says best why there is nothing to approve.
            let mut approval = Approval {
                digest: None,
                persist: self.persist,
            };
            if let Some(pending) = pending {
                complain(&format!("{} would be started as:", self.name));
                for line in whole(&pending) {
                    complain(&line);
                }
                self.agreed()?;
                approval.digest = pending.digest;
            }
            Ok(client.approve(&self.name, &approval).await?)
        });
        operate::tell(&self.daemon, &operated.await?)?;
        Ok(Exit::DONE)
    }

    /// Whether whoever sees it agrees.
    fn agreed(&self) -> Result<(), CommandError> {
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
        // With stderr gone the question is not seen, and silence is no agreement.
        write!(io::stderr().lock(), "approve it? [y/N] ").ok();
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

/// In a line, what would be started: as one would type it, with the names of its variables.
pub fn wanted(pending: &api::Pending) -> String {
    let command = pending.command.iter().map(|word| quoted(word));
    let url = pending.url.iter().map(|url| quoted(url));
    let mut said = command.chain(url).collect::<Vec<_>>().join(" ");
    if let Some(cwd) = &pending.cwd {
        said = format!("{said} (in {})", quoted(cwd));
    }
    if !pending.env.is_empty() {
        let names: Vec<String> = pending.env.keys().map(|name| quoted(name)).collect();
        said = format!("{said} (with {})", names.join(", "));
    }
    said
}

/// All that was given, a line each: the command, the values of its variables, and everything else.
pub fn whole(pending: &api::Pending) -> Vec<String> {
    let words = pending.command.iter().chain(&pending.url);
    let words: Vec<String> = words.map(|word| quoted(word)).collect();
    let mut lines = vec![format!("  {}", words.join(" "))];
    for (key, value) in &pending.entry {
        match (key.as_str(), value) {
            ("command" | "args" | "url", _) => {}
            (_, Value::Object(members)) => {
                let member = |(name, value): (&String, &Value)| {
                    format!("  {} {}={}", quoted(key), quoted(name), told(value))
                };
                lines.extend(members.iter().map(member));
            }
            _ => lines.push(format!("  {} {}", quoted(key), told(value))),
        }
    }
    lines
}

fn told(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        other => other
            .to_string()
            .chars()
            .flat_map(char::escape_debug)
            .collect(),
    }
}

/// A word that is more than it looks like is quoted, so that no terminal shows another one.
fn quoted(word: &str) -> String {
    let quoted = format!("{word:?}");
    if word.is_empty() || word.contains(char::is_whitespace) || quoted.len() != word.len() + 2 {
        quoted
    } else {
        word.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What runs is not the command alone: `PATH`, `LD_PRELOAD` and the like are shown with their values.
    #[test]
    fn everything_is_shown_and_nothing_hides() {
        let entry = json!({
            "command": "npx", "args": ["-y", "a b", "x\u{202e}y", ""],
            "env": {"PATH": "/evil:/bin"}, "cwd": "/tmp", "inheritEnv": "none",
        });
        let pending = api::Pending {
            digest: None,
            command: vec!["npx", "-y", "a b", "x\u{202e}y", ""]
                .into_iter()
                .map(str::to_owned)
                .collect(),
            cwd: Some("/tmp".to_owned()),
            env: entry["env"].as_object().expect("variables").clone(),
            url: None,
            entry: entry.as_object().expect("an entry").clone(),
        };
        let command = r#"npx -y "a b" "x\u{202e}y" """#;
        assert_eq!(
            whole(&pending),
            [
                format!("  {command}"),
                "  env PATH=/evil:/bin".to_owned(),
                "  cwd /tmp".to_owned(),
                "  inheritEnv none".to_owned(),
            ]
        );
        assert_eq!(wanted(&pending), format!("{command} (in /tmp) (with PATH)"));
    }

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
