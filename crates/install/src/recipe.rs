//! The command or URL of a server, with its secrets masked for display.

use serde_json::{Map, Value};

use crate::literal::literal;

/// The text that is shown in place of a secret.
pub const MASK: &str = "***";

/// A text of a configuration, and its form for display.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// The text in the configuration, with references.
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

    /// Creates a text from a publisher's text, in which references are escaped.
    pub fn literal(text: &str) -> Self {
        Self::open(literal(text))
    }

    /// Appends a publisher's text, in which references are escaped.
    pub fn push_literal(&mut self, text: &str) {
        self.join(&literal(text));
    }

    /// Appends a text of the configuration.
    pub fn push(&mut self, text: &Self) {
        self.join(&text.value);
        self.is_secret |= text.is_secret;
    }

    /// Appends a text. Prevents a reference that would arise where the two texts meet.
    fn join(&mut self, text: &str) {
        if self.value.ends_with('$') && text.starts_with('{') {
            self.value.push('$');
        }
        self.value.push_str(text);
    }

    /// The value, or [`MASK`] for a secret.
    pub fn masked(&self) -> &str {
        if self.is_secret { MASK } else { &self.value }
    }
}

/// The command that starts a server, or the URL that reaches it.
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
    /// The recipe as the entry of a configuration.
    pub fn entry(&self) -> Map<String, Value> {
        let mut entry = Map::new();
        let pairs = |pairs: &[(String, Text)]| -> Value {
            pairs
                .iter()
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
                let values = args.iter().map(|arg| Value::from(arg.value.as_str()));
                entry.insert("args".to_owned(), values.collect());
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
