//! Shows the command line or URL of an entry before it runs. Secrets are masked.

use mainstay_command_line::screen::complain;
use mainstay_config::{edit::Entry, masking};
use mainstay_core::display::word;
use mainstay_install::recipe::{MASK, Recipe, Text};
use serde_json::Value;

/// The text that a person sees before a server starts.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LaunchPreview {
    /// The command line, or the URL.
    target: String,
    /// Lines about variables, headers, the folder and the source.
    about: Vec<String>,
}

impl LaunchPreview {
    pub fn from_recipe(recipe: &Recipe) -> Self {
        // Show the variables as well. The recipe may come from a stranger, and a variable such as
        // `LD_PRELOAD` can run code as the command does.
        let names = |label: &str, pairs: &[(String, Text)]| {
            let masked = pairs.iter().map(|(name, text)| {
                let value = text.masked();
                if masking::is_secret_pair(name, value) {
                    format!("{}={MASK}", word(name))
                } else {
                    format!("{}={}", word(name), word(value))
                }
            });
            let pairs = masked.collect::<Vec<_>>().join(", ");
            (!pairs.is_empty()).then(|| format!("{label} {pairs}"))
        };
        match recipe {
            Recipe::Command {
                command,
                args,
                env,
                cwd,
            } => {
                let words = std::iter::once(command)
                    .chain(args)
                    .map(|part| word(part.masked()));
                let mut about = Vec::from_iter(names("with the variables", env));
                about.extend(cwd.as_ref().map(|cwd| format!("in {}", word(cwd))));
                Self {
                    target: words.collect::<Vec<_>>().join(" "),
                    about,
                }
            }
            Recipe::Url {
                url,
                transport,
                headers,
            } => {
                let over = match *transport {
                    "sse" => "over HTTP+SSE",
                    _ => "over Streamable HTTP",
                };
                let mut about = vec![over.to_owned()];
                about.extend(names("with the headers", headers));
                Self {
                    target: word(url.masked()),
                    about,
                }
            }
        }
    }

    /// Previews an entry that the command line or another file describes.
    pub fn from_entry(entry: &Entry) -> Self {
        // Cut a `${secret:...}` placeholder. The place that it names does not help the reader.
        let masked = masking::masked_entry(entry, "");
        let text = |value: &Value| match value.as_str() {
            Some(text) => match text.find("${secret:") {
                Some(at) => format!("{}***", &text[..at]),
                None => text.to_owned(),
            },
            None => value.to_string(),
        };
        let words = ["command", "args", "url"]
            .into_iter()
            .filter_map(|key| masked.get(key));
        let words = words.flat_map(|value| match value {
            Value::Array(values) => values.iter().map(text).collect(),
            other => vec![text(other)],
        });
        let mut preview = Self {
            target: words.map(|part| word(&part)).collect::<Vec<_>>().join(" "),
            about: Vec::new(),
        };
        for (key, label) in [
            ("env", "with the variables"),
            ("headers", "with the headers"),
        ] {
            if let Some(Value::Object(members)) = masked.get(key) {
                let names: Vec<_> = members.keys().map(|name| word(name)).collect();
                preview.about.push(format!("{label} {}", names.join(", ")));
            }
        }
        if let Some(cwd) = masked.get("cwd").and_then(Value::as_str) {
            preview.about.push(format!("in {}", word(cwd)));
        }
        preview
    }

    /// Adds a line about the server.
    pub fn with_line(mut self, line: impl Into<String>) -> Self {
        self.about.push(line.into());
        self
    }

    /// Prints the lines and then the command, so that no later line scrolls the command away.
    pub fn print(&self, name: &str) {
        complain(&format!("{name} would be:"));
        for line in &self.about {
            complain(&format!("  {line}"));
        }
        complain(&format!("  {}", self.target));
    }
}
