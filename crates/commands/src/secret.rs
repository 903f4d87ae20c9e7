//! `mainstay secret`: stores the secrets for `${keyring:NAME}` in the vault of the state directory. No
//! command prints a secret.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, IsTerminal as _, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::{Args, Subcommand};
use mainstay_command_line::{
    CommandError, Exit,
    host::Host,
    output,
    run_command::{CommandFacts, RunCommand},
    stderr::complain,
    table::Column,
    time,
};
use mainstay_config::{SECRET_NAME_RULE, SecretUses, Syntax, is_secret_name};
use mainstay_core::config::Secret;
use mainstay_platform::{
    blocking::off_the_runtime,
    environment::{ConfigurationSource, Process},
    state::StateDir,
    utc,
    vault::{self, EntryKind, MAX_SECRET, Vault},
};
use serde_json::{Value, json};

use crate::person::Person;

pub(super) const COLUMNS: [Column; 3] = [
    Column::new("NAME").cut_to(40),
    Column::new("SET").rank(1),
    Column::new("NAMED BY"),
];

/// The maximum length in bytes of a line on a terminal. The terminal drops the rest of a longer line.
const LONGEST_TYPED: usize = 4094;

const EXAMPLES: &str = "\
Examples:
  mainstay secret set github                  asks for it, without echo
  pass show github | mainstay secret set github
  mainstay secret list
  mainstay secret remove github

In the configuration ${keyring:github} stands for it.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SecretCommand {
    #[command(subcommand)]
    action: SecretAction,
    /// The configuration that names secrets [default: the one that `mainstay serve` would read]
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// Print the result as JSON on stdout
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
enum SecretAction {
    /// Keep a secret, or replace it; it is asked for on a terminal, and read from stdin elsewhere
    Set {
        name: String,
        /// Read it from this file
        #[arg(long, value_name = "PATH")]
        from_file: Option<PathBuf>,
    },
    /// Show the names, when each was set, and what names it in the configuration
    List,
    /// Delete a secret
    Remove { name: String },
}

impl RunCommand for SecretCommand {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts::printing(self.json)
    }

    async fn run(self, _: &dyn Host) -> Result<Exit, CommandError> {
        match &self.action {
            SecretAction::Set { name, from_file } => self.set(name, from_file.as_deref()).await?,
            SecretAction::List => self.list().await?,
            SecretAction::Remove { name } => self.remove(name).await?,
        }
        Ok(Exit::DONE)
    }
}

impl SecretCommand {
    async fn set(&self, name: &str, from_file: Option<&Path>) -> Result<(), CommandError> {
        if !is_secret_name(name) {
            return Err(CommandError::Usage {
                message: format!("no secret can be named {name:?}"),
                hint: Some(SECRET_NAME_RULE.to_owned()),
            });
        }
        let secret = match from_file {
            Some(path) => read_file(path)?,
            None if io::stdin().is_terminal() => typed(name).await?,
            None => read("stdin", io::stdin().lock())?,
        };
        let was_set = {
            let (vault, name) = (open()?, name.to_owned());
            off_the_runtime(move || {
                let names = vault.names(EntryKind::Secrets)?;
                vault.write(EntryKind::Secrets, &name, secret.expose().as_bytes())?;
                Ok::<_, CommandError>(names.contains(&name))
            })
            .await?
        };
        let users = self.uses().remove(name).unwrap_or_default();
        if self.json {
            return output::json(&json!({"name": name, "replaced": was_set}));
        }
        let done = if was_set { "replaced" } else { "kept" };
        output::line(&format!("secret {name} is {done}"))?;
        match users.servers.as_slice() {
            [] if users.settings.is_empty() => {
                complain(&format!(
                    "in the configuration ${{keyring:{name}}} stands for it"
                ));
            }
            [] => {}
            servers => complain(&format!(
                "servers that run get it at their next start: mainstay restart {}",
                servers.join(" ")
            )),
        }
        Ok(())
    }

    async fn list(&self) -> Result<(), CommandError> {
        let vault = open()?;
        let entries = off_the_runtime(move || vault.entries(EntryKind::Secrets)).await?;
        let mut unset = self.uses();
        let listed: Vec<_> = entries
            .into_iter()
            .map(|(name, time)| {
                let users = unset.remove(&name).unwrap_or_default();
                (name, utc::rfc3339(time), users)
            })
            .collect();
        if self.json {
            let secrets = listed.iter().map(|(name, set_at, users)| {
                let mut secret = json!({"name": name, "setAt": set_at});
                add_users(&mut secret, users);
                secret
            });
            let missing = unset.iter().map(|(name, users)| {
                let mut secret = json!({"name": name});
                add_users(&mut secret, users);
                secret
            });
            let (secrets, missing): (Vec<_>, Vec<_>) = (secrets.collect(), missing.collect());
            return output::json(&json!({"secrets": secrets, "missing": missing}));
        }
        if listed.is_empty() {
            complain("no secret is kept; `mainstay secret set NAME` keeps one");
        } else {
            let rows = listed.iter().map(|(name, set_at, users)| {
                [
                    name.clone(),
                    time::local_with_day(set_at),
                    users.to_string(),
                ]
            });
            output::rows_of(&COLUMNS, rows, false)?;
        }
        for (name, users) in &unset {
            complain(&format!(
                "{users} names secret {name}, which is not set: mainstay secret set {name}"
            ));
        }
        Ok(())
    }

    async fn remove(&self, name: &str) -> Result<(), CommandError> {
        let vault = open()?;
        let owned = name.to_owned();
        let is_removed = off_the_runtime(move || vault.remove(EntryKind::Secrets, &owned)).await?;
        if !is_removed {
            return Err(CommandError::NotFound {
                subject: format!("secret {name}"),
                hint: "`mainstay secret list` shows the names".to_owned(),
            });
        }
        let users = self.uses().remove(name).unwrap_or_default();
        if self.json {
            let mut removed = json!({"name": name, "removed": true});
            add_users(&mut removed, &users);
            return output::json(&removed);
        }
        output::line(&format!("secret {name} is removed"))?;
        if !users.is_empty() {
            complain(&format!(
                "still named by {users}, which cannot start without it"
            ));
        }
        Ok(())
    }

    /// The uses of each secret in the configuration. Empty if the configuration cannot be read.
    fn uses(&self) -> BTreeMap<String, SecretUses> {
        let source = ConfigurationSource {
            flag: self.config.clone(),
            ..ConfigurationSource::default()
        };
        let text = match source.text() {
            Ok(text) => text.zip(source.path()),
            Err(error) => {
                complain(&format!("what names secrets is not known: {error}"));
                None
            }
        };
        let Some((text, path)) = text else {
            return BTreeMap::new();
        };
        mainstay_config::secret_uses(&text, Syntax::of_path(&path)).unwrap_or_else(|error| {
            complain(&format!(
                "what names secrets is not known: {}: {error}",
                path.display()
            ));
            BTreeMap::new()
        })
    }
}

fn open() -> Result<Arc<Vault>, CommandError> {
    Ok(vault::shared(&StateDir::locate(&Process)?))
}

fn add_users(secret: &mut Value, users: &SecretUses) {
    secret["servers"] = users.servers.clone().into();
    secret["settings"] = users.settings.clone().into();
}

async fn typed(name: &str) -> Result<Secret, CommandError> {
    let line = Person::new()?.ask_hidden(&format!("{name}:")).await?;
    let line = line.unwrap_or_default();
    if line.len() >= LONGEST_TYPED {
        return Err(CommandError::Usage {
            message: "a terminal takes no longer line, so the end may be missing".to_owned(),
            hint: Some("give it by --from-file PATH, or on stdin".to_owned()),
        });
    }
    checked(line.into_bytes())
}

fn read_file(path: &Path) -> Result<Secret, CommandError> {
    let label = path.display().to_string();
    let file = File::open(path).map_err(|source| CommandError::Read {
        path: label.clone(),
        source,
    })?;
    read(&label, file)
}

/// Reads a secret without its last line break, which editors and `echo` add.
fn read(label: &str, input: impl Read) -> Result<Secret, CommandError> {
    let mut bytes = Vec::new();
    // Read one byte more than a secret with its line break, so that a longer secret is noticed.
    let most = MAX_SECRET as u64 + 3;
    let read = input.take(most).read_to_end(&mut bytes);
    read.map_err(|source| CommandError::Read {
        path: label.to_owned(),
        source,
    })?;
    if bytes.ends_with(b"\n") {
        bytes.pop();
        if bytes.ends_with(b"\r") {
            bytes.pop();
        }
    }
    checked(bytes)
}

fn checked(bytes: Vec<u8>) -> Result<Secret, CommandError> {
    let refused = |message: String| CommandError::Usage {
        message,
        hint: None,
    };
    if bytes.len() > MAX_SECRET {
        let message = format!("a secret has at most {MAX_SECRET} bytes");
        return Err(refused(message));
    }
    match String::from_utf8(bytes) {
        Ok(text) if text.trim().is_empty() => Err(refused("the secret is empty".to_owned())),
        Ok(text) if text.contains('\0') => Err(refused("a secret has no NUL character".to_owned())),
        Ok(text) => Ok(Secret::new(text)),
        Err(_) => Err(refused("the secret is not UTF-8 text".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_break_is_dropped_and_what_is_no_secret_is_refused() {
        let secret = |bytes: &[u8]| read("x", bytes).map(|secret| secret.expose().to_owned());
        for (input, expected) in [("a", "a"), ("a\n", "a"), ("a\r\n", "a"), ("a\n\n", "a\n")] {
            assert_eq!(secret(input.as_bytes()).expect(input), expected);
        }
        let long = "a".repeat(MAX_SECRET);
        assert_eq!(
            secret(format!("{long}\r\n").as_bytes()).expect("read"),
            long
        );
        let too_long = format!("{long}b");
        for input in [
            "".as_bytes(),
            b"\n",
            b" \n",
            b"\0a",
            b"\xff",
            too_long.as_bytes(),
        ] {
            let error = secret(input).expect_err("refused");
            assert_eq!(error.exit(), Exit::USAGE);
        }
    }
}
