//! The help of every command in the command tree.

use std::{collections::BTreeSet, fs, path::Path};

use clap::{Command, CommandFactory as _};
use mainstay::cli::Cli;

/// The minimum width of a terminal.
const WIDTH: usize = 80;

const FOLDER: &str = "snapshots/help";

/// Collects all commands with their paths, such as `mainstay config show`.
fn collect_commands(command: &Command, path: &str, commands: &mut Vec<(String, Command)>) {
    for subcommand in command.get_subcommands() {
        if subcommand.get_name() != "help" {
            collect_commands(
                subcommand,
                &format!("{path} {}", subcommand.get_name()),
                commands,
            );
        }
    }
    commands.push((path.to_owned(), command.clone()));
}

fn commands() -> Vec<(String, Command)> {
    let mut root = Cli::command()
        .term_width(WIDTH)
        .color(clap::ColorChoice::Never);
    root.build();
    let mut commands = Vec::new();
    collect_commands(&root, "mainstay", &mut commands);
    commands
}

/// The short and the long help of every command.
#[test]
fn the_help_of_every_command() {
    let mut names = BTreeSet::new();
    for (path, mut command) in commands() {
        let short_text = command.render_help().to_string();
        let long_text = command.render_long_help().to_string();
        let text = if long_text == short_text {
            short_text
        } else {
            format!("{short_text}\n==== --help\n{long_text}")
        };
        let name = path.replace(' ', "_");
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path(FOLDER);
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| insta::assert_snapshot!(&*name, text));
        names.insert(format!("{name}.snap"));
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{path}: {line}");
            assert!(!line.contains('\u{1b}'), "{path}: {line}");
        }
    }
    // Every snapshot must belong to a command.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/cli")
        .join(FOLDER);
    let files = fs::read_dir(folder).expect("there");
    // Ignore `.snap.new` files, which await a review.
    let is_snapshot = |path: &Path| {
        path.extension()
            .is_some_and(|extension| extension == "snap")
    };
    let files = files.filter_map(|entry| Some(entry.ok()?.path()).filter(|path| is_snapshot(path)));
    let files: BTreeSet<String> = files
        .filter_map(|path| path.file_name()?.to_str().map(str::to_owned))
        .collect();
    assert_eq!(files, names);
}

/// Examples fit into 80 columns, so that people can copy them.
#[test]
fn examples_fit_the_terminal() {
    for (path, command) in commands() {
        let examples = command.get_after_help().map(ToString::to_string);
        for line in examples.unwrap_or_default().lines() {
            assert!(line.chars().count() <= WIDTH, "{path}: {line}");
        }
    }
}

/// Every option has a help text.
#[test]
fn every_option_and_command_says_what_it_is_for() {
    for (path, command) in commands() {
        assert!(command.get_about().is_some(), "{path} says nothing");
        for argument in command
            .get_arguments()
            .filter(|argument| !argument.is_hide_set())
        {
            let id = argument.get_id();
            let is_plain = argument.is_positional();
            assert!(
                is_plain || argument.get_help().is_some(),
                "{path}: {id} says nothing"
            );
        }
    }
}
