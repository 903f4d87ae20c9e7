//! The help of `mainstay` itself, with the commands in groups by purpose.

use clap::{
    Command,
    builder::{StyledStr, Styles},
};

/// The name and the help text of the command that clap adds to the last group.
const HELP: (&str, &str) = ("help", "Show the help of a command");

/// The template of the help. `groups` has the title of each group and its number of commands, in the order of the
/// commands of `program`.
pub fn template(groups: &[(&str, usize)], program: &Command) -> StyledStr {
    let styles = Styles::styled();
    let (heading, name_style) = (styles.get_header(), styles.get_literal());
    let names = program.get_subcommands().map(Command::get_name);
    let width = names.map(str::len).max().unwrap_or_default();
    let line =
        |name: &str, about: &str| format!("  {name_style}{name:width$}{name_style:#}  {about}\n");
    let mut commands = program.get_subcommands();
    let section = |(index, (title, count)): (usize, &(&str, usize))| {
        let group = commands.by_ref().take(*count);
        let visible = group.filter(|command| !command.is_hide_set());
        let mut lines: String = visible
            .map(|command| {
                let about = command.get_about().map(ToString::to_string);
                line(command.get_name(), &about.unwrap_or_default())
            })
            .collect();
        if index + 1 == groups.len() {
            lines.push_str(&line(HELP.0, HELP.1));
        }
        format!("{heading}{title}:{heading:#}\n{lines}\n")
    };
    let sections: String = groups.iter().enumerate().map(section).collect();
    let text = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{sections}\
         {heading}Options:{heading:#}\n{{options}}{{after-help}}"
    );
    text.into()
}
