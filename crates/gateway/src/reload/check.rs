//! Says what is wrong with a configuration that is proposed, and what would follow from it. Nothing is
//! written.

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
    environment::{LoadError, Loaded, Origin},
};
use serde_json::Value;

use super::{Reloader, edit};

/// All of a configuration, with placeholders for the secrets that the file has.
#[derive(Clone, Debug)]
pub enum Proposal {
    Text(String),
    Value(Value),
}

/// What a proposal comes to.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Errors first. Places are those of the text that was proposed; a value has none.
    pub findings: Vec<Finding>,
    /// What would be done; `None` where it would be refused.
    pub plan: Option<ReloadPlan>,
}

#[derive(Clone, Debug)]
pub struct Finding {
    pub severity: Severity,
    pub finding: ConfigError,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Error,
    Warning,
}

impl Finding {
    fn of(severity: Severity, finding: &ConfigError) -> Self {
        Self {
            severity,
            finding: finding.clone(),
        }
    }

    /// Everything that was found in a file that can be used.
    pub(super) fn all_of(loaded: &Loaded) -> Vec<Self> {
        let problems = loaded.config.problems();
        let errors = problems.map(|(_, problem)| Self::of(Severity::Error, problem));
        let warnings = loaded.warnings.iter();
        let warnings = warnings.map(|warning| Self::of(Severity::Warning, warning));
        errors.chain(warnings).collect()
    }
}

/// A proposal that was read: what was found, and what it means if it can be used.
struct Read {
    findings: Vec<Finding>,
    config: Option<Config>,
}

impl Reloader {
    /// Checks a configuration as if it were to be written.
    pub async fn check(&self, proposal: Proposal) -> Result<Checked, Failure> {
        let (origin, in_force, syntax) = (self.origin.clone(), self.registry.text(), self.syntax());
        let reading = off_the_runtime(move || {
            let file = edit::text_to_change(&origin, in_force.as_deref().map(String::as_str))?;
            read(&origin, &file, syntax, proposal)
        });
        let Read { findings, config } = reading.await?;
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

fn read(origin: &Origin, file: &str, syntax: Syntax, proposal: Proposal) -> Result<Read, Failure> {
    match proposal {
        Proposal::Value(value) => {
            let document = Document::read(file, syntax).map_err(edit::unusable)?;
            let before = document.value().map_err(edit::unusable)?;
            let value = match masking::unmasked(&value, &before) {
                Ok(value) => value,
                Err(unknown) => return Ok(refused(edit::unknown_secret(&unknown, None))),
            };
            document.become_value(&value).map_err(edit::unusable)?;
            let mut read = parsed(origin, &document.to_string())?;
            for finding in &mut read.findings {
                finding.finding.position = None;
            }
            Ok(read)
        }
        Proposal::Text(shown) => {
            if Document::read(&shown, syntax).is_err() {
                // Reading it says what is wrong.
                return parsed(origin, &shown);
            }
            match restored_text(&shown, file, syntax) {
                Ok(restored) => of_text(origin, &shown, &restored),
                Err(NotRestored::Unreadable(error)) => Err(edit::unusable(error)),
                Err(NotRestored::Unknown { secret, position }) => {
                    Ok(refused(edit::unknown_secret(&secret, Some(position))))
                }
            }
        }
    }
}

fn of_text(origin: &Origin, shown: &str, restored: &RestoredText) -> Result<Read, Failure> {
    let mut read = parsed(origin, &restored.text)?;
    for finding in &mut read.findings {
        let position = &mut finding.finding.position;
        *position = position.map(|position| restored.position_in(shown, position));
    }
    Ok(read)
}

fn refused(finding: ConfigError) -> Read {
    Read {
        findings: vec![Finding {
            severity: Severity::Error,
            finding,
        }],
        config: None,
    }
}

fn parsed(origin: &Origin, text: &str) -> Result<Read, Failure> {
    match origin.parse(Some(text)) {
        Ok(loaded) => {
            let is_valid = loaded.config.problems().next().is_none();
            Ok(Read {
                findings: Finding::all_of(&loaded),
                config: is_valid.then_some(loaded.config),
            })
        }
        Err(LoadError::Invalid { errors, .. }) => Ok(Read {
            findings: errors
                .0
                .iter()
                .map(|error| Finding::of(Severity::Error, error))
                .collect(),
            config: None,
        }),
        Err(error) => Err(error.failure()),
    }
}
