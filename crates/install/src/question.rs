//! Questions that a person must or may answer before a server can be started.

use std::collections::BTreeMap;

/// The maximum number of values for one question.
pub const MAX_VALUES: usize = 100;

/// The maximum length of a description that is shown, in characters.
const MAX_DESCRIPTION: usize = 300;

/// The format of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Text,
    Number,
    Boolean,
    /// A file or a folder of this machine.
    Path,
}

/// A question for one setting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Question {
    /// The name for `--set`: the name of the variable, header or option.
    pub key: String,
    pub description: String,
    pub required: bool,
    pub secret: bool,
    pub default: Vec<String>,
    pub choices: Vec<String>,
    pub placeholder: String,
    pub format: Format,
    /// True if several values are possible.
    pub repeated: bool,
    pub min: Option<f64>,
    pub max: Option<f64>,
}

/// The values of each question by its key. References in the values are resolved, as in a
/// configuration.
pub type Answers = BTreeMap<String, Vec<String>>;

/// The reason that a value is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BadAnswer {
    #[error("{key} must be one of: {}", .choices.join(", "))]
    Choice { key: String, choices: Vec<String> },
    #[error("{0} must be a number")]
    Number(String),
    #[error("{0} must be true or false")]
    Boolean(String),
    #[error("{key} must be {words}")]
    Range { key: String, words: String },
    #[error("{0} takes one value")]
    Several(String),
    #[error("{0} takes at most {MAX_VALUES} values")]
    TooMany(String),
    #[error("{0} is not asked for")]
    Unknown(String),
}

impl Question {
    /// The description, shortened for a terminal.
    pub fn described(&self) -> String {
        let line = self.description.split_whitespace();
        let line = line.collect::<Vec<_>>().join(" ");
        match line.char_indices().nth(MAX_DESCRIPTION) {
            Some((at, _)) => format!("{}…", &line[..at]),
            None => line,
        }
    }

    /// True if the server needs an answer and has none.
    pub fn is_open(&self, answers: &Answers) -> bool {
        self.required && self.default.is_empty() && self.values(answers).is_empty()
    }

    /// The values of the answer, or the default.
    pub fn values<'a>(&'a self, answers: &'a Answers) -> &'a [String] {
        match answers.get(&self.key) {
            Some(values) if !values.is_empty() => values,
            _ => &self.default,
        }
    }

    /// Checks the values. A reference is valid for any format.
    pub fn check(&self, values: &[String]) -> Result<(), BadAnswer> {
        if values.len() > MAX_VALUES {
            return Err(BadAnswer::TooMany(self.key.clone()));
        }
        if values.len() > 1 && !self.repeated {
            return Err(BadAnswer::Several(self.key.clone()));
        }
        for value in values.iter().filter(|value| !value.contains("${")) {
            self.check_one(value)?;
        }
        Ok(())
    }

    fn check_one(&self, value: &str) -> Result<(), BadAnswer> {
        let key = || self.key.clone();
        if !self.choices.is_empty() && !self.choices.iter().any(|choice| choice == value) {
            return Err(BadAnswer::Choice {
                key: key(),
                choices: self.choices.iter().take(MAX_VALUES).cloned().collect(),
            });
        }
        match self.format {
            Format::Text | Format::Path => {}
            Format::Boolean if matches!(value, "true" | "false") => {}
            Format::Boolean => return Err(BadAnswer::Boolean(key())),
            Format::Number => {
                let number: f64 = value.parse().map_err(|_| BadAnswer::Number(key()))?;
                if !number.is_finite() {
                    return Err(BadAnswer::Number(key()));
                }
                let words = match (self.min, self.max) {
                    (Some(min), _) if number < min => format!("at least {min}"),
                    (_, Some(max)) if number > max => format!("at most {max}"),
                    _ => return Ok(()),
                };
                return Err(BadAnswer::Range { key: key(), words });
            }
        }
        Ok(())
    }
}

/// Checks all answers. Returns an error for the first invalid answer, or for an answer without a
/// question.
pub fn check(questions: &[Question], answers: &Answers) -> Result<(), BadAnswer> {
    for (key, values) in answers {
        let mut matching = questions
            .iter()
            .filter(|question| question.key == *key)
            .peekable();
        if matching.peek().is_none() {
            return Err(BadAnswer::Unknown(key.clone()));
        }
        for question in matching {
            question.check(values)?;
        }
    }
    Ok(())
}

/// The required questions without an answer.
pub fn open<'q>(questions: &'q [Question], answers: &Answers) -> Vec<&'q Question> {
    let open = questions
        .iter()
        .filter(|question| question.is_open(answers));
    open.collect()
}
