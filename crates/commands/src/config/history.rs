//! `mainstay config history`, `config diff` and `config undo`: the earlier versions of the configuration.

use clap::{Args, Subcommand};
use mainstay_api as api;
use mainstay_command_line::{
    CommandError, connect::ServerSource, output, screen::complain, table::Column, time,
};
use mainstay_core::failure::{Failure, FailureKind};
use mainstay_gateway::reload::{self, ShownVersion, UndoResult, unknown_version};
use mainstay_platform::{
    config_history::ConfigHistory,
    environment::{ConfigurationSource, Process},
    state::StateDir,
};

use super::super::import;

const COLUMNS: [Column; 4] = [
    Column::new("VERSION"),
    Column::new("AT"),
    Column::new("BY"),
    Column::new("WHAT CHANGED").cut_to(30),
];

#[derive(Debug, Args)]
pub struct ConfigHistoryCommand {
    #[command(subcommand)]
    action: Option<HistoryAction>,
    /// Ask the daemon at this URL [default: $MAINSTAY_URL, or the one of the state directory]
    #[arg(long, value_name = "URL", global = true)]
    pub url: Option<String>,
}

#[derive(Debug, Subcommand)]
enum HistoryAction {
    /// List the versions, the newest first (the default)
    List,
    /// Print a version, with placeholders for secrets
    Show(Numbered),
    /// Print what a version changed, with placeholders for secrets
    Diff(Numbered),
}

#[derive(Debug, Args)]
pub struct Numbered {
    /// The version
    #[arg(value_name = "N")]
    number: u64,
}

#[derive(Debug, Args)]
pub struct Undo {
    /// The version to go back to [default: the one before the last change]
    #[arg(value_name = "N")]
    number: Option<u64>,
    /// Replace a file that was changed by hand since, too; what it has is kept as a version
    #[arg(long)]
    force: bool,
    /// Ask the daemon at this URL [default: $MAINSTAY_URL, or the one of the state directory]
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
}

impl ConfigHistoryCommand {
    pub async fn run(&self, place: ServerSource, json: bool) -> Result<(), CommandError> {
        match &self.action {
            None | Some(HistoryAction::List) => list(place, json).await,
            Some(HistoryAction::Show(Numbered { number })) => {
                let found = version(place, *number).await?;
                if json {
                    return output::json(&found);
                }
                let text = found.text.ok_or_else(|| no_json(*number))?;
                output::data(&text)
            }
            Some(HistoryAction::Diff(numbered)) => numbered.diff(place, json).await,
        }
    }
}

impl Numbered {
    /// Prints the diff between the version and the version before it.
    pub async fn diff(&self, place: ServerSource, json: bool) -> Result<(), CommandError> {
        let found = version(place, self.number).await?;
        if json {
            return output::json(&found);
        }
        match found.difference.as_deref() {
            Some("") => complain(&format!("{}; only secrets differ", found.version.reason)),
            Some(difference) => output::data(difference)?,
            None if found.text.is_none() => return Err(no_json(self.number)),
            None => complain("the version before is not kept, or is no JSON"),
        }
        Ok(())
    }
}

impl Undo {
    pub async fn run(&self, place: ServerSource, json: bool) -> Result<(), CommandError> {
        let undone = match place {
            ServerSource::Daemon(client) => {
                let undo = api::UndoConfig {
                    version: self.number,
                    force: self.force,
                };
                client.undo_config(undo).await.map_err(hinted)?
            }
            ServerSource::File(origin) => {
                let history = history_of_file(&origin)?;
                let undone = reload::undo_file(&origin, &history, self.number, self.force);
                let UndoResult {
                    restored,
                    version,
                    plan,
                } = undone.map_err(hinted)?;
                api::ConfigUndone {
                    success: true,
                    restored,
                    version,
                    summary: plan.to_string(),
                    plan: (&plan).into(),
                }
            }
        };
        if json {
            return output::json(&undone);
        }
        output::text(&undone.summary)?;
        let api::ConfigUndone {
            restored, version, ..
        } = undone;
        complain(&format!(
            "the configuration is that of version {restored} again, as version {version}"
        ));
        Ok(())
    }
}

/// Adds a hint to the error about a manual change of the file, because a person has to decide.
fn hinted(error: impl Into<CommandError>) -> CommandError {
    let error = error.into();
    if error.code() != FailureKind::ConfigChanged.code() {
        return error;
    }
    CommandError::Cannot {
        code: FailureKind::ConfigChanged.code(),
        message: error.to_string(),
        hint: Some(
            "`mainstay config undo --force` keeps what it has as a version, and replaces it"
                .to_owned(),
        ),
    }
}

async fn list(place: ServerSource, json: bool) -> Result<(), CommandError> {
    let history = match place {
        ServerSource::Daemon(client) => client.config_history().await?,
        ServerSource::File(origin) => {
            let reload::FileHistory {
                versions,
                is_changed,
            } = reload::file_history(&history_of_file(&origin)?)?;
            api::ConfigHistory {
                versions: versions.iter().map(api::ConfigVersion::from).collect(),
                changed: is_changed,
            }
        }
    };
    if json {
        return output::json(&history);
    }
    if history.versions.is_empty() {
        complain("the configuration has no earlier versions yet");
        return Ok(());
    }
    if history.changed {
        complain("the file was changed since; the change becomes a version when Mainstay reads it");
    }
    let rows = history.versions.iter().map(|version| {
        [
            version.version.to_string(),
            time::local_with_day(&version.at),
            author(version.by).to_owned(),
            version.reason.clone(),
        ]
    });
    output::rows_of(&COLUMNS, rows, false)
}

const fn author(by: api::ConfigChangedBy) -> &'static str {
    match by {
        api::ConfigChangedBy::Page => "page",
        api::ConfigChangedBy::Rest => "rest",
        api::ConfigChangedBy::Command => "command",
        api::ConfigChangedBy::Hand => "hand",
    }
}

async fn version(place: ServerSource, number: u64) -> Result<api::ConfigVersionText, CommandError> {
    match place {
        ServerSource::Daemon(client) => Ok(client.config_version(number).await?),
        ServerSource::File(origin) => {
            let found = reload::show_version(&history_of_file(&origin)?, number)?;
            let ShownVersion {
                version,
                text,
                difference,
            } = found.ok_or_else(|| unknown_version(number))?;
            Ok(api::ConfigVersionText {
                version: (&version).into(),
                text,
                difference,
            })
        }
    }
}

fn history_of_file(origin: &ConfigurationSource) -> Result<ConfigHistory, CommandError> {
    let path = origin.path();
    let path = path.ok_or_else(|| import::no_home("the configuration"))?;
    Ok(ConfigHistory::for_file(&StateDir::locate(&Process)?, &path))
}

fn no_json(number: u64) -> CommandError {
    let message =
        format!("version {number} is no JSON, so nobody can say which parts of it are secret");
    Failure::new(FailureKind::InvalidConfig, message).into()
}
