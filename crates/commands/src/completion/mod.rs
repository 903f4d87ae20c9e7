//! `mainstay completions`: prints the completion script of a shell, and answers the requests of the
//! script.
//!
//! The script runs the program with [`VARIABLE`] set for each press of Tab. The program then prints the
//! completions and nothing else. It starts no server and logs nothing.

mod names;
mod places;

use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Command, ValueEnum};
use clap_complete::{
    CompleteEnv,
    env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Zsh},
};
use mainstay_command_line::{
    CommandError, Exit,
    host::Host,
    output,
    run_command::{CommandFacts, RunCommand},
};

pub use self::places::PLACES;

/// The variable that marks a request for completions. Its value is the name of the shell.
const VARIABLE: &str = "MAINSTAY_COMPLETE";

const PROGRAM: &str = "mainstay";

const EXAMPLES: &str = "\
Put this into the file that your shell reads at its start:
  bash        ~/.bashrc                   source <(mainstay completions bash)
  zsh         ~/.zshrc, after compinit    source <(mainstay completions zsh)
  fish        ~/.config/fish/config.fish  mainstay completions fish | source
  elvish      ~/.config/elvish/rc.elv
              eval (mainstay completions elvish | slurp)
  PowerShell  $PROFILE
              mainstay completions powershell | Out-String | Invoke-Expression

Names of servers, tools, prompts and clients are those of the running daemon, or
without one those of the configuration.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Completions {
    /// bash, zsh, fish, powershell or elvish
    #[arg(value_name = "SHELL", hide_possible_values = true)]
    shell: Shell,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
    #[value(alias = "pwsh")]
    Powershell,
    Elvish,
}

impl RunCommand for Completions {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts::default()
    }

    async fn run(self, _: &dyn Host) -> Result<Exit, CommandError> {
        let shell: &dyn EnvCompleter = match self.shell {
            Shell::Bash => &Bash,
            Shell::Zsh => &Zsh,
            Shell::Fish => &Fish,
            Shell::Powershell => &Powershell,
            Shell::Elvish => &Elvish,
        };
        let mut script = Vec::new();
        shell
            .write_registration(VARIABLE, PROGRAM, PROGRAM, &program(), &mut script)
            .map_err(CommandError::Output)?;
        output::data(&String::from_utf8_lossy(&script))?;
        Ok(Exit::DONE)
    }
}

/// The path of the program for the script. A bare name stays, because the shell finds it in PATH. A
/// relative path becomes absolute.
fn program() -> String {
    let name = env::args_os().next().map(PathBuf::from);
    let name = name.unwrap_or_else(|| PROGRAM.into());
    let is_bare = name.parent() == Some(Path::new(""));
    let path = match std::path::absolute(&name) {
        Ok(path) if !is_bare => path,
        _ => name,
    };
    path.to_string_lossy().into_owned()
}

/// Answers a request of a shell, if [`VARIABLE`] is set. Prints no error, because an error would appear
/// in the line that a person is typing.
pub fn answered(command: impl Fn() -> Command) -> Option<ExitCode> {
    env::var_os(VARIABLE)?;
    let completed = CompleteEnv::with_factory(|| places::with_names(command()))
        .var(VARIABLE)
        .bin(PROGRAM)
        .try_complete(env::args_os(), env::current_dir().ok().as_deref());
    match completed {
        Ok(true) => Some(ExitCode::SUCCESS),
        Ok(false) => None,
        Err(_) => Some(ExitCode::FAILURE),
    }
}
