//! Maps arguments of commands to the names that complete them.

use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};

use super::names;

/// The names that complete an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    Servers,
    /// `server/tool`
    Tools,
    /// A tool, by the name that its server defines.
    OwnTools,
    ServersAndTools,
    /// `server/prompt`
    Prompts,
    /// `key=value` for the tool or the prompt earlier in the line.
    Arguments,
    Profiles,
    /// Clients that have a token, switches, or a session.
    Clients,
    /// Clients that have a token.
    Tokens,
    /// The statuses of calls.
    Statuses,
    /// The doors of calls.
    Doors,
    /// Programs whose files Mainstay reads.
    Programs,
    ProgramsAndFiles,
}

/// The completed arguments. Each row has the command, the id of its argument, and the names that
/// complete it.
pub const PLACES: [(&str, &str, Names); 51] = [
    ("access explain", "client", Names::Tokens),
    ("access explain", "profile", Names::Profiles),
    ("access explain", "target", Names::ServersAndTools),
    ("add", "from", Names::Programs),
    ("approve", "name", Names::Servers),
    ("auth login", "client", Names::Tokens),
    ("auth login", "name", Names::Servers),
    ("auth logout", "client", Names::Tokens),
    ("auth logout", "name", Names::Servers),
    ("auth status", "client", Names::Tokens),
    ("auth status", "name", Names::Servers),
    ("call", "tool", Names::Tools),
    ("call", "pairs", Names::Arguments),
    ("connect", "profile", Names::Profiles),
    ("connect", "server", Names::Servers),
    ("disable", "name", Names::Servers),
    ("enable", "name", Names::Servers),
    ("events", "server", Names::Servers),
    ("export", "client", Names::Programs),
    ("get", "name", Names::Servers),
    ("health", "name", Names::Servers),
    ("history", "name", Names::Servers),
    ("import", "from", Names::ProgramsAndFiles),
    ("logs", "name", Names::Servers),
    ("mcp", "profile", Names::Profiles),
    ("prompts get", "name", Names::Prompts),
    ("prompts get", "pairs", Names::Arguments),
    ("read", "resource", Names::Servers),
    ("reconnect", "names", Names::Servers),
    ("records", "client", Names::Clients),
    ("records", "door", Names::Doors),
    ("records", "server", Names::Servers),
    ("records", "status", Names::Statuses),
    ("records", "tool", Names::Tools),
    ("remove", "name", Names::Servers),
    ("restart", "names", Names::Servers),
    ("setup", "client", Names::Programs),
    ("start", "names", Names::Servers),
    ("stats", "server", Names::Servers),
    ("stats", "tool", Names::OwnTools),
    ("stop", "names", Names::Servers),
    ("switches clear", "client", Names::Clients),
    ("switches off", "client", Names::Clients),
    ("switches off", "target", Names::ServersAndTools),
    ("switches on", "client", Names::Clients),
    ("switches on", "target", Names::ServersAndTools),
    ("token add", "profile", Names::Profiles),
    ("token remove", "name", Names::Tokens),
    ("tools", "server", Names::Servers),
    ("tools get", "name", Names::Tools),
    ("tools list", "server", Names::Servers),
];

/// Adds completion of names to the command line.
pub fn with_names(command: Command) -> Command {
    let place = |command, (path, argument, names): (&str, &str, Names)| {
        let path: Vec<&str> = path.split(' ').collect();
        at(command, &path, argument, names)
    };
    PLACES.into_iter().fold(command, place)
}

/// Adds completion to one argument. Ignores a command or an argument that does not exist.
fn at(command: Command, path: &[&str], argument: &str, names: Names) -> Command {
    match path {
        [first, rest @ ..] if command.find_subcommand(first).is_some() => {
            command.mut_subcommand(first, |command| at(command, rest, argument, names))
        }
        [] if has(&command, argument) => {
            command.mut_arg(argument, |argument| with(argument, names))
        }
        _ => command,
    }
}

fn has(command: &Command, argument: &str) -> bool {
    let mut arguments = command.get_arguments();
    arguments.any(|candidate| candidate.get_id() == argument)
}

fn with(argument: Arg, names: Names) -> Arg {
    let candidates = match names {
        Names::Servers => ArgValueCandidates::new(names::servers),
        Names::Tools => ArgValueCandidates::new(names::tools),
        Names::OwnTools => ArgValueCandidates::new(names::own_tools),
        Names::ServersAndTools => ArgValueCandidates::new(names::servers_and_tools),
        Names::Prompts => ArgValueCandidates::new(names::prompts),
        Names::Profiles => ArgValueCandidates::new(names::profiles),
        Names::Clients => ArgValueCandidates::new(names::clients),
        Names::Tokens => ArgValueCandidates::new(names::tokens),
        Names::Statuses => ArgValueCandidates::new(names::statuses),
        Names::Doors => ArgValueCandidates::new(names::doors),
        Names::Programs => ArgValueCandidates::new(names::programs),
        Names::Arguments => return argument.add(ArgValueCompleter::new(names::arguments)),
        Names::ProgramsAndFiles => {
            return argument.add(ArgValueCompleter::new(names::programs_and_files));
        }
    };
    argument.add(candidates)
}
