//! How a server is started or reached, with what of it may be shown.

use serde_json::{Map, Value};

use crate::literal::literal;

/// What is shown in the place of a secret.
pub const MASK: &str = "***";

/// A text of a configuration and how people see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// As a configuration has it, with references.
    pub value: String,
    pub is_secret: bool,
}

impl Text {
    pub fn open(value: impl Into<String>) -> Self {
        Self {
            value: value.into(),
            is_secret: false,
        }
    }

    /// A text of a stranger, which holds no references.
    pub fn literal(text: &str) -> Self {
        Self::open(literal(text))
    }

    /// Appends a stranger's text.
    pub fn push_literal(&mut self, text: &str) {
        self.join(&literal(text));
    }

    /// Appends a text as a configuration has it.
    pub fn push(&mut self, text: &Self) {
        self.join(&text.value);
        self.is_secret |= text.is_secret;
    }

    /// No reference comes about where two texts meet.
    fn join(&mut self, text: &str) {
        if self.value.ends_with('$') && text.starts_with('{') {
            self.value.push('$');
        }
        self.value.push_str(text);
    }

    pub fn shown(&self) -> &str {
        if self.is_secret { MASK } else { &self.value }
    }
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipe {
    Command {
        command: Text,
        args: Vec<Text>,
        env: Vec<(String, Text)>,
        cwd: Option<String>,
    },
    Url {
        url: Text,
        /// `http` or `sse`.
        transport: &'static str,
        headers: Vec<(String, Text)>,
    },
}

impl Recipe {
    /// The entry of a configuration.
    pub fn entry(&self) -> Map<String, Value> {
        let mut entry = Map::new();
        let pairs = |pairs: &[(String, Text)]| -> Value {
            let pairs = pairs.iter();
            pairs
                .map(|(key, text)| (key.clone(), Value::from(text.value.as_str())))
                .collect::<Map<_, _>>()
                .into()
        };
        match self {
            Self::Command {
                command,
                args,
                env,
                cwd,
            } => {
                entry.insert("command".to_owned(), command.value.as_str().into());
                let args = args.iter().map(|arg| Value::from(arg.value.as_str()));
                entry.insert("args".to_owned(), args.collect());
                if !env.is_empty() {
                    entry.insert("env".to_owned(), pairs(env));
                }
                if let Some(cwd) = cwd {
                    entry.insert("cwd".to_owned(), cwd.as_str().into());
                }
            }
            Self::Url {
                url,
                transport,
                headers,
            } => {
                entry.insert("url".to_owned(), url.value.as_str().into());
                entry.insert("transport".to_owned(), (*transport).into());
                if !headers.is_empty() {
                    entry.insert("headers".to_owned(), pairs(headers));
                }
            }
        }
        entry
    }
}
