//! The names for completion: a snapshot of the daemon's names.

use mainstay_api as api;
use mainstay_core::{display, message::foreign};
use serde_json::Value;

/// Names and schemas at the time of the last query.
#[derive(Debug, Default)]
pub struct CompletionNames {
    pub servers: Vec<String>,
    pub tools: Vec<CompletionTarget>,
    pub prompts: Vec<CompletionTarget>,
    /// URIs and their descriptions.
    pub resources: Vec<(String, String)>,
}

/// A tool or a prompt.
#[derive(Debug)]
pub struct CompletionTarget {
    /// `server/tool`
    pub name: String,
    pub about: String,
    pub arguments: Vec<Argument>,
}

#[derive(Debug)]
pub struct Argument {
    pub name: String,
    pub about: String,
    /// All possible values, if they are few.
    pub values: Vec<String>,
}

impl CompletionNames {
    /// Leaves out names with characters that cannot be displayed, because they cannot be typed either.
    pub fn new(
        servers: &api::Servers,
        tools: &api::Tools,
        prompts: &api::Prompts,
        resources: &api::Resources,
    ) -> Self {
        let server_names = servers.servers.iter().map(|server| server.name.clone());
        let all_tools = tools.tools.iter().map(CompletionTarget::from);
        let all_prompts = prompts.prompts.iter().map(CompletionTarget::from);
        let all_resources = resources
            .resources
            .iter()
            .map(|resource| (resource.uri.clone(), headline(&resource.name)));
        Self {
            servers: server_names.filter(|name| is_plain(name)).collect(),
            tools: all_tools.filter(|tool| is_plain(&tool.name)).collect(),
            prompts: all_prompts
                .filter(|prompt| is_plain(&prompt.name))
                .collect(),
            resources: all_resources.filter(|(uri, _)| is_plain(uri)).collect(),
        }
    }
}

impl CompletionTarget {
    /// A tool with this input schema.
    pub fn from_schema(name: &str, description: &str, schema: &str) -> Self {
        Self {
            name: name.to_owned(),
            about: headline(description),
            arguments: of_schema(schema),
        }
    }
}

impl From<&api::Tool> for CompletionTarget {
    fn from(tool: &api::Tool) -> Self {
        Self::from_schema(&tool.name, &tool.description, tool.input_schema.get())
    }
}

impl From<&api::Prompt> for CompletionTarget {
    fn from(prompt: &api::Prompt) -> Self {
        Self {
            name: prompt.name.clone(),
            about: headline(&prompt.description),
            arguments: of_prompt(prompt.arguments.get()),
        }
    }
}

/// True if a terminal displays the text unchanged.
fn is_plain(text: &str) -> bool {
    display::line(text) == text
}

fn headline(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    display::line(line.trim()).into_owned()
}

/// The arguments in a tool's schema.
fn of_schema(schema: &str) -> Vec<Argument> {
    let schema: Value = foreign::read(schema).unwrap_or_default();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let arguments = properties.map(|(name, property)| Argument {
        name: name.clone(),
        about: headline(property["description"].as_str().unwrap_or_default()),
        values: values(property),
    });
    arguments
        .filter(|argument| is_plain(&argument.name))
        .collect()
}

/// The values of an `enum`, a `const` or a boolean, and those of its alternatives.
fn values(property: &Value) -> Vec<String> {
    let as_text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut values: Vec<String> = match &property["enum"] {
        Value::Array(values) => values.iter().map(as_text).collect(),
        _ => property.get("const").map(as_text).into_iter().collect(),
    };
    if values.is_empty() && property["type"] == "boolean" {
        values = ["true", "false"].map(str::to_owned).to_vec();
    }
    for choices in ["anyOf", "oneOf"] {
        let choices = property[choices].as_array().into_iter().flatten();
        values.extend(choices.flat_map(self::values));
    }
    values.retain(|value| is_plain(value));
    values
}

fn of_prompt(arguments: &str) -> Vec<Argument> {
    let values: Vec<Value> = foreign::read(arguments).unwrap_or_default();
    let arguments = values.iter().filter_map(|argument| {
        let text = |member: &str| argument[member].as_str();
        Some(Argument {
            name: text("name").filter(|name| is_plain(name))?.to_owned(),
            about: headline(text("description").unwrap_or_default()),
            values: Vec::new(),
        })
    });
    arguments.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_has_names_and_values() {
        let schema = r#"{"properties": {
            "mode": {"enum": ["fast", 2, "a\u001b[2J"], "description": " how \n more"},
            "flag": {"type": "boolean"},
            "either": {"anyOf": [{"const": "x"}, {"type": "null"}]},
            "free": {"type": "string"},
            "b\u202ead": {}
        }}"#;
        let found: Vec<(String, String, Vec<String>)> = of_schema(schema)
            .into_iter()
            .map(|argument| (argument.name, argument.about, argument.values))
            .collect();
        let row = |name: &str, about: &str, values: &[&str]| {
            let values = values.iter().map(ToString::to_string).collect();
            (name.to_owned(), about.to_owned(), values)
        };
        assert_eq!(
            found,
            [
                row("mode", "how", &["fast", "2"]),
                row("flag", "", &["true", "false"]),
                row("either", "", &["x"]),
                row("free", "", &[]),
            ]
        );
        for odd in ["", "7", "{\"properties\": 7}"] {
            assert!(of_schema(odd).is_empty());
        }
        let prompt = of_prompt(r#"[{"name": "city", "description": "where"}, {"x": 1}]"#);
        assert_eq!((prompt.len(), &*prompt[0].name), (1, "city"));
    }
}
