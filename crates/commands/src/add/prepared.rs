//! A server that is ready to be started and saved.

use mainstay_config::edit::Entry;
use mainstay_install::question::{Answers, Question};
use serde_json::Value;

use super::{bundle::Unpacked, preview::LaunchPreview};

pub struct Prepared {
    /// The name of the server if the command line gives none.
    pub name: String,
    pub entry: Entry,
    pub preview: LaunchPreview,
    /// The folder of a bundle. It is removed if the server is not saved.
    pub unpacked: Option<Unpacked>,
    /// The keys of secrets that the entry holds in clear.
    pub in_clear: Vec<String>,
}

/// The keys of answers that contain a secret in clear instead of a reference to it.
pub fn in_clear(questions: &[Question], answers: &Answers) -> Vec<String> {
    let secret = questions.iter().filter(|question| question.secret);
    let is_clear = |question: &&Question| {
        let values = answers.get(&question.key).into_iter().flatten();
        values
            .into_iter()
            .any(|value| !value.is_empty() && !value.contains("${"))
    };
    secret
        .filter(is_clear)
        .map(|question| question.key.clone())
        .collect()
}

impl Prepared {
    /// Adds variables for the server's process.
    pub fn with_env(mut self, env: &[(String, String)]) -> Self {
        if env.is_empty() {
            return self;
        }
        let variables = self
            .entry
            .entry("env")
            .or_insert_with(|| Value::Object(Entry::new()));
        if let Value::Object(variables) = variables {
            for (key, value) in env {
                variables.insert(key.clone(), value.as_str().into());
            }
        }
        let names: Vec<_> = env.iter().map(|(key, _)| key.as_str()).collect();
        self.preview = self
            .preview
            .with_line(format!("and the variables {}", names.join(", ")));
        self
    }
}
