//! Says what is wrong with a configuration that is proposed, and what would follow from it. Nothing is
//! written.

use mainstay_core::{
    config::{
        Config, ConfigError, Plan, Syntax,
        edit::Document,
        masked_text::{NotRestored, Restored, restored_text},
    },
    failure::Failure,
};
use mainstay_platform::{
    blocking::off_the_runtime,
    environment::{LoadError, Origin},
};
use serde_json::Value;

use super::{Reloader, edit, restored};

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
    pub plan: Option<Plan>,
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
                Some(Plan::between(&current, &config))
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
            let value = match restored(&value, &before) {
                Ok(value) => value,
                Err(unknown) => return Ok(refused(unknown.message, None)),
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
                    Ok(refused(secret.to_string(), Some(position)))
                }
            }
        }
    }
}

fn of_text(origin: &Origin, shown: &str, restored: &Restored) -> Result<Read, Failure> {
    let mut read = parsed(origin, &restored.text)?;
    for finding in &mut read.findings {
        let position = &mut finding.finding.position;
        *position = position.map(|position| restored.position_in(shown, position));
    }
    Ok(read)
}

fn refused(message: String, position: Option<(usize, usize)>) -> Read {
    let finding = ConfigError {
        path: String::new(),
        message,
        hint: Some("write the secret itself, or a reference such as ${NAME}".to_owned()),
        position,
        awaits_file: false,
    };
    Read {
        findings: vec![Finding {
            severity: Severity::Error,
            finding,
        }],
        config: None,
    }
}

fn parsed(origin: &Origin, text: &str) -> Result<Read, Failure> {
    let of = |severity, finding: &ConfigError| Finding {
        severity,
        finding: finding.clone(),
    };
    match origin.parse(Some(text)) {
        Ok(loaded) => {
            let problems = loaded.config.problems();
            let mut findings: Vec<Finding> = problems
                .map(|(_, problem)| of(Severity::Error, problem))
                .collect();
            let is_valid = findings.is_empty();
            let warnings = loaded.warnings.iter();
            findings.extend(warnings.map(|warning| of(Severity::Warning, warning)));
            Ok(Read {
                findings,
                config: is_valid.then_some(loaded.config),
            })
        }
        Err(LoadError::Invalid { errors, .. }) => Ok(Read {
            findings: errors
                .0
                .iter()
                .map(|error| of(Severity::Error, error))
                .collect(),
            config: None,
        }),
        Err(error) => Err(error.failure()),
    }
}
