//! The help of `mainstay` itself, with the commands in groups by purpose.

use clap::{
    Command,
    builder::{StyledStr, Styles},
};

/// The commands in the order in which a user needs them.
const GROUPS: [(&str, &[&str]); 6] = [
    (
        "Set up",
        &[
            "setup", "doctor", "service", "add", "search", "remove", "import", "export", "config",
            "validate",
        ],
    ),
    ("Serve", &["serve", "mcp", "connect"]),
    (
        "See",
        &[
            "list", "get", "health", "top", "ui", "logs", "events", "history", "records", "stats",
            "object",
        ],
    ),
    (
        "Steer",
        &[
            "start",
            "stop",
            "restart",
            "reconnect",
            "enable",
            "disable",
            "approve",
            "reload",
            "switches",
            "requests",
            "token",
        ],
    ),
    (
        "Use",
        &["tools", "call", "resources", "read", "prompts", "shell"],
    ),
    ("More", &["resolve", "completions", "man", "help"]),
];

/// The help text of the `help` command, which clap adds.
const HELP: &str = "Show the help of a command";

/// The template of the help, with the commands of `program` in their groups.
pub fn template(program: &Command) -> StyledStr {
    let styles = Styles::styled();
    let (heading, name_style) = (styles.get_header(), styles.get_literal());
    let names = GROUPS.iter().flat_map(|(_, names)| *names);
    let width = names.map(|name| name.len()).max().unwrap_or_default();
    let line = |name: &&str| {
        let about = program.find_subcommand(name).and_then(Command::get_about);
        let about = about.map_or_else(|| HELP.to_owned(), ToString::to_string);
        format!("  {name_style}{name:width$}{name_style:#}  {about}\n")
    };
    let groups = GROUPS.iter().map(|(title, names)| {
        let lines: String = names.iter().map(line).collect();
        format!("{heading}{title}:{heading:#}\n{lines}\n")
    });
    let groups: String = groups.collect();
    let text = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}\
         {heading}Options:{heading:#}\n{{options}}{{after-help}}"
    );
    text.into()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_command_is_in_one_group() {
        let command = Cli::command();
        let visible = command
            .get_subcommands()
            .filter(|command| !command.is_hide_set());
        let mut all: Vec<&str> = visible.map(Command::get_name).chain(["help"]).collect();
        let mut grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        all.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, all);
    }
}
