//! The output of `search_tools`: as many tools as fit, each with its whole input schema.

use std::fmt::Write as _;

use mainstay_core::{
    catalog::ItemTarget,
    message::{self, quote},
};
use serde_json::json;

/// Maximum size of the response on the wire, in bytes.
pub const MAX_FOUND: usize = 16_000;

/// Bytes reserved for the envelope and for members other than the tools.
const FRAME: usize = 1_000;

/// Bytes for the tools, after escaping in a JSON string.
const ROOM: usize = MAX_FOUND - FRAME;

/// Maximum length of a description, in characters. `describe_tool` returns all of it.
const MAX_DESCRIPTION: usize = 1_000;

/// Maximum number of names of tools that are too large for the output.
const MAX_TOO_LARGE: usize = 5;

/// Maximum length of such a name, in characters.
const MAX_NAME: usize = 100;

#[derive(Debug, Default)]
pub struct FoundTools {
    tools: Vec<String>,
    too_large: Vec<String>,
    used: usize,
}

impl FoundTools {
    /// Adds a tool (JSON text). Returns false if there is no room left. A tool that alone exceeds
    /// the room is only named, because a schema must be whole.
    pub fn add(&mut self, name: &str, tool: String) -> bool {
        let size = quote(&tool).len();
        if size > ROOM {
            if self.too_large.len() < MAX_TOO_LARGE {
                self.too_large.push(name.chars().take(MAX_NAME).collect());
            }
            return true;
        }
        if self.used + size > ROOM {
            return false;
        }
        self.used += size;
        self.tools.push(tool);
        true
    }

    /// The output as JSON. `match_count` is the number of all matching tools.
    pub fn to_json(&self, match_count: usize) -> String {
        let omitted_count = match_count - self.tools.len() - self.too_large.len();
        let mut json = format!(
            r#"{{"tools":[{}],"more":{omitted_count}"#,
            self.tools.join(",")
        );
        if !self.too_large.is_empty() {
            let note = json!({"names": self.too_large, "see": "describe_tool"});
            let _ = write!(json, r#","tooLarge":{note}"#);
        }
        if match_count == 0 {
            json.push_str(r#","hint":"no tool has any of these words: try others""#);
        }
        json.push('}');
        json
    }
}

/// One tool of the output (JSON text), with its input schema. `status` is the status of its server,
/// if that is not connected.
pub fn tool(exposed_name: &str, target: &ItemTarget, item: &str, status: Option<&str>) -> String {
    let description = message::shown_member(item, "description").unwrap_or_default();
    let mut tool = format!(
        r#"{{"name":{},"server":{},"description":{},"inputSchema":{}"#,
        quote(exposed_name),
        quote(target.server.as_str()),
        quote(&shortened(&description)),
        message::member(item, "inputSchema").unwrap_or(r#"{"type":"object"}"#),
    );
    if let Some(status) = status {
        let _ = write!(tool, r#","status":"{status}""#);
    }
    tool.push('}');
    tool
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_DESCRIPTION) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use mainstay_core::{ids::ServerName, message::response};
    use serde_json::Value;

    use super::*;

    /// A tool with a schema of about `bytes` bytes, each of which needs escaping.
    fn tool_of_size(bytes: usize) -> String {
        let schema = json!({"type": "object", "x": vec!["\"\\"; bytes / 7]});
        let item = json!({"name": "n", "description": "d".repeat(5_000), "inputSchema": schema});
        let target = ItemTarget::new(ServerName::new("s").expect("a name"), "n");
        tool("s__n", &target, &item.to_string(), None)
    }

    /// The response on the wire, and the parsed output.
    fn answer(found_tools: &FoundTools, match_count: usize) -> (String, Value) {
        let output = found_tools.to_json(match_count);
        let text = quote(&output);
        let result = format!(r#"{{"content":[{{"type":"text","text":{text}}}]}}"#);
        let parsed_output = serde_json::from_str(&output).expect("JSON");
        (response("1234567890", &result), parsed_output)
    }

    #[test]
    fn there_are_fewer_tools_rather_than_parts_of_schemas() {
        for size in [10, 100, 1_000, 4_000] {
            let mut found_tools = FoundTools::default();
            let tool = tool_of_size(size);
            let count = (0..1_000)
                .take_while(|_| found_tools.add("s__n", tool.clone()))
                .count();
            let (wire, output) = answer(&found_tools, 1_000);
            assert!(wire.len() <= MAX_FOUND, "{} bytes", wire.len());
            let room_for_more = 2 * quote(&tool).len();
            assert!(wire.len() + room_for_more > ROOM, "{} bytes", wire.len());
            let tools = output["tools"].as_array().expect("a list");
            assert_eq!(
                (tools.len(), &output["more"]),
                (count, &json!(1_000 - count))
            );
            let whole: Value = serde_json::from_str(&tool).expect("JSON");
            assert!(tools.iter().all(|tool_json| *tool_json == whole), "whole");
            let description = whole["description"].as_str().expect("a description");
            assert_eq!(description.chars().count(), MAX_DESCRIPTION + 1);
        }
    }

    #[test]
    fn a_tool_that_never_fits_is_named() {
        let mut found_tools = FoundTools::default();
        for _ in 0..10 {
            assert!(found_tools.add(&"n".repeat(10_000), tool_of_size(40_000)));
        }
        assert!(found_tools.add("small", tool_of_size(10)));
        let (wire, output) = answer(&found_tools, 11);
        assert!(wire.len() <= MAX_FOUND);
        assert_eq!(output["tools"].as_array().map(Vec::len), Some(1));
        let names = output["tooLarge"]["names"].as_array().expect("names");
        assert_eq!((names.len(), &output["more"]), (MAX_TOO_LARGE, &json!(5)));
    }
}
