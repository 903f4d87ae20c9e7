//! `mainstay config`: shows, explains and edits the configuration, and prints its earlier versions and its
//! schema.

mod edit;
mod history;
mod show;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use mainstay_command_line::{
    CommandError, Exit,
    connect::{self, ServerSource},
    host::Host,
    output,
    run_command::{CommandFacts, RunCommand},
    screen::complain,
};
use mainstay_config::{NamedBy, named_by, schema_text};
use mainstay_platform::environment::{ConfigurationSource, Process};
use serde_json::json;

use super::import;

const EXAMPLES: &str = "\
Examples:
  mainstay config path                       the file that is read
  mainstay config show                       what it means, without defaults
  mainstay config show --defaults -o yaml    every setting
  mainstay config edit                       edit it, and save it if it is right
  mainstay config history                    who changed what, and when
  mainstay config undo                       take the last change back
  mainstay config schema > mainstay.schema.json";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ConfigCommand {
    #[command(subcommand)]
    action: ConfigAction,
    /// The configuration [default: the one that `mainstay serve` would read]
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// Print JSON on stdout, and errors as JSON on stderr
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum ConfigAction {
    /// Print which file is read; --json tells what names it
    Path,
    /// Show what the configuration means: other programs' spellings translated, secrets hidden
    Show(show::Show),
    /// Open the configuration in an editor, and save it if it can be used
    Edit,
    /// List, show and compare the versions of the configuration
    History(history::ConfigHistoryCommand),
    /// Go back to the version before the last change; an undo can be undone
    Undo(history::Undo),
    /// Print the JSON Schema of the configuration
    Schema,
}

impl ConfigCommand {
    pub fn is_json(&self) -> bool {
        let shows_json = matches!(&self.action, ConfigAction::Show(show) if show.is_json());
        self.json || shows_json
    }
}

impl RunCommand for ConfigCommand {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts::printing(self.is_json())
    }

    async fn run(self, _: &dyn Host) -> Result<Exit, CommandError> {
        let origin = ConfigurationSource {
            flag: self.config.clone(),
            ..ConfigurationSource::default()
        };
        match &self.action {
            ConfigAction::Path => self.path()?,
            ConfigAction::Show(show) => show.run(&origin, self.json)?,
            ConfigAction::Edit => edit::run(&origin, self.json).await?,
            ConfigAction::History(history) => {
                history
                    .run(self.place(history.url.as_ref())?, self.json)
                    .await?
            }
            ConfigAction::Undo(undo) => undo.run(self.place(undo.url.as_ref())?, self.json).await?,
            ConfigAction::Schema => output::data(&schema_text())?,
        }
        Ok(Exit::DONE)
    }
}

impl ConfigCommand {
    fn place(&self, url: Option<&String>) -> Result<ServerSource, CommandError> {
        ServerSource::find(self.config.clone(), url.cloned())
    }

    fn path(&self) -> Result<(), CommandError> {
        let located = named_by(self.config.as_deref(), &Process);
        let (by, path) = located.ok_or_else(|| import::no_home("the configuration"))?;
        let path = import::absolute(&path)?;
        // Compare with the daemon's file, because a daemon may have been started with another
        // configuration.
        let daemon = connect::locate(None).ok().and_then(|found| found.file);
        let served = daemon.and_then(|file| file.config);
        if self.json {
            return output::json(&json!({
                "path": path,
                "namedBy": by.as_str(),
                "exists": path.exists(),
                "servedByDaemon": served,
            }));
        }
        output::line(&path.display().to_string())?;
        if !path.exists() {
            complain(match by {
                NamedBy::Flag | NamedBy::Variable => "warning: there is no such file",
                NamedBy::StateDir | NamedBy::ConfigFolder | NamedBy::Home => {
                    "there is no such file yet, and so no servers"
                }
            });
        }
        if let Some(served) = served.filter(|served| !is_same(Path::new(served), &path)) {
            complain(&format!("warning: the running daemon has read {served}"));
        }
        Ok(())
    }
}

/// True if a daemon's configuration file is this file.
fn is_same(served: &Path, path: &Path) -> bool {
    std::fs::canonicalize(path).is_ok_and(|path| path == served)
}
