//! The trait of all commands, and the facts that the program needs before it runs one.

use std::io::{self, IsTerminal as _};

use super::{CommandError, Exit, connect::DaemonArgs, shape::OutputShape};

/// The arguments of a command.
pub trait RunCommand {
    /// The services of the program that this command uses: `dyn Host`, or a trait above it.
    type Host<'h>: ?Sized + 'h;

    fn facts(&self) -> CommandFacts;

    fn run<'h>(self, host: &'h Self::Host<'h>) -> impl Future<Output = Result<Exit, CommandError>>;
}

/// A large command is boxed in the enum of all commands.
impl<T: RunCommand> RunCommand for Box<T> {
    type Host<'h> = T::Host<'h>;

    fn facts(&self) -> CommandFacts {
        (**self).facts()
    }

    async fn run<'h>(self, host: &'h T::Host<'h>) -> Result<Exit, CommandError> {
        (*self).run(host).await
    }
}

/// Facts about a command that the program needs before it runs the command.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommandFacts {
    /// The command prints JSON. Notes and errors are JSON, too.
    pub json: bool,
    /// The warnings of the log would only repeat what the command prints.
    pub is_quiet: bool,
    pub role: Role,
    pub guard: Guard,
    /// Text of the progress line, which appears when the command takes long. `None`: the command shows a line of
    /// its own, or only prints its result.
    pub under_way: Option<&'static str>,
}

/// The party that depends on a command while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The person or script that started it.
    #[default]
    Tool,
    /// The clients of a daemon.
    Daemon,
    /// One client. A machine may have a front for each client, so that a front has one thread.
    Front,
}

/// The condition for a guardian above a command. A guardian ends the servers that the command started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guard {
    /// The command starts no servers.
    #[default]
    Never,
    Always,
    /// Not where stdin is a terminal: a terminal lets only its foreground group read, and the command may read.
    WithoutTerminal,
}

impl Guard {
    /// The guard of a command that may read from a terminal.
    pub fn of_servers(starts_servers: bool) -> Self {
        if starts_servers {
            Self::WithoutTerminal
        } else {
            Self::Never
        }
    }
}

impl CommandFacts {
    pub fn printing(json: bool) -> Self {
        Self {
            json,
            ..Self::default()
        }
    }

    /// A client of the REST API.
    pub fn rest_client(daemon: &DaemonArgs) -> Self {
        Self {
            guard: Guard::of_servers(daemon.starts_servers()),
            ..Self::printing(daemon.json)
        }
    }

    /// The command lists something in this form.
    #[must_use]
    pub fn shaped(self, shape: &OutputShape) -> Self {
        Self {
            json: self.json || shape.is_json(),
            ..self
        }
    }

    /// True if clients depend on the command: a stderr that cannot be written must not hold it up.
    pub fn serves(&self) -> bool {
        self.role != Role::Tool
    }

    /// True if the command needs a guardian where it is started.
    pub fn is_guarded(&self) -> bool {
        match self.guard {
            Guard::Never => false,
            Guard::Always => true,
            Guard::WithoutTerminal => !io::stdin().is_terminal(),
        }
    }
}
