//! `mainstay resolve`: prints the program that a server's `command` leads to.

use std::{env, path::PathBuf};

use clap::Args;
use mainstay_command_line::{
    CommandError, Exit,
    host::Host,
    output,
    run_command::{CommandFacts, RunCommand},
};
use mainstay_core::config::PathOrder;
use mainstay_transport::{self as transport, Resolution};
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  mainstay resolve npx

PATH is searched first, then the usual folders of the system, Homebrew,
installers and version managers.";

/// True if a program is on this machine. Looks it up in the same way as the program of a server.
pub fn is_here(program: &str) -> bool {
    let path = transport::search_path(env::var_os("PATH").as_deref(), PathOrder::default());
    matches!(transport::resolve(program, &path), Resolution::Found(_))
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Resolve {
    #[arg(value_name = "CMD")]
    command: String,
    /// Print the answer as JSON on stdout
    #[arg(long)]
    pub json: bool,
}

impl RunCommand for Resolve {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts {
            is_quiet: true,
            ..CommandFacts::printing(self.json)
        }
    }

    async fn run(self, _: &dyn Host) -> Result<Exit, CommandError> {
        let path = transport::search_path(env::var_os("PATH").as_deref(), PathOrder::default());
        let absent = |hint| CommandError::NotFound {
            subject: format!("command {}", self.command),
            hint,
        };
        let program: PathBuf = match transport::resolve(&self.command, &path) {
            Resolution::Found(program) => program,
            Resolution::AsGiven(program) => std::path::absolute(program)
                .ok()
                .filter(|program| program.is_file())
                .ok_or_else(|| absent("install it, or correct the path".to_owned()))?,
            Resolution::NotFound(_) => {
                let remedy = transport::remedy(&self.command);
                let searched = transport::looked_in(&path, usize::MAX);
                return Err(absent(format!("{remedy}; {searched}")));
            }
        };
        if self.json {
            output::json(&json!({"command": self.command, "path": program}))?;
        } else {
            output::data(&program.display().to_string())?;
        }
        Ok(Exit::DONE)
    }
}
