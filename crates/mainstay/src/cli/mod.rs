//! The command line: which commands there are, and those that are daemons themselves, `serve` and `mcp`. The
//! others are `mainstay_commands`: clients of the REST API, but for `connect`, `config`, `validate`, `resolve`,
//! `completions` and `man`; `add`, `remove`, `enable`, `disable`, `logs`, `records` and `object` do without a
//! daemon.

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

use std::{
    io::{self, IsTerminal as _},
    num::NonZeroUsize,
    process::ExitCode,
};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use futures_util::future::LocalBoxFuture;
use mainstay_command_line::{
    CommandError, Exit, connect::DaemonArgs, news, screen, shape::OutputShape, style,
};
use mainstay_commands::{
    Add, Approve, CallCommand, Completions, ConfigCommand, Doctor, EventsCommand, Export, Get,
    Health, HistoryCommand, Import, List, LogsCommand, ManPages, ObjectCommand, Operate, Prompts,
    ReadCommand, Records, Reload, Remove, Requests, Resolve, ResourcesCommand, Search, Service,
    Setup, Stats, Switch, SwitchesCommand, Token, Tools, Ui, Validate,
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
    help_template = groups::template(&Command::augment_subcommands(clap::Command::new("mainstay")))
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
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

#[derive(Debug, Subcommand)]
pub enum Command {
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
    Enable(Switch),
    /// Disable a server: stop it, and no longer list its tools
    Disable(Switch),
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
    Start(Operate),
    /// Stop servers; their tools are listed no longer
    Stop(Operate),
    /// Stop servers and start them again
    Restart(Operate),
    /// Give servers new sessions, whatever there is
    Reconnect(Operate),
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
    Man(ManPages),
    /// A small MCP server on stdin and stdout
    #[command(hide = true)]
    DemoServer { name: String },
}

/// Answers a shell, if one asks what can be typed.
pub fn answered_a_shell() -> Option<ExitCode> {
    mainstay_commands::answered_a_shell(Cli::command)
}

impl Cli {
    /// The arguments of the process, or the exit code after the reason was printed.
    pub fn from_arguments() -> Result<Self, ExitCode> {
        // Help and usage are printed before there is a parsed `--color`.
        let command = Self::command().color(style::ColourMode::of_arguments().into());
        let parsed = command.try_get_matches();
        let parsed = parsed.and_then(|matches| Self::from_arg_matches(&matches));
        parsed.map_err(screen::usage)
    }

    /// Runs the command and says what went wrong.
    ///
    /// Boxed, so that the commands are compiled here, and not with the program that comes last.
    pub fn run(self) -> LocalBoxFuture<'static, ExitCode> {
        let json = self.command.json() || self.command.shape().is_some_and(OutputShape::is_json);
        let under_way = self.command.under_way().filter(|_| !json);
        if json && !self.command.serves() {
            screen::notes_as_json();
        }
        let work: LocalBoxFuture<'static, _> = Box::pin(self.command.run());
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

impl Command {
    /// Whether the warnings of the log would only repeat what the command says.
    pub fn is_quiet(&self) -> bool {
        matches!(self, Self::Resolve(_) | Self::Top(_) | Self::Doctor(_))
    }

    /// Whether clients depend on it: a stderr that cannot be written must not hold it up.
    pub fn serves(&self) -> bool {
        matches!(self, Self::Serve(_) | Self::Mcp(_) | Self::Connect(_))
    }

    /// Whether one thread is enough for it. A machine may have one of it for each client.
    pub fn is_small(&self) -> bool {
        matches!(self, Self::Connect(_))
    }

    /// Whether a guardian stands above it: it runs servers of its own, which must not outlive it. What
    /// may read from a terminal does without, for the terminal lets only its foreground group read.
    pub fn is_guarded(&self) -> bool {
        let for_the_occasion = || self.daemon().is_some_and(DaemonArgs::starts_servers);
        let may_read = match self {
            Self::Mcp(_) => true,
            Self::Add(command) => command.starts_servers(),
            Self::Shell(command) => command.starts_servers(),
            _ => for_the_occasion(),
        };
        matches!(self, Self::Serve(_) | Self::Doctor(_)) || may_read && !io::stdin().is_terminal()
    }

    /// What it does, in words for the line that is shown where it takes longer. Others show a line of their
    /// own, or nothing but what they print.
    fn under_way(&self) -> Option<&'static str> {
        Some(match self {
            Self::Doctor(_) => "looking at everything",
            Self::Setup(_) => "setting up",
            Self::Search(_) => "asking the registry",
            Self::Reload(_) => "reading the configuration",
            Self::Start(_) => "starting",
            Self::Stop(_) => "stopping",
            Self::Restart(_) => "restarting",
            Self::Reconnect(_) => "reconnecting",
            Self::Service(_) => "asking the service manager",
            _ => return None,
        })
    }

    /// How a client of the REST API finds its daemon.
    fn daemon(&self) -> Option<&DaemonArgs> {
        match self {
            Self::List(command) => Some(&command.daemon),
            Self::Get(command) => Some(&command.daemon),
            Self::Approve(command) => Some(&command.daemon),
            Self::Events(command) => Some(&command.daemon),
            Self::History(command) => Some(&command.daemon),
            Self::Health(command) => Some(&command.daemon),
            Self::Start(command)
            | Self::Stop(command)
            | Self::Restart(command)
            | Self::Reconnect(command) => Some(&command.daemon),
            Self::Reload(command) => Some(&command.daemon),
            Self::Records(command) => Some(&command.daemon),
            Self::Stats(command) => Some(&command.daemon),
            Self::Object(command) => Some(&command.daemon),
            Self::Requests(command) => Some(&command.daemon),
            Self::Switches(command) => Some(&command.daemon),
            Self::Tools(command) => Some(&command.daemon),
            Self::Call(command) => Some(&command.daemon),
            Self::Resources(command) => Some(&command.daemon),
            Self::Read(command) => Some(&command.daemon),
            Self::Prompts(command) => Some(&command.daemon),
            Self::Logs(command) => Some(&command.daemon),
            Self::Serve(_)
            | Self::Mcp(_)
            | Self::Shell(_)
            | Self::Connect(_)
            | Self::Add(_)
            | Self::Search(_)
            | Self::Import(_)
            | Self::Export(_)
            | Self::Remove(_)
            | Self::Enable(_)
            | Self::Disable(_)
            | Self::Doctor(_)
            | Self::Service(_)
            | Self::Setup(_)
            | Self::Token(_)
            | Self::Config(_)
            | Self::Validate(_)
            | Self::Resolve(_)
            | Self::Top(_)
            | Self::Ui(_)
            | Self::Completions(_)
            | Self::Man(_)
            | Self::DemoServer { .. } => None,
        }
    }

    fn json(&self) -> bool {
        match self {
            Self::Serve(command) => command.json,
            Self::Shell(command) => command.json,
            Self::Config(command) => command.is_json(),
            Self::Validate(command) => command.json,
            Self::Resolve(command) => command.json,
            Self::Man(command) => command.json,
            Self::Doctor(command) => command.json,
            Self::Service(command) => command.json,
            Self::Setup(command) => command.json,
            Self::Token(command) => command.json,
            Self::Import(command) => command.json,
            Self::Export(command) => command.json,
            Self::Top(command) => command.json,
            Self::Ui(command) => command.json,
            Self::Add(command) => command.daemon.json,
            Self::Search(command) => command.json,
            Self::Remove(command) => command.daemon.json,
            Self::Enable(command) | Self::Disable(command) => command.daemon.json,
            _ => self.daemon().is_some_and(|daemon| daemon.json),
        }
    }

    /// In which form it prints what it lists.
    fn shape(&self) -> Option<&OutputShape> {
        match self {
            Self::List(command) => Some(&command.shape),
            Self::Get(command) => Some(&command.shape),
            Self::Health(command) => Some(&command.shape),
            Self::Tools(command) => Some(&command.shape),
            Self::Prompts(command) => Some(&command.shape),
            Self::Resources(command) => Some(&command.shape),
            Self::Records(command) => Some(&command.shape),
            Self::Stats(command) => Some(&command.shape),
            Self::Requests(command) => Some(&command.shape),
            Self::Token(command) => Some(&command.shape),
            Self::Search(command) => Some(&command.shape),
            Self::Switches(command) => Some(&command.shape),
            Self::Events(command) => Some(&command.shape),
            Self::History(command) => Some(&command.shape),
            _ => None,
        }
    }

    async fn run(self) -> Result<Exit, CommandError> {
        let host = &Program;
        match self {
            Self::Serve(command) => command.run().await,
            Self::Mcp(command) => Box::pin(command.run()).await,
            // A future of the others' size.
            Self::Shell(command) => Box::pin(command.run(host)).await,
            Self::Connect(command) => command.run().await,
            Self::Config(command) => command.run().await,
            Self::Validate(command) => command.run(),
            Self::List(command) => command.run(host).await,
            Self::Get(command) => command.run(host).await,
            Self::Add(command) => command.run().await,
            Self::Search(command) => command.run().await,
            Self::Import(command) => command.run().await,
            Self::Export(command) => command.run(),
            Self::Remove(command) => command.run().await,
            Self::Enable(command) => command.run(true).await,
            Self::Disable(command) => command.run(false).await,
            Self::Approve(command) => command.run(host).await,
            Self::Events(command) => command.run(host).await,
            Self::History(command) => command.run(host).await,
            Self::Health(command) => command.run(host).await,
            Self::Top(command) => command.run().await,
            Self::Ui(command) => command.run().await,
            Self::Start(command) => command.run("start", host).await,
            Self::Stop(command) => command.run("stop", host).await,
            Self::Restart(command) => command.run("restart", host).await,
            Self::Reconnect(command) => command.run("reconnect", host).await,
            Self::Reload(command) => command.run(host).await,
            Self::Records(command) => command.run(host).await,
            Self::Stats(command) => command.run(host).await,
            Self::Object(command) => command.run(host).await,
            Self::Requests(command) => command.run(host).await,
            Self::Switches(command) => command.run(host).await,
            Self::Tools(command) => command.run(host).await,
            Self::Call(command) => command.run(host).await,
            Self::Resources(command) => command.run(host).await,
            Self::Read(command) => command.run(host).await,
            Self::Prompts(command) => command.run(host).await,
            Self::Logs(command) => command.run(host).await,
            Self::Doctor(command) => command.run(host).await,
            Self::Service(command) => command.run().await,
            Self::Setup(command) => command.run().await,
            Self::Token(command) => command.run().await,
            Self::Resolve(command) => command.run(),
            Self::Completions(command) => command.run(),
            Self::Man(command) => command.run(Cli::command()),
            // `main` runs it before there is a runtime.
            Self::DemoServer { .. } => Ok(Exit::DONE),
        }
    }
}
