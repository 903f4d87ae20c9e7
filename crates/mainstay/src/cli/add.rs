//! `mainstay add`: adds a server, in the configuration unless `--ephemeral` is given.

use std::path::PathBuf;

use clap::Args;
use mainstay_core::{config::edit::Entry, ids::ServerName};
use mainstay_gateway::reload::{Change, OnDuplicate, change_file};
use serde_json::{Map, Value, json};

use super::{
    CommandError, Exit,
    connect::{ChangeArgs, ServerSource},
    operate, output,
    stderr::complain,
};

const EXAMPLES: &str = "\
Examples:
  mainstay add files -- npx -y @modelcontextprotocol/server-filesystem /home/me/projects
  mainstay add -e API_KEY='${API_KEY}' search -- uvx search-server
  mainstay add --header 'Authorization: Bearer ${TOKEN}' tracker https://tracker.example.com/mcp";

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "mainstay add [OPTIONS] NAME URL\n       mainstay add [OPTIONS] NAME -- COMMAND [ARG]..."
)]
pub struct Add {
    /// What it is called: letters, digits, `-` and `_`
    name: String,
    /// Where it is reached over HTTP
    #[arg(
        value_name = "URL",
        required_unless_present = "command",
        conflicts_with = "command"
    )]
    address: Option<String>,
    /// A variable that is set for its process
    #[arg(short, long, value_name = "KEY=VALUE", requires = "command", value_parser = variable)]
    env: Vec<(String, String)>,
    /// The folder that its process starts in
    #[arg(long, value_name = "DIR", requires = "command")]
    cwd: Option<PathBuf>,
    /// A header that is sent with every request
    #[arg(long, value_name = "NAME: VALUE", requires = "address", value_parser = header)]
    header: Vec<(String, String)>,
    /// Instead of finding it out
    #[arg(long, value_parser = ["stdio", "http", "sse"])]
    transport: Option<String>,
    /// Not into the configuration: it is gone when the daemon ends
    #[arg(long)]
    ephemeral: bool,
    /// Into the configuration, which is how it is without --ephemeral
    #[arg(long, conflicts_with = "ephemeral")]
    persist: bool,
    /// A server of that name gets this entry
    #[arg(long)]
    replace: bool,
    /// The program and its arguments
    #[arg(last = true)]
    command: Vec<String>,
    #[command(flatten)]
    pub daemon: ChangeArgs,
}

#[derive(Debug, thiserror::Error)]
enum BadPair {
    #[error("expected KEY=VALUE")]
    Variable,
    #[error("expected `NAME: VALUE`")]
    Header,
}

fn variable(text: &str) -> Result<(String, String), BadPair> {
    let (key, value) = text.split_once('=').ok_or(BadPair::Variable)?;
    Ok((key.to_owned(), value.to_owned()))
}

fn header(text: &str) -> Result<(String, String), BadPair> {
    let (name, value) = text.split_once(':').ok_or(BadPair::Header)?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

impl Add {
    pub async fn run(self) -> Result<Exit, CommandError> {
        let mut entry = self.entry()?;
        match self.daemon.place()? {
            ServerSource::Daemon(client) => {
                entry.insert("name".to_owned(), self.name.clone().into());
                entry.insert("persist".to_owned(), (!self.ephemeral).into());
                entry.insert("replace".to_owned(), self.replace.into());
                operate::tell(self.daemon.json, &client.add(&entry).await?)?;
            }
            ServerSource::File(_) if self.ephemeral => {
                return Err(CommandError::Usage {
                    message: "no daemon is running that could have it for now".to_owned(),
                    hint: Some("without --ephemeral it goes into the configuration".to_owned()),
                });
            }
            ServerSource::File(origin) => {
                let name = legal(&self.name)?;
                let on_duplicate = if self.replace {
                    OnDuplicate::Replace
                } else {
                    OnDuplicate::Refuse
                };
                let loaded = change_file(
                    &origin,
                    Change::Put {
                        name,
                        entry,
                        on_duplicate,
                    },
                )?;
                let about = format!(".{}.", self.name);
                let odd = loaded.warnings.iter();
                for warning in odd.filter(|warning| warning.path.contains(&about)) {
                    complain(&format!("warning: {warning}"));
                }
                tell(&self.daemon, &self.name, "added to", loaded.path)?;
            }
        }
        Ok(Exit::DONE)
    }

    fn entry(&self) -> Result<Entry, CommandError> {
        let mut entry = Entry::new();
        if let Some(transport) = &self.transport {
            entry.insert("transport".to_owned(), transport.as_str().into());
        }
        match (&self.address, self.command.split_first()) {
            (Some(url), _) if !url.contains("://") => {
                return Err(CommandError::Usage {
                    message: format!("{url:?} is no URL"),
                    hint: Some(format!(
                        "for a program: mainstay add {} -- {url} …",
                        self.name
                    )),
                });
            }
            (Some(url), _) => {
                entry.insert("url".to_owned(), url.as_str().into());
            }
            (None, Some((program, arguments))) => {
                entry.insert("command".to_owned(), program.as_str().into());
                entry.insert("args".to_owned(), arguments.into());
            }
            (None, None) => unreachable!("one of the two is required"),
        }
        for (key, pairs) in [("env", &self.env), ("headers", &self.header)] {
            if !pairs.is_empty() {
                let pairs = pairs.iter();
                let pairs: Map<_, _> = pairs
                    .map(|(key, value)| (key.clone(), Value::from(value.as_str())))
                    .collect();
                entry.insert(key.to_owned(), pairs.into());
            }
        }
        if let Some(cwd) = &self.cwd {
            let absolute = std::path::absolute(cwd).map_err(|source| CommandError::Read {
                path: cwd.display().to_string(),
                source,
            })?;
            entry.insert("cwd".to_owned(), absolute.to_string_lossy().into());
        }
        Ok(entry)
    }
}

/// A server's name, if it can be one.
pub fn legal(name: &str) -> Result<ServerName, CommandError> {
    ServerName::new(name).map_err(|error| CommandError::Usage {
        message: error.to_string(),
        hint: None,
    })
}

/// Says what was done to the file: `files was added to config.json`.
pub fn tell(
    daemon: &ChangeArgs,
    name: &str,
    done: &str,
    path: Option<PathBuf>,
) -> Result<(), CommandError> {
    let path = path.unwrap_or_default();
    if daemon.json {
        return output::json(&json!({"success": true, "name": name, "path": path}));
    }
    output::line(&format!("{name} was {done} {}", path.display()))
}
