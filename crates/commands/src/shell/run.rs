//! Carries a line out: by the commands of the same names, asked of the shell's daemon.

use clap::{
    Args, Parser,
    error::{ContextKind, ContextValue, ErrorKind},
};

use super::{
    commands::{self, Command, Name},
    line::{Line, Word},
};
use crate::{
    CommandError, Exit,
    call::{Call, Input},
    connect::DaemonArgs,
    events::Events,
    health::Health,
    host::Host,
    list::List,
    logs::Logs,
    operate::Operate,
    output,
    prompts::Prompts,
    read::Read,
    records::Records,
    resources::Resources,
    suggest,
    switch::Switch,
    tools,
};

/// How a line ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    Done(Exit),
    Quit,
}

impl From<Exit> for Outcome {
    fn from(exit: Exit) -> Self {
        Self::Done(exit)
    }
}

/// The arguments of another command.
#[derive(Debug, Parser)]
#[command(name = "mainstay", no_binary_name = true, disable_help_flag = true)]
struct Options<T: Args> {
    #[command(flatten)]
    command: T,
}

/// What lines are carried out with.
pub struct Runner<'s> {
    pub host: &'s dyn Host,
    pub daemon: DaemonArgs,
    /// Whether the servers are the shell's own, so that no file is to be changed.
    pub has_own_servers: bool,
    pub history: &'s [String],
}

/// The command of a line, or what was probably meant.
pub fn command(line: &Line) -> Result<&'static Command, CommandError> {
    commands::find(&line.command).ok_or_else(|| {
        let meant = commands::nearest(&line.command);
        let meant = meant.map_or_else(String::new, |it| format!("did you mean /{it}? "));
        CommandError::NotFound {
            what: format!("command /{}", line.command),
            hint: format!("{meant}/help shows the commands"),
        }
    })
}

impl Runner<'_> {
    pub async fn run(&self, command: &Command, words: &[Word]) -> Result<Outcome, CommandError> {
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        let most = match command.name {
            Name::Servers | Name::Quit => 0,
            Name::Health | Name::Tools | Name::History | Name::Help => 1,
            Name::Read => 2,
            _ => usize::MAX,
        };
        if let Some(extra) = texts.get(most) {
            return Err(usage(command, format!("{extra:?} is not expected")));
        }
        if let Some(word) = texts.iter().find(|word| is_of_the_daemon(word)) {
            let message = format!("{word} is no option of the shell's commands");
            return Err(usage(command, message));
        }
        let exit = match command.name {
            Name::Quit => return Ok(Outcome::Quit),
            Name::Help => help(&texts)?,
            Name::History => self.history(command, &texts)?,
            Name::Servers => {
                let list: List = read(command, &texts)?;
                let daemon = self.daemon(&list.daemon);
                List::of(daemon).run(self.host).await?
            }
            Name::Health => self.health(command, &texts).await?,
            Name::Server => self.server(command, &texts).await?,
            Name::Tools => tools::search(self.host, &self.daemon, texts.first().copied()).await?,
            Name::Call => self.call(command, words).await?,
            Name::Read if texts.is_empty() => {
                let mut list: Resources = read(command, &texts)?;
                list.daemon = self.daemon(&list.daemon);
                list.run(self.host).await?
            }
            Name::Read => {
                let mut resource: Read = read(command, &after_dashes(&[], &texts))?;
                resource.daemon = self.daemon(&resource.daemon);
                resource.run(self.host).await?
            }
            Name::Prompt => {
                let first: &[&str] = if texts.is_empty() {
                    &["list"]
                } else {
                    &["get"]
                };
                let arguments = if texts.is_empty() {
                    first.to_vec()
                } else {
                    after_dashes(first, &texts)
                };
                let mut prompts: Prompts = read(command, &arguments)?;
                prompts.daemon = self.daemon(&prompts.daemon);
                prompts.run(self.host).await?
            }
            Name::Events => {
                let mut events: Events = read(command, &texts)?;
                events.daemon = self.daemon(&events.daemon);
                events.run(self.host).await?
            }
            Name::Records => {
                let mut records: Records = read(command, &texts)?;
                records.daemon = self.daemon(&records.daemon);
                records.run(self.host).await?
            }
            Name::Log => {
                let mut logs: Logs = read(command, &texts)?;
                logs.daemon = self.daemon(&logs.daemon);
                logs.run(self.host).await?
            }
        };
        Ok(exit.into())
    }

    /// The shell's daemon, with the options of a command.
    fn daemon(&self, given: &DaemonArgs) -> DaemonArgs {
        let mut daemon = self.daemon.clone();
        daemon.json |= given.json;
        daemon
    }

    async fn health(&self, command: &Command, words: &[&str]) -> Result<Exit, CommandError> {
        let mut health: Health = read(command, words)?;
        health.daemon = self.daemon(&health.daemon);
        health.run(self.host).await
    }

    async fn server(&self, command: &Command, words: &[&str]) -> Result<Exit, CommandError> {
        let Some((action, names)) = words.split_first() else {
            return Err(usage(command, "ACTION is missing".to_owned()));
        };
        // What is missing is said of the action.
        let of_action = |error| match error {
            CommandError::Usage { message, .. } => CommandError::Usage {
                message,
                hint: Some(format!(
                    "usage: /server {action} {}",
                    commands::operands(action)
                )),
            },
            other => other,
        };
        match *action {
            "health" => self.health(command, names).await.map_err(of_action),
            "start" | "stop" | "restart" | "reconnect" => {
                let mut operate: Operate = read(command, names).map_err(of_action)?;
                operate.daemon = self.daemon(&operate.daemon);
                operate.run(action, self.host).await
            }
            "enable" | "disable" => {
                let ephemeral: &[&str] = if self.has_own_servers {
                    &["--ephemeral"]
                } else {
                    &[]
                };
                let words = [ephemeral, names].concat();
                let mut switch: Switch = read(command, &words).map_err(of_action)?;
                switch.daemon = self.daemon.to_change();
                switch.run(*action == "enable").await
            }
            other => {
                let meant = suggest::nearest(other, commands::ACTIONS.into_iter());
                let meant = meant.map_or_else(String::new, |it| format!("did you mean {it}? "));
                Err(CommandError::NotFound {
                    what: format!("/server {other}"),
                    hint: format!("{meant}/help server shows what there is"),
                })
            }
        }
    }

    async fn call(&self, command: &Command, words: &[Word]) -> Result<Exit, CommandError> {
        let Some((tool, arguments)) = words.split_first() else {
            return Err(usage(command, "SERVER/TOOL is missing".to_owned()));
        };
        let objects = arguments.iter().filter(|word| word.is_object).count();
        let words: Vec<&str> = match arguments {
            [object] if object.is_object => vec!["--args", &object.text, "--", &tool.text],
            _ if objects > 0 => {
                let message = "a JSON object is all of the arguments, or none of them";
                return Err(usage(command, message.to_owned()));
            }
            pairs => {
                let pairs = pairs.iter().map(|word| word.text.as_str());
                ["--", &tool.text].into_iter().chain(pairs).collect()
            }
        };
        let mut call: Call = read(command, &words)?;
        call.daemon = self.daemon(&call.daemon);
        call.run_with(Input::Shells, self.host).await
    }

    fn history(&self, command: &Command, words: &[&str]) -> Result<Exit, CommandError> {
        const SHOWN: usize = 50;
        let most = match words.first() {
            None => SHOWN,
            Some(word) => word
                .parse()
                .map_err(|_| usage(command, format!("{word:?} is no number of lines")))?,
        };
        let first = self.history.len().saturating_sub(most);
        for line in &self.history[first..] {
            output::line(line)?;
        }
        Ok(Exit::DONE)
    }
}

fn help(words: &[&str]) -> Result<Exit, CommandError> {
    let Some(word) = words.first() else {
        output::text(&commands::overview())?;
        return Ok(Exit::DONE);
    };
    let line = Line {
        command: word.trim_start_matches('/').to_owned(),
        words: Vec::new(),
    };
    output::text(&commands::described(command(&line)?))?;
    Ok(Exit::DONE)
}

/// Options by which commands find their daemon: the shell has found it.
fn is_of_the_daemon(word: &str) -> bool {
    let option = word.split_once('=').map_or(word, |(option, _)| option);
    matches!(option, "--config" | "--url")
}

/// `first -- words`: none of the words is an option.
fn after_dashes<'w>(first: &[&'w str], words: &[&'w str]) -> Vec<&'w str> {
    [first, &["--"], words].concat()
}

/// Reads the words as the arguments of another command.
fn read<T: Args>(command: &Command, words: &[&str]) -> Result<T, CommandError> {
    let read = Options::<T>::try_parse_from(words);
    let command = |error: clap::Error| {
        if let Some(missing) = missing(&error) {
            return usage(command, missing);
        }
        let text = error.render().to_string();
        let first = text.trim().lines().next().unwrap_or_default();
        let first = first.strip_prefix("error: ").unwrap_or(first);
        usage(command, first.trim_end_matches(':').to_owned())
    };
    read.map(|options| options.command).map_err(command)
}

/// Which arguments an error misses: `NAME is missing`.
fn missing(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::MissingRequiredArgument {
        return None;
    }
    let Some(ContextValue::Strings(names)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let names = names.iter().map(|name| {
        // `<NAME>...`
        let name = name.trim_end_matches('.');
        name.trim_matches(['<', '>']).to_owned()
    });
    let names: Vec<String> = names.collect();
    let verb = if names.len() == 1 { "is" } else { "are" };
    Some(format!("{} {verb} missing", names.join(", ")))
}

fn usage(command: &Command, message: String) -> CommandError {
    let usage = format!("usage: /{} {}", command.word, command.usage);
    CommandError::Usage {
        message,
        hint: Some(usage.trim_end().to_owned()),
    }
}
