//! Tests that every argument that takes a name is completed.

use clap::{Command, CommandFactory as _};
use mainstay_commands::PLACES;

use super::Cli;

/// Arguments that take a new name, or the name of something that Mainstay does not know.
const FREE: [(&str, &str); 4] = [
    ("add", "name"),
    ("secret remove", "name"),
    ("secret set", "name"),
    ("token add", "name"),
];

fn find<'c>(command: &'c Command, path: &str) -> Option<&'c Command> {
    let mut words = path.split(' ');
    words.try_fold(command, |command, word| command.find_subcommand(word))
}

#[test]
fn every_place_is_there() {
    let command = Cli::command();
    for (path, argument, _) in PLACES {
        let command = find(&command, path).unwrap_or_else(|| panic!("no {path}"));
        let mut arguments = command.get_arguments();
        let is_there = arguments.any(|candidate| candidate.get_id() == argument);
        assert!(is_there, "{path} has no {argument}");
    }
}

/// Fails for a new argument without completion.
#[test]
fn every_name_can_be_completed() {
    fn walk(command: &Command, path: &str) {
        for subcommand in command.get_subcommands() {
            let path = format!("{path} {}", subcommand.get_name());
            walk(subcommand, path.trim());
        }
        let names = [
            "name", "names", "server", "tool", "client", "profile", "what", "status", "door",
            "from",
        ];
        for argument in command
            .get_arguments()
            .filter(|argument| !argument.is_hide_set())
        {
            let id = argument.get_id().as_str();
            let is_place = PLACES.iter().any(|place| (place.0, place.1) == (path, id));
            let is_free = FREE.contains(&(path, id)) || command.is_hide_set();
            assert!(
                is_place || is_free || !names.contains(&id),
                "{path} has {id}, which is not completed"
            );
        }
    }
    walk(&Cli::command(), "");
}
