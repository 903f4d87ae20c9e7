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
    Add, Approve, CallCommand, Completions, ConfigCommand, Disable, Doctor, Enable, EventsCommand,
    Export, Get, Health, HistoryCommand, Import, List, LogsCommand, ManPages, ObjectCommand,
    Prompts, ReadCommand, Reconnect, Records, Reload, Remove, Requests, Resolve, ResourcesCommand,
    Restart, Search, Service, Setup, Start, Stats, Stop, SwitchesCommand, Token, Tools, Ui,
    Validate,
};
use mainstay_front::Connect;
use mainstay_terminal::{Shell, Top};

use self::host::Program;

const EXAMPLES: &str = "\
Examples:
  mainstay serve --demo                  three small servers to play with
  mainstay serve                         your servers, at 127.0.0.1:7420/mcp
  mainstay list                          how the servers are
  mainstay call alpha/echo text=hello    call a tool
  mainstay tools --config servers.json   ask without a daemon

Exit codes: 0 done, 1 the operation failed, 2 wrong usage or configuration,
3 the daemon cannot be reached, 4 not found, 5 timed out.";

/// Keeps MCP servers up, and reachable behind one endpoint.
#[derive(Debug, Parser)]
#[command(
    name = "mainstay",
    version,
    after_help = EXAMPLES,
    max_term_width = 100,
    help_template = groups::template(&CliCommand::augment_subcommands(clap::Command::new("mainstay")))
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: CliCommand,
    /// Log more to stderr (-v, -vv, -vvv); MAINSTAY_LOG takes filter directives
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// When to show colours; NO_COLOR and CLICOLOR_FORCE are honoured
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub color: style::ColourMode,
    /// Threads that carry the tasks
    #[arg(
        long,
        global = true,
        hide = true,
        env = "MAINSTAY_WORKERS",
        value_name = "N"
    )]
    pub workers: Option<NonZeroUsize>,
}

/// Declares the commands. A row has the command's help text and its arguments.
macro_rules! commands {
    ($($(#[$about:meta])* $name:ident($arguments:ty),)*) => {
        #[derive(Debug, Subcommand)]
        pub enum CliCommand {
            $($(#[$about])* $name($arguments),)*
        }

        impl CliCommand {
            pub fn facts(&self) -> CommandFacts {
                match self {
                    $(Self::$name(command) => command.facts(),)*
                }
            }

            fn run(self) -> LocalBoxFuture<'static, Result<Exit, CommandError>> {
                match self {
                    $(Self::$name(command) => Box::pin(command.run(&Program)),)*
                }
            }
        }
    };
}

commands! {
    /// Start the servers and serve them all at one endpoint
    Serve(serve::Serve),
    /// Serve them all to one client on stdin and stdout
    Mcp(mcp::Mcp),
    /// Serve a running daemon's tools to one client on stdin and stdout
    Connect(Connect),
    /// Show, check and edit the configuration, or tell which file it is
    Config(ConfigCommand),
    /// Check a configuration
    Validate(Validate),
    /// Show the servers and how they are
    List(List),
    /// Show a server: how it is, and its entry
    Get(Get),
    /// Try a server and add it: a command, URL, registry name or bundle
    Add(Box<Add>),
    /// Search the MCP registry for servers
    Search(Search),
    /// Import servers from the files of other MCP clients
    Import(Import),
    /// Export the servers, or Mainstay itself, to the file of a client
    Export(Export),
    /// End a server and forget it
    Remove(Remove),
    /// Enable a server that is disabled
    Enable(Enable),
    /// Disable a server: stop it, and no longer list its tools
    Disable(Disable),
    /// Let a server be started that was added from inside an MCP client
    Approve(Approve),
    /// Show what happened to the servers lately, or as it happens
    Events(EventsCommand),
    /// Show which servers were down in the last 30 days, and why
    History(HistoryCommand),
    /// Ask every server whether it is well
    Health(Health),
    /// Watch the servers and steer them
    Top(Top),
    /// Open the web page in a browser, signed in
    Ui(Ui),
    /// Start servers that were stopped, have crashed or were given up
    Start(Start),
    /// Stop servers; their tools are listed no longer
    Stop(Stop),
    /// Stop servers and start them again
    Restart(Restart),
    /// Give servers new sessions, whatever there is
    Reconnect(Reconnect),
    /// Read the configuration again; only what changed is restarted
    Reload(Reload),
    /// Type commands into a prompt with completion, or run a script
    Shell(Shell),
    /// Show which calls there were, or what is known of one
    Records(Box<Records>),
    /// Show the calls of each tool: how many, how many failed, how long
    Stats(Stats),
    /// Print arguments or a result by its content identifier
    Object(ObjectCommand),
    /// Show what servers ask and no client could be asked, and answer it
    Requests(Requests),
    /// Switch servers and tools off for one client, or show what is off
    Switches(SwitchesCommand),
    /// List the tools, or show one
    Tools(Tools),
    /// Call a tool
    Call(CallCommand),
    /// List the resources and resource templates
    Resources(ResourcesCommand),
    /// Read a resource
    Read(ReadCommand),
    /// List the prompts, or get one
    Prompts(Prompts),
    /// Show what a server wrote to stderr, and what became of it
    Logs(LogsCommand),
    /// Manage the tokens of clients, and the control token
    Token(Token),
    /// Put the servers of all clients behind Mainstay, or undo that
    Setup(Setup),
    /// Look for what is wrong, and say what mends it
    Doctor(Doctor),
    /// Make the daemon a service that starts when you log in
    Service(Service),
    /// Show which program a server's command means
    Resolve(Resolve),
    /// Print the script for completion in a shell
    Completions(Completions),
    /// Print the manual page, or write those of all commands
    Man(Man),
    /// A small MCP server on stdin and stdout
    #[command(hide = true)]
    DemoServer(DemoServer),
}

// Only the program knows all commands. This is no doc comment, because clap would show it as help.
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

// `main` runs the demo server before there is a runtime.
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
        // Help and usage errors are printed before `--color` is parsed.
        let command = Self::command().color(style::ColourMode::of_arguments().into());
        let parsed = command.try_get_matches();
        let parsed = parsed.and_then(|matches| Self::from_arg_matches(&matches));
        parsed.map_err(screen::usage)
    }

    /// Runs the command and prints its error.
    ///
    /// Boxed, so that the commands are compiled in this crate, and not again in the program.
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
