//! Runs lines of the shell as commands of the command line.

use clap::{Args, Parser};
use mainstay_command_line::{
    connect::DaemonArgs,
    host::{RunningCommand, Typed},
    run_command::RunCommand as _,
};

use super::{
    call::{ArgumentInput, CallCommand},
    events::EventsCommand,
    health::Health,
    history::HistoryCommand,
    list::List,
    logs::LogsCommand,
    operate::Operate,
    prompts::Prompts,
    read::ReadCommand,
    records::Records,
    resources::ResourcesCommand,
    store::StoreHost,
    switch::Switch,
    tools,
};

/// The arguments of a command.
#[derive(Debug, Parser)]
#[command(name = "mainstay", no_binary_name = true, disable_help_flag = true)]
struct Options<T: Args> {
    #[command(flatten)]
    command: T,
}

/// Parses the arguments of a command. The command then uses the shell's daemon.
pub fn typed<'h>(
    host: &'h dyn StoreHost,
    command: Typed,
    arguments: &[&str],
    mut daemon: DaemonArgs,
) -> Result<RunningCommand<'h>, clap::Error> {
    Ok(match command {
        Typed::List => {
            let list: List = read(arguments)?;
            daemon.json |= list.daemon.json;
            Box::pin(List::with_defaults(daemon).run(host))
        }
        Typed::Health => {
            let mut health: Health = read(arguments)?;
            ask(&mut health.daemon, daemon);
            Box::pin(health.run(host))
        }
        Typed::Operate(operation) => {
            let mut operate: Operate = read(arguments)?;
            ask(&mut operate.daemon, daemon);
            Box::pin(operate.run(operation, host))
        }
        Typed::Switch { on } => {
            let mut switch: Switch = read(arguments)?;
            switch.daemon = daemon.to_change();
            Box::pin(switch.run(on))
        }
        Typed::Tools => {
            let word = arguments.first().map(ToString::to_string);
            Box::pin(async move { tools::search(host, &daemon, word.as_deref()).await })
        }
        Typed::Call => {
            let mut call: CallCommand = read(arguments)?;
            ask(&mut call.daemon, daemon);
            Box::pin(call.run_with(ArgumentInput::Shells, host))
        }
        Typed::Resources => {
            let mut resources: ResourcesCommand = read(arguments)?;
            ask(&mut resources.daemon, daemon);
            Box::pin(resources.run(host))
        }
        Typed::Read => {
            let mut resource: ReadCommand = read(arguments)?;
            ask(&mut resource.daemon, daemon);
            Box::pin(resource.run(host))
        }
        Typed::Prompts => {
            let mut prompts: Prompts = read(arguments)?;
            ask(&mut prompts.daemon, daemon);
            Box::pin(prompts.run(host))
        }
        Typed::Events => {
            let mut events: EventsCommand = read(arguments)?;
            ask(&mut events.daemon, daemon);
            Box::pin(events.run(host))
        }
        Typed::History => {
            let mut history: HistoryCommand = read(arguments)?;
            ask(&mut history.daemon, daemon);
            Box::pin(history.run(host))
        }
        Typed::Records => {
            let mut records: Records = read(arguments)?;
            ask(&mut records.daemon, daemon);
            Box::pin(records.run(host))
        }
        Typed::Logs => {
            let mut logs: LogsCommand = read(arguments)?;
            ask(&mut logs.daemon, daemon);
            Box::pin(logs.run(host))
        }
    })
}

fn read<T: Args>(arguments: &[&str]) -> Result<T, clap::Error> {
    Options::<T>::try_parse_from(arguments).map(|options| options.command)
}

/// Makes a command use the shell's daemon, but its own output format.
fn ask(options: &mut DaemonArgs, mut daemon: DaemonArgs) {
    daemon.json |= options.json;
    *options = daemon;
}
