//! The effect of a tool, by the hints of its server.

use crate::message;

/// The effect of a tool on its environment, as the server's annotations claim (specification
/// 2025-11-25, "Tools", `ToolAnnotations`). A hint is not proof. A tool without hints counts as
/// destructive, as the specification has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ToolEffect {
    /// `readOnlyHint` is true.
    ReadOnly,
    /// The tool changes something, and `destructiveHint` is false.
    Additive,
    #[default]
    Destructive,
}

impl ToolEffect {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Additive => "additive",
            Self::Destructive => "destructive",
        }
    }

    /// Reads the effect from the JSON text of a tool.
    pub fn from_tool(tool: &str) -> Self {
        let Some(annotations) = message::member(tool, "annotations") else {
            return Self::Destructive;
        };
        let hint = |name| message::member(annotations, name);
        if hint("readOnlyHint") == Some("true") {
            Self::ReadOnly
        } else if hint("destructiveHint") == Some("false") {
            Self::Additive
        } else {
            Self::Destructive
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_destructive_unless_its_hints_say_otherwise() {
        for (annotations, effect) in [
            ("", ToolEffect::Destructive),
            (r#","annotations":{}"#, ToolEffect::Destructive),
            (r#","annotations":null"#, ToolEffect::Destructive),
            (r#","annotations":"readOnlyHint""#, ToolEffect::Destructive),
            (
                r#","annotations":{"readOnlyHint":true}"#,
                ToolEffect::ReadOnly,
            ),
            (
                r#","annotations":{"readOnlyHint":true,"destructiveHint":true}"#,
                ToolEffect::ReadOnly,
            ),
            (
                r#","annotations":{"readOnlyHint":"true"}"#,
                ToolEffect::Destructive,
            ),
            (
                r#","annotations":{"destructiveHint":false}"#,
                ToolEffect::Additive,
            ),
            (
                r#","annotations":{"readOnlyHint":false,"destructiveHint":true}"#,
                ToolEffect::Destructive,
            ),
        ] {
            let tool = format!(r#"{{"name":"t"{annotations}}}"#);
            assert_eq!(ToolEffect::from_tool(&tool), effect, "{tool}");
        }
    }
}
