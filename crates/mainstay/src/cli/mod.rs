//! The command line: the list of commands, and the two commands that are daemons, `serve` and `mcp`. The other
//! commands are in `mainstay_commands`. They are clients of the REST API, except for `connect`, `config`,
//! `validate`, `resolve`, `completions` and `man`. The commands `add`, `remove`, `enable`, `disable`, `logs`,
//! `records` and `object` also work without a daemon.

#[cfg(test)]
mod completed;
mod groups;
mod host;
mod instance;
mod mcp;
mod occasion;
mod serve;
mod status;
mod store;

use std::{num::NonZeroUsize, process::ExitCode};

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use futures_util::future::LocalBoxFuture;
use mainstay_command_line::{
    CommandError, Exit, news,
    run_command::{CommandFacts, RunCommand},
    screen, style,
};
use mainstay_commands::{
    AccessCommand, Add, Approve, Auth, CallCommand, Completions, ConfigCommand, Disable, Doctor,
    Enable, EventsCommand, Export, Get, Health, HistoryCommand, Import, List, LogsCommand,
    ManPages, ObjectCommand, Prompts, ReadCommand, Reconnect, Records, Reload, Remove, Requests,
    Resolve, ResourcesCommand, Restart, Search, SecretCommand, Service, Setup, Start, Stats, Stop,
    SwitchesCommand, Token, Tools, Ui, Validate,
};
use mainstay_front::Connect;
use mainstay_terminal::{Shell, Top};

use self::host::Program;

const EXAMPLES: &str = "\
Examples:
  mainstay serve --demo                  three small servers to try
  mainstay serve                         your servers, at 127.0.0.1:7420/mcp
  mainstay list                          the status of the servers
  mainstay call alpha/echo text=hello    call a tool
  mainstay tools --config servers.json   without a daemon

Exit codes: 0 done, 1 the operation failed, 2 wrong usage or configuration,
3 the daemon cannot be reached, 4 not found, 5 timed out.";

/// Keeps MCP servers up, and reachable behind one endpoint.
#[derive(Debug, Parser)]
#[command(
    name = "mainstay",
    version,
    after_help = EXAMPLES,
    max_term_width = 100,
    help_template = groups::template(GROUPS, &CliCommand::augment_subcommands(clap::Command::new("mainstay")))
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: CliCommand,
    /// Log more to stderr (-v, -vv, -vvv); MAINSTAY_LOG takes filter directives
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Use colours: auto, always or never; NO_COLOR and CLICOLOR_FORCE are honoured
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub color: style::ColourMode,
    /// Number of threads that run tasks
    #[arg(
        long,
        global = true,
        hide = true,
        env = "MAINSTAY_WORKERS",
        value_name = "N"
    )]
    pub workers: Option<NonZeroUsize>,
}

/// Declares the commands in the groups of the help. The order is the one in which a user needs them. A row
/// has the command's help text and its arguments.
macro_rules! commands {
    ($($group:literal { $($(#[$about:meta])* $name:ident($arguments:ty),)* })*) => {
        #[derive(Debug, Subcommand)]
        pub enum CliCommand {
            $($($(#[$about])* $name($arguments),)*)*
        }

        /// The title of each group and its number of commands.
        const GROUPS: &[(&str, usize)] = &[$(($group, [$(stringify!($name)),*].len())),*];

        impl CliCommand {
            pub fn facts(&self) -> CommandFacts {
                match self {
                    $($(Self::$name(command) => command.facts(),)*)*
                }
            }

            fn run(self) -> LocalBoxFuture<'static, Result<Exit, CommandError>> {
                match self {
                    $($(Self::$name(command) => Box::pin(command.run(&Program)),)*)*
                }
            }
        }
    };
}

commands! {
    "Set up" {
        /// Put the servers of all clients behind Mainstay, or undo it
        Setup(Setup),
        /// Find problems of the installation and ways to fix them
        Doctor(Doctor),
        /// Run the daemon as a service that starts at login
        Service(Service),
        /// Try a server and add it: a command, URL, registry name or bundle
        Add(Box<Add>),
        /// Search the MCP registry for servers
        Search(Search),
        /// Stop a server and remove its entry
        Remove(Remove),
        /// Import servers from the files of other MCP clients
        Import(Import),
        /// Export the servers, or Mainstay itself, to the file of a client
        Export(Export),
        /// Show, check and edit the configuration
        Config(ConfigCommand),
        /// Check a configuration file
        Validate(Validate),
    }
    "Serve" {
        /// Start all servers and serve them at one endpoint
        Serve(serve::Serve),
        /// Serve all servers to one client on stdin and stdout
        Mcp(mcp::Mcp),
        /// Connect one client on stdin and stdout to a running daemon
        Connect(Connect),
    }
    "Inspect" {
        /// List servers and their status
        List(List),
        /// Show the status and the entry of a server
        Get(Get),
        /// Check the health of every server now
        Health(Health),
        /// Watch and control servers on one screen
        Top(Top),
        /// Open the web page in a browser, signed in
        Ui(Ui),
        /// Show the stderr of a server and its notes
        Logs(LogsCommand),
        /// List recent events of servers, or follow them
        Events(EventsCommand),
        /// Show when servers were down in the last 30 days, and why
        History(HistoryCommand),
        /// List recorded calls, or show one
        Records(Box<Records>),
        /// Show the number, errors and times of calls by tool
        Stats(Stats),
        /// Print recorded arguments or a result by content identifier
        Object(ObjectCommand),
    }
    "Control" {
        /// Start servers that are stopped, crashed or failed
        Start(Start),
        /// Stop servers and hide their tools
        Stop(Stop),
        /// Restart servers
        Restart(Restart),
        /// Replace the sessions of servers
        Reconnect(Reconnect),
        /// Enable a disabled server
        Enable(Enable),
        /// Disable a server: stop it and hide its tools
        Disable(Disable),
        /// Approve a server that an MCP client added
        Approve(Approve),
        /// Reload the configuration and restart changed servers
        Reload(Reload),
        /// List what is switched off for one client, or switch it
        Switches(SwitchesCommand),
        /// List open questions of servers, and answer them
        Requests(Requests),
        /// Log in to remote servers, show logins, log out
        Auth(Auth),
        /// Keep the secrets that the configuration names, encrypted
        Secret(SecretCommand),
        /// Manage client tokens and rotate the control token
        Token(Token),
        /// List what clients may use, or explain a decision
        Access(AccessCommand),
    }
    "Use" {
        /// List tools, or show one
        Tools(Tools),
        /// Call a tool
        Call(CallCommand),
        /// List resources and resource templates
        Resources(ResourcesCommand),
        /// Read a resource
        Read(ReadCommand),
        /// List prompts, or get one
        Prompts(Prompts),
        /// Run commands at a prompt with completion, or from a script
        Shell(Shell),
    }
    "More" {
        /// Show which program a command starts
        Resolve(Resolve),
        /// Print the completion script of a shell
        Completions(Completions),
        /// Print the manual page, or write all pages
        Man(Man),
        /// Run a small MCP server on stdin and stdout
        #[command(hide = true)]
        DemoServer(DemoServer),
    }
}

// `man` is here because only the program knows all commands. No doc comment: clap would print it as help.
#[derive(Debug, Args)]
pub struct Man {
    #[command(flatten)]
    pages: ManPages,
}

impl RunCommand for Man {
    type Host<'h> = Program;

    fn facts(&self) -> CommandFacts {
        CommandFacts::printing(self.pages.json)
    }

    async fn run(self, _: &Program) -> Result<Exit, CommandError> {
        self.pages.run(Cli::command())
    }
}

// `main` runs the demo server before it creates a runtime. No doc comment: clap would print it as help.
#[derive(Debug, Args)]
pub struct DemoServer {
    pub name: String,
}

impl RunCommand for DemoServer {
    type Host<'h> = Program;

    fn facts(&self) -> CommandFacts {
        CommandFacts::default()
    }

    async fn run(self, _: &Program) -> Result<Exit, CommandError> {
        Ok(Exit::DONE)
    }
}

/// Answers a shell that requests completions.
pub fn answered_a_shell() -> Option<ExitCode> {
    mainstay_commands::answered_a_shell(Cli::command)
}

impl Cli {
    /// Parses the arguments of the process. On failure prints the reason and returns the exit code.
    pub fn from_arguments() -> Result<Self, ExitCode> {
        // Find `--color` by hand, because help and usage errors are printed during the parsing.
        let command = Self::command().color(style::ColourMode::of_arguments().into());
        let parsed = command.try_get_matches();
        let parsed = parsed.and_then(|matches| Self::from_arg_matches(&matches));
        parsed.map_err(screen::usage)
    }

    /// Runs the command and prints its error.
    ///
    /// Returns a boxed future, so that the commands are compiled in this crate and not again in the binary.
    pub fn run(self) -> LocalBoxFuture<'static, ExitCode> {
        let facts = self.command.facts();
        let json = facts.json;
        let under_way = facts.under_way.filter(|_| !json);
        if json && !facts.serves() {
            screen::notes_as_json();
        }
        let work = self.command.run();
        Box::pin(async move {
            let done = match under_way {
                Some(words) => news::during(words, work).await,
                None => work.await,
            };
            let exit = done.unwrap_or_else(|error| {
                error.report(json);
                error.exit()
            });
            ExitCode::from(exit.0)
        })
    }
}
