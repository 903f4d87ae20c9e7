//! The program's services for its commands: it starts a daemon for one command, and runs the other commands
//! for the shell. The commands do not know how a daemon is made, and the shell knows no other command.

use std::{pin::Pin, time::Duration};

use mainstay_api::Client;
use mainstay_core::config::Config;
use mainstay_platform::{environment::ConfigurationSource, lineage::Lineage};

use super::{CommandError, Exit, connect::DaemonArgs, signals::Signals};

/// The program that runs the commands.
pub trait Host {
    /// Starts a daemon of this configuration, and prints warnings about the configuration. With `recorded`
    /// its calls are recorded.
    fn start(
        &self,
        origin: &ConfigurationSource,
        recorded: bool,
    ) -> Result<Box<dyn Occasion>, CommandError>;

    /// Starts a daemon of this configuration that stores nothing.
    fn try_out(&self, config: &Config, lineage: Lineage)
    -> Result<Box<dyn Occasion>, CommandError>;

    /// Parses the arguments of a command that was typed into the shell. The command uses this daemon.
    fn typed<'h>(
        &'h self,
        command: Typed,
        arguments: &[&str],
        daemon: DaemonArgs,
    ) -> Result<RunningCommand<'h>, clap::Error>;
}

/// A running command.
pub type RunningCommand<'h> = Pin<Box<dyn Future<Output = Result<Exit, CommandError>> + 'h>>;

/// Resolves when the condition is met.
pub type Waiting<'h> = Pin<Box<dyn Future<Output = ()> + 'h>>;

/// Commands of the command line that the shell runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typed {
    List,
    Health,
    /// An operation, by the name in its REST route.
    Operate(&'static str),
    Switch {
        on: bool,
    },
    /// Searches tools by a word, or shows the tool of this name.
    Tools,
    /// The shell has parsed the arguments; no argument is a file.
    Call,
    Resources,
    Read,
    Prompts,
    Events,
    History,
    Records,
    Logs,
}

/// A daemon on a port of its own, with a secret token. In the state directory it writes only records.
pub trait Occasion {
    fn client(&self) -> &Client;

    /// Waits until each server is connected, or has failed for now.
    fn settled(&self) -> Waiting<'_>;

    /// Waits at most `limit` for each server, until it is connected and listed, or has failed.
    fn examined(&self, limit: Duration) -> Waiting<'_>;

    fn stop<'s>(
        self: Box<Self>,
        signals: &'s mut Signals,
    ) -> Pin<Box<dyn Future<Output = Result<Exit, CommandError>> + 's>>;
}
