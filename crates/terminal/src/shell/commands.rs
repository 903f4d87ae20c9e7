//! The commands of the shell: their names, and their descriptions.

use std::fmt::Write as _;

use mainstay_command_line::suggest;

/// The command of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    Servers,
    Health,
    Server,
    Tools,
    Call,
    Read,
    Prompt,
    Events,
    Records,
    Log,
    History,
    Help,
    Quit,
}

/// A command and its description.
#[derive(Debug)]
pub struct ShellCommand {
    pub name: Name,
    /// The name without the slash.
    pub word: &'static str,
    /// The arguments after the name.
    pub usage: &'static str,
    pub about: &'static str,
    /// Options and examples, for `/help COMMAND`.
    pub more: &'static str,
}

const fn command(
    name: Name,
    word: &'static str,
    usage: &'static str,
    about: &'static str,
    more: &'static str,
) -> ShellCommand {
    ShellCommand {
        name,
        word,
        usage,
        about,
        more,
    }
}

pub const COMMANDS: [ShellCommand; 14] = [
    command(
        Name::Servers,
        "servers",
        "",
        "Show the servers and how they are",
        "",
    ),
    command(
        Name::Health,
        "health",
        "[NAME]",
        "Ask every server, or one, whether it is well",
        "It is the same as /server health.",
    ),
    command(
        Name::Server,
        "server",
        "ACTION [NAME]…",
        "Reconnect, restart, start, stop, enable …",
        "\
/server health [NAME]        ask whether it is well
/server reconnect NAME       give it a new session, and read its tools again
/server restart NAME         stop it and start it again
/server start|stop NAME
/server enable|disable NAME
--all in the place of NAME means every server, but not for enable and disable.",
    ),
    command(
        Name::Tools,
        "tools",
        "[WORD]",
        "List tools, or those with this word; with a name, its arguments",
        "",
    ),
    command(
        Name::Call,
        "call",
        "SERVER/TOOL [KEY=VALUE]… | {JSON}",
        "Call a tool; Ctrl-C cancels the call",
        "\
/call files/search text='two words' limit=5
/call files/search {\"text\": \"two words\", \"limit\": 5}
A VALUE is taken as JSON where that is of a type the tool's schema has for KEY, else as a string.",
    ),
    command(
        Name::Read,
        "read",
        "[[SERVER] URI]",
        "Read a resource, or list what can be read",
        "",
    ),
    command(
        Name::Prompt,
        "prompt",
        "[SERVER/PROMPT [KEY=VALUE]…]",
        "Get a prompt, or list the prompts",
        "",
    ),
    command(
        Name::Events,
        "events",
        "[--follow] [--after ID] [--server NAME]",
        "Show what happened to the servers",
        "",
    ),
    command(
        Name::Records,
        "records",
        "[ID] [--server NAME] [--tool NAME] [--status STATUS] [--since TIME] [--limit N]",
        "Show which calls there were, or what is known of one",
        "The options are those of `mainstay records`.",
    ),
    command(
        Name::Log,
        "log",
        "NAME [-n N] [--follow]",
        "Show what a server wrote beside the protocol",
        "",
    ),
    command(
        Name::History,
        "history",
        "[N] | [NAME] [--since TIME] [--until TIME]",
        "Show the last lines that were typed, or how a server was",
        "\
/history [N]              the last lines that were typed; none that holds what looks like a secret
/history NAME             how a server was in the last 24 hours, and why it was down
/history --since 7d       how all servers were
A time is 14:03, 'yesterday 23:50', 2026-11-28, 2h (ago), or another of `mainstay history`.",
    ),
    command(
        Name::Help,
        "help",
        "[COMMAND]",
        "Show the commands, or one",
        "",
    ),
    command(
        Name::Quit,
        "quit",
        "",
        "Leave the shell, as Ctrl-D does",
        "",
    ),
    command(Name::Quit, "exit", "", "Leave the shell", ""),
];

/// The actions of `/server`.
pub const ACTIONS: [&str; 7] = [
    "health",
    "reconnect",
    "restart",
    "start",
    "stop",
    "enable",
    "disable",
];

/// The usage text for the arguments of an action of `/server`.
pub fn operands(action: &str) -> &'static str {
    match action {
        "health" => "[NAME]",
        "enable" | "disable" => "NAME",
        _ => "NAME… | --all",
    }
}

/// The options of a command that are completed, and the type of their value.
pub fn options(name: Name) -> &'static [(&'static str, Option<Value>)] {
    match name {
        Name::Events => &[
            ("--follow", None),
            ("--after", Some(Value::Free)),
            ("--server", Some(Value::Server)),
        ],
        Name::History => &[
            ("--since", Some(Value::Free)),
            ("--until", Some(Value::Free)),
        ],
        Name::Records => &[
            ("--server", Some(Value::Server)),
            ("--tool", Some(Value::Free)),
            ("--status", Some(Value::Free)),
            ("--since", Some(Value::Free)),
            ("--until", Some(Value::Free)),
            ("--limit", Some(Value::Free)),
        ],
        Name::Log => &[("-n", Some(Value::Free)), ("--follow", None)],
        Name::Server => &[("--all", None)],
        _ => &[],
    }
}

/// The kind of an option's value, which determines its completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    Server,
    Free,
}

/// Finds the command of this name. The name has no slash.
pub fn find(word: &str) -> Option<&'static ShellCommand> {
    COMMANDS.iter().find(|command| command.word == word)
}

/// The most similar command name, if one is similar enough.
pub fn nearest(word: &str) -> Option<&'static str> {
    suggest::nearest(word, COMMANDS.iter().map(|command| command.word))
}

/// The help with one line for each command.
pub fn overview() -> String {
    let listed = COMMANDS.iter().filter(|command| command.word != "exit");
    let mut lines: Vec<String> = listed
        .map(|command| {
            let usage = format!("/{} {}", command.word, command.usage);
            let usage = usage.trim_end();
            if usage.chars().count() > 30 {
                format!("{usage}\n{:32}{}", "", command.about)
            } else {
                format!("{usage:30}  {}", command.about)
            }
        })
        .collect();
    lines.push(
        "\nTab completes. Ctrl-C cancels what runs, or clears the line; Ctrl-D leaves.".to_owned(),
    );
    lines.join("\n")
}

/// The description of one command.
pub fn described(command: &ShellCommand) -> String {
    let mut text = format!("/{} {}", command.word, command.usage);
    text.truncate(text.trim_end().len());
    // Writing to a String cannot fail.
    let _ = write!(text, "\n\n{}", command.about);
    if !command.more.is_empty() {
        let _ = write!(text, "\n\n{}", command.more);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_told_of() {
        insta::assert_snapshot!(overview());
        for command in &COMMANDS {
            assert_eq!(
                find(command.word).map(|command| command.name),
                Some(command.name)
            );
            assert!(described(command).contains(command.about));
        }
        assert_eq!(nearest("serers"), Some("servers"));
        assert_eq!(nearest("tols"), Some("tools"));
        assert_eq!(nearest("frobnicate"), None);
    }
}
