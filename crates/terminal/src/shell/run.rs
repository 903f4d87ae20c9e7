//! Runs a line as a command of the program, with the shell's daemon.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use mainstay_command_line::{
    CommandError, Exit,
    connect::DaemonArgs,
    host::{Host, Typed},
    output, suggest,
};

use super::{
    commands::{self, Name, ShellCommand},
    line::{LineWord, ParsedLine},
};

/// The default number of lines of `/history`.
const LINES: usize = 50;

/// The result of a line.
#[derive(Debug, PartialEq, Eq)]
pub enum LineOutcome {
    Done(Exit),
    Quit,
}

impl From<Exit> for LineOutcome {
    fn from(exit: Exit) -> Self {
        Self::Done(exit)
    }
}

/// The context in which lines run.
pub struct Runner<'s> {
    pub host: &'s dyn Host,
    pub daemon: DaemonArgs,
    /// True if the shell has started its own servers. Commands must then not change any file.
    pub has_own_servers: bool,
    pub history: &'s [String],
}

/// The command of a line. The error suggests a similar name.
pub fn command(line: &ParsedLine) -> Result<&'static ShellCommand, CommandError> {
    commands::find(&line.command).ok_or_else(|| {
        let near = commands::nearest(&line.command);
        let question = near.map_or_else(String::new, |name| format!("did you mean /{name}? "));
        CommandError::NotFound {
            subject: format!("command /{}", line.command),
            hint: format!("{question}/help shows the commands"),
        }
    })
}

impl Runner<'_> {
    pub async fn run(
        &self,
        command: &ShellCommand,
        words: &[LineWord],
    ) -> Result<LineOutcome, CommandError> {
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        let most = match command.name {
            Name::Servers | Name::Quit => 0,
            Name::Health | Name::Tools | Name::Help => 1,
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
            Name::Quit => return Ok(LineOutcome::Quit),
            Name::Help => help(&texts)?,
            Name::History => match (&texts[..], texts.first().and_then(|text| text.parse().ok())) {
                ([], _) => self.lines(LINES)?,
                ([_], Some(most)) => self.lines(most)?,
                _ => self.typed(command, Typed::History, &texts).await?,
            },
            Name::Servers => self.typed(command, Typed::List, &texts).await?,
            Name::Health => self.typed(command, Typed::Health, &texts).await?,
            Name::Server => self.server(command, &texts).await?,
            Name::Tools => self.typed(command, Typed::Tools, &texts).await?,
            Name::Call => self.call(command, words).await?,
            Name::Read if texts.is_empty() => self.typed(command, Typed::Resources, &texts).await?,
            Name::Read => {
                let words = after_dashes(&[], &texts);
                self.typed(command, Typed::Read, &words).await?
            }
            Name::Prompt if texts.is_empty() => {
                self.typed(command, Typed::Prompts, &["list"]).await?
            }
            Name::Prompt => {
                let words = after_dashes(&["get"], &texts);
                self.typed(command, Typed::Prompts, &words).await?
            }
            Name::Events => self.typed(command, Typed::Events, &texts).await?,
            Name::Records => self.typed(command, Typed::Records, &texts).await?,
            Name::Log => self.typed(command, Typed::Logs, &texts).await?,
        };
        Ok(exit.into())
    }

    /// Runs another command of the program with the shell's daemon.
    async fn typed(
        &self,
        command: &ShellCommand,
        typed: Typed,
        words: &[&str],
    ) -> Result<Exit, CommandError> {
        let running = self.host.typed(typed, words, self.daemon.clone());
        running.map_err(|error| unread(command, &error))?.await
    }

    async fn server(&self, command: &ShellCommand, words: &[&str]) -> Result<Exit, CommandError> {
        let Some((action, names)) = words.split_first() else {
            return Err(usage(command, "ACTION is missing".to_owned()));
        };
        let typed = match *action {
            "health" => Typed::Health,
            "start" => Typed::Operate("start"),
            "stop" => Typed::Operate("stop"),
            "restart" => Typed::Operate("restart"),
            "reconnect" => Typed::Operate("reconnect"),
            "enable" => Typed::Switch { on: true },
            "disable" => Typed::Switch { on: false },
            other => {
                let near = suggest::nearest(other, commands::ACTIONS.into_iter());
                let question =
                    near.map_or_else(String::new, |name| format!("did you mean {name}? "));
                return Err(CommandError::NotFound {
                    subject: format!("/server {other}"),
                    hint: format!("{question}/help server shows what there is"),
                });
            }
        };
        let ephemeral: &[&str] = match typed {
            Typed::Switch { .. } if self.has_own_servers => &["--ephemeral"],
            _ => &[],
        };
        let words = [ephemeral, names].concat();
        let running = self.host.typed(typed, &words, self.daemon.clone());
        // Report a missing argument with the usage of the action.
        let running = running.map_err(|error| match unread(command, &error) {
            CommandError::Usage { message, .. } => CommandError::Usage {
                message,
                hint: Some(format!(
                    "usage: /server {action} {}",
                    commands::operands(action)
                )),
            },
            other => other,
        })?;
        running.await
    }

    async fn call(&self, command: &ShellCommand, words: &[LineWord]) -> Result<Exit, CommandError> {
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
                let texts = pairs.iter().map(|word| word.text.as_str());
                ["--", &tool.text].into_iter().chain(texts).collect()
            }
        };
        self.typed(command, Typed::Call, &words).await
    }

    /// Prints the latest lines of the history.
    fn lines(&self, most: usize) -> Result<Exit, CommandError> {
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
    let line = ParsedLine {
        command: word.trim_start_matches('/').to_owned(),
        words: Vec::new(),
    };
    output::text(&commands::described(command(&line)?))?;
    Ok(Exit::DONE)
}

/// True for options that select a daemon. The shell refuses them, because it already has a daemon.
fn is_of_the_daemon(word: &str) -> bool {
    let option = word.split_once('=').map_or(word, |(option, _)| option);
    matches!(option, "--config" | "--url")
}

/// The words `first -- words`. The dashes prevent that a word is parsed as an option.
fn after_dashes<'w>(first: &[&'w str], words: &[&'w str]) -> Vec<&'w str> {
    [first, &["--"], words].concat()
}

/// The error about words that another command does not accept.
fn unread(command: &ShellCommand, error: &clap::Error) -> CommandError {
    if let Some(missing) = missing(error) {
        return usage(command, missing);
    }
    let text = error.render().to_string();
    let first = text.trim().lines().next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    usage(command, first.trim_end_matches(':').to_owned())
}

/// The missing arguments of an error: `NAME is missing`.
fn missing(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::MissingRequiredArgument {
        return None;
    }
    let Some(ContextValue::Strings(names)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let bare_names = names.iter().map(|name| {
        // The name has the form `<NAME>` or `<NAME>...`.
        let name = name.trim_end_matches('.');
        name.trim_matches(['<', '>']).to_owned()
    });
    let names: Vec<String> = bare_names.collect();
    let verb = if names.len() == 1 { "is" } else { "are" };
    Some(format!("{} {verb} missing", names.join(", ")))
}

fn usage(command: &ShellCommand, message: String) -> CommandError {
    let usage = format!("usage: /{} {}", command.word, command.usage);
    CommandError::Usage {
        message,
        hint: Some(usage.trim_end().to_owned()),
    }
}
