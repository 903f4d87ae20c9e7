//! Shows what an entry would run, before it runs: the command line or the URL, with secrets masked.

use mainstay_command_line::screen::complain;
use mainstay_config::{edit::Entry, masking};
use mainstay_core::display::word;
use mainstay_install::recipe::{MASK, Recipe, Text};
use serde_json::Value;

/// What would run, as far as people see it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The command line, or the URL.
    target: String,
    /// Variables and headers, the folder, where it comes from.
    about: Vec<String>,
}

impl Shown {
    pub fn of_recipe(recipe: &Recipe) -> Self {
        // A stranger may have written them: `LD_PRELOAD` decides what is run as much as the command does.
        let names = |what: &str, pairs: &[(String, Text)]| {
            let pairs = pairs.iter().map(|(name, text)| {
                let value = text.masked();
                if masking::is_secret_pair(name, value) {
                    format!("{}={MASK}", word(name))
                } else {
                    format!("{}={}", word(name), word(value))
                }
            });
            let pairs = pairs.collect::<Vec<_>>().join(", ");
            (!pairs.is_empty()).then(|| format!("{what} {pairs}"))
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
                    .map(|text| word(text.masked()));
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

    /// What an entry would run whose words were given by hand, or come from another file.
    pub fn of_entry(entry: &Entry) -> Self {
        // Placeholders of secrets name their places, which mean nothing here.
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
        let mut shown = Self {
            target: words.map(|it| word(&it)).collect::<Vec<_>>().join(" "),
            about: Vec::new(),
        };
        for (key, what) in [
            ("env", "with the variables"),
            ("headers", "with the headers"),
        ] {
            if let Some(Value::Object(members)) = masked.get(key) {
                let names: Vec<_> = members.keys().map(|name| word(name)).collect();
                shown.about.push(format!("{what} {}", names.join(", ")));
            }
        }
        if let Some(cwd) = masked.get("cwd").and_then(Value::as_str) {
            shown.about.push(format!("in {}", word(cwd)));
        }
        shown
    }

    pub fn and(mut self, line: impl Into<String>) -> Self {
        self.about.push(line.into());
        self
    }

    /// The command comes last, so that nothing of the rest scrolls it away.
    pub fn tell(&self, name: &str) {
        complain(&format!("{name} would be:"));
        for line in &self.about {
            complain(&format!("  {line}"));
        }
        complain(&format!("  {}", self.target));
    }
}
