//! The command line: one file per command. All but `serve`, `mcp`, `validate` and `resolve` are
//! clients of the REST API; `add`, `remove`, `enable`, `disable`, `logs`, `records` and `object` do
//! without a daemon.

mod add;
mod approve;
mod archive;
mod call;
mod clients;
mod connect;
mod content;
mod error;
mod events;
mod get;
mod health;
mod instance;
mod list;
mod logs;
mod mcp;
mod object;
mod operate;
mod output;
mod pairs;
mod prompts;
mod read;
mod records;
mod reload;
mod remove;
mod requests;
mod resolve;
mod resources;
mod screen;
mod serve;
mod signals;
mod stats;
mod status;
pub mod stderr;
mod suggest;
mod switch;
mod switches;
mod time;
mod token;
mod tools;
mod trouble;
mod validate;

use std::{
    io::{self, IsTerminal as _},
    num::NonZeroUsize,
    process::ExitCode,
};

use clap::{Parser, Subcommand};

use self::connect::DaemonArgs;
pub use self::error::{CommandError, Exit};

const EXAMPLES: &str = "\
Examples:
  mainstay serve --demo                          three small servers to play with
  mainstay serve                                 your servers, at http://127.0.0.1:7420/mcp
  mainstay list                                  how the servers are
  mainstay call alpha/echo text=hello            call a tool
  mainstay tools --config servers.json           ask without a daemon

Exit codes: 0 done, 1 the operation failed, 2 wrong usage or configuration,
3 the daemon cannot be reached, 4 not found, 5 timed out.";

/// Keeps MCP servers up, and reachable behind one endpoint.
#[derive(Debug, Parser)]
#[command(name = "mainstay", version, after_help = EXAMPLES, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    /// Log more to stderr (-v, -vv, -vvv); MAINSTAY_LOG takes filter directives
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
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
    /// Check a configuration
    Validate(validate::Validate),
    /// Show the servers and how they are
    List(list::List),
    /// Show a server: how it is, and its entry
    Get(get::Get),
    /// Add a server
    Add(add::Add),
    /// End a server and forget it
    Remove(remove::Remove),
    /// Enable a server that is disabled
    Enable(switch::Switch),
    /// Disable a server: it is stopped, and its tools are listed no longer
    Disable(switch::Switch),
    /// Let a server be started that was added from inside an MCP client
    Approve(approve::Approve),
    /// Show what happened to the servers lately, or as it happens
    Events(events::Events),
    /// Ask every server whether it is well
    Health(health::Health),
    /// Start servers that were stopped, have crashed or were given up
    Start(operate::Operate),
    /// Stop servers; their tools are listed no longer
    Stop(operate::Operate),
    /// Stop servers and start them again
    Restart(operate::Operate),
    /// Give servers new sessions, whatever there is
    Reconnect(operate::Operate),
    /// Read the configuration again; what did not change keeps its sessions
    Reload(reload::Reload),
    /// Show which calls there were, or what is known of one
    Records(records::Records),
    /// Show how many calls each tool had, how many failed, and how long they took
    Stats(stats::Stats),
    /// Print arguments or a result by its content identifier
    Object(object::Object),
    /// Show what servers ask and no client could be asked, and answer it
    Requests(requests::Requests),
    /// Switch servers and tools off for one client, or show what is off
    Switches(switches::Switches),
    /// List the tools, or show one
    Tools(tools::Tools),
    /// Call a tool
    Call(call::Call),
    /// List the resources and resource templates
    Resources(resources::Resources),
    /// Read a resource
    Read(read::Read),
    /// List the prompts, or get one
    Prompts(prompts::Prompts),
    /// Show what a server wrote to stderr, and what became of it
    Logs(logs::Logs),
    /// Say which clients may use the MCP addresses, or replace the control token
    Token(token::Token),
    /// Show which program a server's command means
    Resolve(resolve::Resolve),
    /// A small MCP server on stdin and stdout
    #[command(hide = true)]
    DemoServer { name: String },
}

impl Cli {
    /// The arguments of the process, or the exit code after the reason was printed.
    pub fn from_arguments() -> Result<Self, ExitCode> {
        Self::try_parse().map_err(|error| screen::usage(&error))
    }

    /// Runs the command and says what went wrong.
    pub async fn run(self) -> ExitCode {
        let json = self.command.json();
        let exit = self.command.run().await.unwrap_or_else(|error| {
            error.report(json);
            error.exit()
        });
        ExitCode::from(exit.0)
    }
}

impl Command {
    /// Whether the warnings of the log would only repeat what the command says.
    pub fn is_quiet(&self) -> bool {
        matches!(self, Self::Resolve(_))
    }

    /// Whether a guardian stands above it: it runs servers of its own, which must not outlive it. What
    /// may read from a terminal does without, for the terminal lets only its foreground group read.
    pub fn is_guarded(&self) -> bool {
        let for_the_occasion = || self.daemon().is_some_and(DaemonArgs::starts_servers);
        let may_read = matches!(self, Self::Mcp(_)) || for_the_occasion();
        matches!(self, Self::Serve(_)) || may_read && !io::stdin().is_terminal()
    }

    /// How a client of the REST API finds its daemon.
    fn daemon(&self) -> Option<&DaemonArgs> {
        match self {
            Self::List(command) => Some(&command.daemon),
            Self::Get(command) => Some(&command.daemon),
            Self::Approve(command) => Some(&command.daemon),
            Self::Events(command) => Some(&command.daemon),
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
            | Self::Add(_)
            | Self::Remove(_)
            | Self::Enable(_)
            | Self::Disable(_)
            | Self::Token(_)
            | Self::Validate(_)
            | Self::Resolve(_)
            | Self::DemoServer { .. } => None,
        }
    }

    fn json(&self) -> bool {
        match self {
            Self::Serve(command) => command.json,
            Self::Validate(command) => command.json,
            Self::Resolve(command) => command.json,
            Self::Token(command) => command.json,
            Self::Add(command) => command.daemon.json,
            Self::Remove(command) => command.daemon.json,
            Self::Enable(command) | Self::Disable(command) => command.daemon.json,
            _ => self.daemon().is_some_and(|daemon| daemon.json),
        }
    }

    async fn run(self) -> Result<Exit, CommandError> {
        match self {
            Self::Serve(command) => command.run().await,
            Self::Mcp(command) => command.run().await,
            Self::Validate(command) => command.run(),
            Self::List(command) => command.run().await,
            Self::Get(command) => command.run().await,
            Self::Add(command) => command.run().await,
            Self::Remove(command) => command.run().await,
            Self::Enable(command) => command.run(true).await,
            Self::Disable(command) => command.run(false).await,
            Self::Approve(command) => command.run().await,
            Self::Events(command) => command.run().await,
            Self::Health(command) => command.run().await,
            Self::Start(command) => command.run("start").await,
            Self::Stop(command) => command.run("stop").await,
            Self::Restart(command) => command.run("restart").await,
            Self::Reconnect(command) => command.run("reconnect").await,
            Self::Reload(command) => command.run().await,
            Self::Records(command) => command.run().await,
            Self::Stats(command) => command.run().await,
            Self::Object(command) => command.run().await,
            Self::Requests(command) => command.run().await,
            Self::Switches(command) => command.run().await,
            Self::Tools(command) => command.run().await,
            Self::Call(command) => command.run().await,
            Self::Resources(command) => command.run().await,
            Self::Read(command) => command.run().await,
            Self::Prompts(command) => command.run().await,
            Self::Logs(command) => command.run().await,
            Self::Token(command) => command.run().await,
            Self::Resolve(command) => command.run(),
            // `main` runs it before there is a runtime.
            Self::DemoServer { .. } => Ok(Exit::DONE),
        }
    }
}
