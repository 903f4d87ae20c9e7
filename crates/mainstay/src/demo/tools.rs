//! The demo server's tools.

use std::time::SystemTime;

use mainstay_platform::utc;
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DemoTool {
    Echo,
    Time,
    Add,
    Sleep,
    Flaky,
    Crash,
}

impl DemoTool {
    const ALL: [Self; 6] = [
        Self::Echo,
        Self::Time,
        Self::Add,
        Self::Sleep,
        Self::Flaky,
        Self::Crash,
    ];

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Time => "time",
            Self::Add => "add",
            Self::Sleep => "sleep",
            Self::Flaky => "flaky",
            Self::Crash => "crash",
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::Echo => "Returns its text",
            Self::Time => "The time, in UTC",
            Self::Add => "Adds two numbers",
            Self::Sleep => "Answers after a while",
            Self::Flaky => "Fails every other time",
            Self::Crash => "Ends the server's process, with code 3 and without an answer",
        }
    }

    /// Name, type and description of each argument. All arguments are required.
    const fn arguments(self) -> &'static [(&'static str, &'static str, &'static str)] {
        match self {
            Self::Echo => &[("text", "string", "What to return")],
            Self::Add => &[
                ("a", "number", "One number"),
                ("b", "number", "And another"),
            ],
            Self::Sleep => &[("ms", "integer", "How long, in milliseconds")],
            Self::Time | Self::Flaky | Self::Crash => &[],
        }
    }

    /// The error text for invalid arguments. `None` if the arguments are valid.
    pub fn fault(self, arguments: &Value) -> Option<String> {
        self.arguments().iter().find_map(|&(name, kind, _)| {
            let value = &arguments[name];
            let fits = match kind {
                "string" => value.is_string(),
                "integer" => value.is_u64(),
                _ => value.is_number(),
            };
            (!fits).then(|| format!("\"{name}\" must be of type {kind}"))
        })
    }

    /// The result text of a tool without side effects.
    pub fn run(self, arguments: &Value) -> String {
        match self {
            Self::Echo => arguments["text"].as_str().unwrap_or_default().to_owned(),
            Self::Time => utc::rfc3339(SystemTime::now()),
            Self::Add => add(&arguments["a"], &arguments["b"]),
            Self::Sleep => format!("slept {} ms", arguments["ms"]),
            Self::Flaky => "this time it worked".to_owned(),
            Self::Crash => String::new(),
        }
    }
}

/// Adds two numbers. The sum of two integers is an integer.
fn add(a: &Value, b: &Value) -> String {
    let whole = || a.as_i64()?.checked_add(b.as_i64()?);
    match whole() {
        Some(sum) => sum.to_string(),
        None => (a.as_f64().unwrap_or_default() + b.as_f64().unwrap_or_default()).to_string(),
    }
}

pub fn list() -> Vec<Value> {
    let entry = |tool: DemoTool| {
        let arguments = tool.arguments();
        let properties: serde_json::Map<String, Value> = arguments
            .iter()
            .map(|(name, kind, description)| {
                (
                    (*name).to_owned(),
                    json!({"type": kind, "description": description}),
                )
            })
            .collect();
        json!({
            "name": tool.name(),
            "description": tool.description(),
            "inputSchema": {
                "type": "object",
                "properties": properties,
                "required": arguments.iter().map(|(name, ..)| name).collect::<Vec<_>>(),
                "additionalProperties": false,
            },
        })
    };
    DemoTool::ALL.into_iter().map(entry).collect()
}

pub fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

/// The result of a failed call, with `isError` set (specification, tools, "Error Handling").
pub fn failed(reason: &str) -> Value {
    json!({"content": [{"type": "text", "text": reason}], "isError": true})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact_where_they_can_be() {
        for (a, b, sum) in [
            (json!(2), json!(3), "5"),
            (json!(0.5), json!(1), "1.5"),
            (
                json!(9_007_199_254_740_993_i64),
                json!(1),
                "9007199254740994",
            ),
        ] {
            assert_eq!(DemoTool::Add.run(&json!({"a": a, "b": b})), sum);
        }
    }

    #[test]
    fn wrong_arguments_are_named() {
        assert_eq!(
            DemoTool::Add.fault(&json!({"a": 1})).as_deref(),
            Some("\"b\" must be of type number")
        );
        assert_eq!(
            DemoTool::Sleep.fault(&json!({"ms": -1})).as_deref(),
            Some("\"ms\" must be of type integer")
        );
        assert_eq!(DemoTool::Time.fault(&Value::Null), None);
    }
}
