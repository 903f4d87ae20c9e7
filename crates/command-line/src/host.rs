//! What the program does for its commands: it starts a daemon for an occasion, and runs the other commands for
//! the shell. The commands do not know how a daemon is made, and the shell knows no other command.

use std::{pin::Pin, time::Duration};

use mainstay_api::Client;
use mainstay_core::config::Config;
use mainstay_platform::{environment::Origin, lineage::Lineage};

use super::{CommandError, Exit, connect::DaemonArgs, signals::Signals};

/// The program that the commands are part of.
pub trait Host {
    /// Starts a daemon of this configuration, and says what is odd about it. Its calls are put on record if
    /// they are to be `recorded`.
    fn start(&self, origin: &Origin, recorded: bool) -> Result<Box<dyn Occasion>, CommandError>;

    /// Starts a daemon of this configuration, of which nothing is kept.
    fn try_out(&self, config: &Config, lineage: Lineage)
    -> Result<Box<dyn Occasion>, CommandError>;

    /// Reads the arguments of a command that was typed into the shell. It is run by this daemon.
    fn typed<'h>(
        &'h self,
        command: Typed,
        arguments: &[&str],
        daemon: DaemonArgs,
    ) -> Result<Running<'h>, clap::Error>;
}

/// A command that runs.
pub type Running<'h> = Pin<Box<dyn Future<Output = Result<Exit, CommandError>> + 'h>>;

/// Ends when what is waited for has happened.
pub type Waiting<'h> = Pin<Box<dyn Future<Output = ()> + 'h>>;

/// What the shell has the commands of the command line do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typed {
    List,
    Health,
    /// The operation as the REST route has it.
    Operate(&'static str),
    Switch {
        on: bool,
    },
    /// The tools with a word, or the tool of this name.
    Tools,
    /// The arguments are as the shell has read them: none is a file.
    Call,
    Resources,
    Read,
    Prompts,
    Events,
    History,
    Records,
    Logs,
}

/// A daemon on a port of its own, with a token that is not shown. It touches nothing of the state directory
/// but what is kept.
pub trait Occasion {
    fn client(&self) -> &Client;

    /// Waits until each server is up, or is known not to be for now.
    fn settled(&self) -> Waiting<'_>;

    /// Waits for each server so long at most, until it is up and listed, or is known not to be.
    fn examined(&self, limit: Duration) -> Waiting<'_>;

    fn stop<'s>(
        self: Box<Self>,
        signals: &'s mut Signals,
    ) -> Pin<Box<dyn Future<Output = Result<Exit, CommandError>> + 's>>;
}
