//! `mainstay validate`: reports every error and warning of a configuration.

use std::path::{Path, PathBuf};

use clap::Args;
use mainstay_command_line::{
    CommandError, Exit,
    host::Host,
    output,
    run_command::{CommandFacts, RunCommand},
    starting,
    stderr::complain,
};
use mainstay_core::config::ConfigError;
use mainstay_platform::{
    environment::{self, LoadError, Loaded},
    listener_tls,
};
use serde_json::{Value, json};

use crate::import::warn_of_unread_rules;

const EXAMPLES: &str = "\
Examples:
  mainstay validate servers.json
  mainstay validate --json ~/.cursor/mcp.json

The exit code is 2 if anything is wrong; warnings alone are no error.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Validate {
    /// The configuration [default: the one that `mainstay serve` would read]
    file: Option<PathBuf>,
    /// Print the findings as JSON on stdout
    #[arg(long)]
    pub json: bool,
}

impl RunCommand for Validate {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts::printing(self.json)
    }

    async fn run(self, _: &dyn Host) -> Result<Exit, CommandError> {
        let mut loaded = match environment::load(self.file.as_deref()) {
            Err(LoadError::Invalid { path, errors }) if self.json => {
                output::json(&report(&path, 0, &errors.0.iter().collect::<Vec<_>>(), &[]))?;
                return Ok(Exit::USAGE);
            }
            loaded => loaded?,
        };
        warn_of_unread_rules(&mut loaded);
        let Some(path) = &loaded.path else {
            return Err(CommandError::Usage {
                message: "there is no configuration in the usual places".to_owned(),
                hint: Some("name one: mainstay validate FILE".to_owned()),
            });
        };
        // The files of the certificate are read here, not with the configuration: a reload must not depend on them.
        let tls_problems = match listener_tls::of_loaded(&loaded) {
            Err(LoadError::Invalid { errors, .. }) => errors.0,
            Ok(_) | Err(_) => Vec::new(),
        };
        let problems: Vec<&ConfigError> = loaded
            .config
            .problems()
            .map(|(_, problem)| problem)
            .chain(&tls_problems)
            .collect();
        let servers = loaded.config.servers.len();
        if self.json {
            output::json(&report(path, servers, &problems, &loaded.warnings))?;
        } else {
            starting::print_findings(&loaded);
            for problem in &tls_problems {
                complain(&problem.at(path.display()).to_string());
            }
            if problems.is_empty() {
                output::line(&format!("ok: {}", summary(&loaded)))?;
            }
        }
        Ok(if problems.is_empty() {
            Exit::DONE
        } else {
            Exit::USAGE
        })
    }
}

/// The counts of servers and warnings: `3 servers, 1 warning`.
fn summary(loaded: &Loaded) -> String {
    let servers = output::count(loaded.config.servers.len(), "server");
    match loaded.warnings.len() {
        0 => servers,
        warnings => format!("{servers}, {}", output::count(warnings, "warning")),
    }
}

fn report(path: &Path, servers: usize, errors: &[&ConfigError], warnings: &[ConfigError]) -> Value {
    let finding = |finding: &ConfigError| {
        json!({
            "path": finding.path,
            "message": finding.message,
            "hint": finding.hint,
            "line": finding.position.map(|(line, _)| line),
            "column": finding.position.map(|(_, column)| column),
        })
    };
    json!({
        "ok": errors.is_empty(),
        "file": path,
        "servers": servers,
        "errors": errors.iter().map(|error| finding(error)).collect::<Vec<_>>(),
        "warnings": warnings.iter().map(finding).collect::<Vec<_>>(),
    })
}
