//! A server that is ready to be tried and saved.

use mainstay_core::config::edit::Entry;
use serde_json::Value;

use super::{bundle::Unpacked, shown::Shown};

pub struct Prepared {
    /// The name that it has unless another was given.
    pub name: String,
    pub entry: Entry,
    pub shown: Shown,
    /// The folder of a bundle, which goes if the server is not saved.
    pub unpacked: Option<Unpacked>,
}

impl Prepared {
    /// With more variables for its process.
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
        self.shown = self
            .shown
            .and(format!("and the variables {}", names.join(", ")));
        self
    }
}
