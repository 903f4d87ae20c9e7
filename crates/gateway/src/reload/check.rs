//! Checks a proposed configuration without writing it: finds its problems, and plans the reload.

use mainstay_config::{
    ReloadPlan, Syntax,
    edit::Document,
    masked_text::{NotRestored, RestoredText, restored_text},
    masking,
};
use mainstay_core::{
    config::{Config, ConfigError},
    failure::Failure,
};
use mainstay_platform::{
    blocking::off_the_runtime,
    environment::{ConfigurationSource, LoadError, Loaded},
};
use serde_json::Value;

use super::{Reloader, edit};

/// A proposed configuration. Placeholders in it stand for the secrets in the file.
#[derive(Clone, Debug)]
pub enum Proposal {
    Text(String),
    Value(Value),
}

/// The result of checking a proposal.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The findings, errors first. Positions refer to the proposed text. A JSON value has no
    /// positions.
    pub findings: Vec<ConfigFinding>,
    /// The plan of the reload. `None` if the proposal has errors.
    pub plan: Option<ReloadPlan>,
}

#[derive(Clone, Debug)]
pub struct ConfigFinding {
    pub severity: Severity,
    pub finding: ConfigError,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Error,
    Warning,
}

impl ConfigFinding {
    fn new(severity: Severity, finding: &ConfigError) -> Self {
        Self {
            severity,
            finding: finding.clone(),
        }
    }

    /// All findings of a loaded file, errors first.
    pub(super) fn of_loaded(loaded: &Loaded) -> Vec<Self> {
        let problems = loaded.config.problems();
        let errors = problems.map(|(_, problem)| Self::new(Severity::Error, problem));
        let warning = |warning| Self::new(Severity::Warning, warning);
        errors.chain(loaded.warnings.iter().map(warning)).collect()
    }
}

/// The findings of a proposal, and its configuration if it is valid.
struct CheckedProposal {
    findings: Vec<ConfigFinding>,
    config: Option<Config>,
}

impl Reloader {
    /// Checks a proposed configuration like one that is about to be written.
    pub async fn check(&self, proposal: Proposal) -> Result<Checked, Failure> {
        let (origin, in_force, syntax) = (self.origin.clone(), self.registry.text(), self.syntax());
        let reading = off_the_runtime(move || {
            let file = edit::text_to_change(&origin, in_force.as_deref().map(String::as_str))?;
            read(&origin, &file, syntax, proposal)
        });
        let CheckedProposal { findings, config } = reading.await?;
        let plan = match config {
            None => None,
            Some(mut config) => {
                let current = self.current.lock().await;
                config.keep_launches(&current);
                Some(ReloadPlan::between(&current, &config))
            }
        };
        Ok(Checked { findings, plan })
    }
}

fn read(
    origin: &ConfigurationSource,
    file: &str,
    syntax: Syntax,
    proposal: Proposal,
) -> Result<CheckedProposal, Failure> {
    match proposal {
        Proposal::Value(value) => {
            let document = Document::read(file, syntax).map_err(edit::unusable)?;
            let before = document.value().map_err(edit::unusable)?;
            let value = match masking::unmasked(&value, &before) {
                Ok(value) => value,
                Err(unknown) => return Ok(refused(edit::unknown_secret(&unknown, None))),
            };
            document.become_value(&value).map_err(edit::unusable)?;
            let mut checked = parsed(origin, &document.to_string())?;
            for finding in &mut checked.findings {
                finding.finding.position = None;
            }
            Ok(checked)
        }
        Proposal::Text(masked) => {
            if Document::read(&masked, syntax).is_err() {
                // The parser below reports the syntax error.
                return parsed(origin, &masked);
            }
            match restored_text(&masked, file, syntax) {
                Ok(restored) => checked_text(origin, &masked, &restored),
                Err(NotRestored::Unreadable(error)) => Err(edit::unusable(error)),
                Err(NotRestored::Unknown { secret, position }) => {
                    Ok(refused(edit::unknown_secret(&secret, Some(position))))
                }
            }
        }
    }
}

fn checked_text(
    origin: &ConfigurationSource,
    masked: &str,
    restored: &RestoredText,
) -> Result<CheckedProposal, Failure> {
    let mut checked = parsed(origin, &restored.text)?;
    for finding in &mut checked.findings {
        let position = &mut finding.finding.position;
        *position = position.map(|position| restored.position_in(masked, position));
    }
    Ok(checked)
}

fn refused(finding: ConfigError) -> CheckedProposal {
    CheckedProposal {
        findings: vec![ConfigFinding {
            severity: Severity::Error,
            finding,
        }],
        config: None,
    }
}

fn parsed(origin: &ConfigurationSource, text: &str) -> Result<CheckedProposal, Failure> {
    match origin.parse(Some(text)) {
        Ok(loaded) => {
            let is_valid = loaded.config.problems().next().is_none();
            Ok(CheckedProposal {
                findings: ConfigFinding::of_loaded(&loaded),
                config: is_valid.then_some(loaded.config),
            })
        }
        Err(LoadError::Invalid { errors, .. }) => Ok(CheckedProposal {
            findings: errors
                .0
                .iter()
                .map(|error| ConfigFinding::new(Severity::Error, error))
                .collect(),
            config: None,
        }),
        Err(error) => Err(error.failure()),
    }
}
